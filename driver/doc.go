// Package driver registers lockdb with database/sql, in place of
// github.com/go-sql-driver/mysql and github.com/jackc/pgx/v5/stdlib, which it wraps:
//
//	import _ "github.com/lockdb/lockdb/driver"
//
//	db, err := sql.Open("lockdb", dsn) // the DSN that you have today
//
// The names are "lockdb", "mysql-lockdb" and "postgres-lockdb". They are one
// driver; the further two are for libraries that choose their SQL by the name of
// the driver, and say what server the DSN is for.
//
// # DSN
//
// The DSN goes to the real driver byte for byte as it is written, but for the
// parameters that begin with lockdb_. Its form tells the server:
//
//	PostgreSQL      postgres://user:password@host:5432/dbname?sslmode=verify-full
//	                postgresql://… is the same; several hosts, as pgx has them
//	                host=/var/run/postgresql user=app dbname=app
//	                registeredConnConfig0, from stdlib.RegisterConnConfig
//	MySQL, MariaDB  user:password@tcp(host:3306)/dbname?parseTime=true
//	                mysql://user:password@tcp(host:3306)/dbname?parseTime=true
//	                mysql://user:password@host:3306/dbname?parseTime=true
//
// In the first two of MySQL's forms the password stands as it is; in the third, a
// URL, as in PostgreSQL's, what delimits the parts is percent-escaped (%40 for
// '@'). The host of mysql:// may be the path of a unix socket, escaped
// (%2Fvar%2Frun%2Fmysqld.sock). Where a DSN reads as both servers', lockdb_dialect or
// the driver's name decides.
//
// An empty DSN is an error at the first use, not at sql.Open. For "postgres-lockdb",
// and where lockdb_dialect=postgres is all there is, it is PostgreSQL's, and the
// environment says the rest (PGHOST, PGUSER, …), as it does wherever a DSN is
// silent.
//
// No error of this package shows a password.
//
// # Options
//
// Each is a parameter of the DSN and a Go option of [OpenConnector] and
// [NewConnector], which wins. In a URL and in go-sql-driver's form parameters stand
// behind '?', percent-escaped; in the key=value form among the others, quoted as
// they are. An unknown or repeated one is an error, and so is a value out of bounds.
//
//	parameter                 option               default       values
//	lockdb_ttl                WithTTL              30s           1s to 24h
//	lockdb_raw                WithRawLocks         park          park, refuse or off
//	lockdb_max_sessions       WithMaxSessions      0             0 (no limit) or more
//	lockdb_max_idle_sessions  WithMaxIdleSessions  2             0 or more
//	lockdb_namespace          WithNamespace                      [a-z0-9_.:-]{0,24}
//	lockdb_busy_timeout       WithBusyTimeout      5s            0 (do not wait) or more
//	lockdb_pooler             WithPooler           refuse        refuse, session
//	lockdb_lease_table        WithLeaseTable       lockdb_lease  table or schema.table
//	lockdb_dialect            WithDialect          by the DSN    mysql, postgres
//	                          WithInterceptor      none          a sqlmw.Interceptor
//	                          WithObserver         none          an Observer
//	                          WithLogger           slog.Default  a *slog.Logger
//
// Durations are Go's, with a unit: 500ms, 30s, 1m30s.
//
// lockdb_ttl is that of session locks; a lease has its own, and its table is made
// with the first one (lockctx.LeaseDDL has the statement). PostgreSQL takes the
// table's name in lower case, MySQL and MariaDB as it is written.
//
// # Lock statements in SQL text
//
// A program that sends GET_LOCK, pg_advisory_lock and the like itself goes on as it
// is. With lockdb_raw=park the connection on which a statement on the *sql.DB took a
// lock is out of the pool until nothing is held on it: the lock statements of the
// goroutine that took it go there, and to all others it is another session. It comes
// on top of SetMaxOpenConns. What is left when a *sql.Tx has ended or a *sql.Conn is
// closed is released before anyone else gets the connection. What is held is known
// from results, or the server is asked; statements that cannot touch a lock cost
// nothing but a look at their text. With refuse those that can fail, and the error
// says what to write instead; with off nobody looks.
//
// Not seen are locks taken through (*sql.Conn).Raw, and in functions and triggers
// that a statement's text does not show. lockctx.Pin gives a session that is freed
// of those, too.
//
// # Connections
//
// Pooled connections are opened by the real driver's own connector. Lock sessions
// and the connections of leases, which are opened beside the pool, differ from them
// in three things. They are dialled by a function of lockdb's, around the DSN's, that
// notes the socket, to see at once when the server closes it, and sets TCP keep-alive
// to lockdb_ttl. They say who they are, unless the DSN does: application_name
// (PostgreSQL) or the connection attribute program_name (MySQL) is "lockdb", the host
// and the process id. And go-sql-driver's log is spared what it has to say of sockets
// that lockdb itself closed.
//
// Networks that a program registers with go-sql-driver (mysql.RegisterDialContext)
// dial lock sessions too, but their sockets are not watched: pings tell of a loss,
// within the TTL. The same goes for connectors that are given to NewConnector.
//
// Who waits for a lock waits at the server, about a second at a time. With a
// readTimeout of go-sql-driver's below 1.5 s the lock is tried for 20 times a second
// instead; a deadlock among locks then goes unnoticed until somebody gives up.
//
// A configuration registered with pgx is known only from a connection: if a lock is
// wanted before the pool has opened one, lockdb opens one more, once, and closes it.
//
// # Libraries above
//
// They are opened as ever, on a *sql.DB of lockdb's. On PostgreSQL it is the same with
// the names in brackets.
//
//	gorm     gorm.Open(mysql.New(mysql.Config{Conn: db})) [postgres.New(postgres.Config{Conn: db})]
//	sqlx     sqlx.NewDb(db, "mysql") ["pgx"], or sqlx.Connect("mysql-lockdb", dsn) ["postgres-lockdb"]
//	bun      bun.NewDB(db, mysqldialect.New()) [pgdialect.New()]
//	ent      entsql.OpenDB("mysql", db) ["postgres"]
//	otelsql  otelsql.OpenDB(connector), or Register and Open with a name of lockdb's
//
// sqlx knows drivers by name, one by one, and sends the others '?': for
// "postgres-lockdb" call sqlx.BindDriver("postgres-lockdb", sqlx.DOLLAR) once. ent
// knows them by the beginning of the name, but takes back what WithVar set only if the
// name is "mysql" or "postgres": hence OpenDB.
//
// What such a library does under a lock's context runs on the lock's session, a
// transaction as a whole. What it asks under a context of its own does not, such as the
// server's version before the first statement (gorm, bun, and ent before a migration),
// nor what a plugin sends to another *sql.DB, such as a replica's.
//
// Below a wrapper such as otelsql's, lockdb is found through a connection of the pool,
// which the first Acquire for a *sql.DB takes for a moment.
package driver
