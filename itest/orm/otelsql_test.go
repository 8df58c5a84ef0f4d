package orm_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"testing"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// eachOtelsql runs fn with otelsql in every way that it wraps lockdb.
func eachOtelsql(t *testing.T, fn func(t *testing.T, s server, db *sql.DB)) {
	eachServer(t, func(t *testing.T, s server) {
		for name, open := range map[string]func(*testing.T, server) client{
			"OpenDB": openOtelsqlDB, "Register": openOtelsqlRegistered, "Open": openOtelsqlByName,
		} {
			t.Run(name, func(t *testing.T) { fn(t, s, open(t, s).db()) })
		}
	})
}

func TestEveryWayToALockLeadsThroughOtelsql(t *testing.T) {
	eachOtelsql(t, func(t *testing.T, s server, db *sql.DB) {
		ctx, key := testCtx(t), dbtest.Key(t)
		session := func(ctx context.Context, db plainQueryer) int64 {
			id, err := plainWork{db, s}.session(ctx)
			require.NoError(t, err)
			return id
		}
		lk, err := lockctx.TryAcquire(ctx, db, key)
		require.NoError(t, err)
		holder := s.holder(t, key)
		_, err = lockctx.TryAcquire(ctx, db, key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		require.Equal(t, holder, session(lk.Context(), db))
		require.Equal(t, holder, session(lk.Context(), lk.DB()))
		c, err := lk.Conn(ctx)
		require.NoError(t, err)
		require.Equal(t, holder, session(ctx, c))
		require.NoError(t, c.Close())
		require.NoError(t, lk.Close())

		require.NoError(t, lockctx.Do(ctx, db, key, func(ctx context.Context) error {
			require.Equal(t, s.holder(t, key), session(ctx, db))
			return nil
		}))
		require.NoError(t, lockctx.InTx(ctx, db, key, nil, func(ctx context.Context, tx *sql.Tx) error {
			require.Equal(t, s.holder(t, key), session(ctx, tx))
			return plainWork{tx, s}.insert(ctx, 1)
		}))
		require.True(t, s.has(t, 1))
		s.emptyTables(t)
	})
}

// Two wrappers of one database are two databases to lockdb; a third process
// would be no different.
func TestLocksOfTwoWrappedDatabasesExcludeEachOther(t *testing.T) {
	eachOtelsql(t, func(t *testing.T, s server, db *sql.DB) {
		lk, _ := s.acquire(t, db)
		for _, other := range []*sql.DB{s.open(t), openOtelsqlDB(t, s).db()} {
			_, err := lockctx.TryAcquire(testCtx(t), other, lk.Key())
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		}
		require.NoError(t, lk.Close())
	})
}

// Only the first call looks through a connection of the pool.
func TestAfterTheFirstLockNoneNeedsASlotOfAWrappedPool(t *testing.T) {
	eachOtelsql(t, func(t *testing.T, s server, db *sql.DB) {
		db.SetMaxOpenConns(1)
		first, _ := s.acquire(t, db)
		tx, err := db.Begin()
		require.NoError(t, err)
		second, _ := s.acquire(t, db)
		require.NoError(t, lockctx.InTx(testCtx(t), db, dbtest.Key(t), nil, func(ctx context.Context, tx *sql.Tx) error {
			return plainWork{tx, s}.insert(ctx, 1)
		}))
		require.NoError(t, first.Close())
		require.NoError(t, second.Close())
		require.NoError(t, tx.Rollback())
		s.emptyTables(t)
	})
}

func TestClosingAWrappedDatabaseReleasesItsLocks(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for name, open := range map[string]func() (*sql.DB, error){
			"OpenDB": func() (*sql.DB, error) { return otelsql.OpenDB(s.connector(t)), nil },
			"Open":   func() (*sql.DB, error) { return otelsql.Open("lockdb", s.DSN()) },
		} {
			t.Run(name, func(t *testing.T) {
				db, err := open()
				require.NoError(t, err)
				lk, _ := s.acquire(t, db)
				require.NoError(t, db.Close())
				require.Zero(t, s.holder(t, lk.Key()))
				require.ErrorIs(t, lk.Context().Err(), lockctx.ErrClosed)
				_, err = lockctx.Acquire(testCtx(t), db, lk.Key())
				require.Error(t, err)
			})
		}
	})
}

// What otelsql records of a statement under a lock is what it records of any.
func TestOtelsqlSeesStatementsUnderALock(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		recorder := tracetest.NewSpanRecorder()
		db := otelsql.OpenDB(s.connector(t), otelsql.WithTracerProvider(
			sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))))
		closeAtEnd(t, db)
		lk, _ := s.acquire(t, db)
		before := len(recorder.Ended())
		_, err := plainWork{db, s}.session(lk.Context())
		require.NoError(t, err)
		tx, err := db.BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, plainWork{tx, s}.insert(lk.Context(), 1))
		require.NoError(t, tx.Commit())
		require.NoError(t, lk.Close())
		names := map[string]int{}
		for _, span := range recorder.Ended()[before:] {
			names[span.Name()]++
		}
		require.Equal(t, 1, names["sql.conn.query"], names)
		require.Equal(t, 1, names["sql.conn.begin_tx"], names)
		require.Equal(t, 1, names["sql.tx.commit"], names)
	})
}

func TestRawThroughOtelsqlReachesTheDriversConnection(t *testing.T) {
	s := dbtest.Shared(t, dbtest.Postgres)
	db := openOtelsqlDB(t, server{Server: s}).db()
	lk, err := lockctx.Acquire(testCtx(t), db, dbtest.Key(t))
	require.NoError(t, err)
	c, err := db.Conn(testCtx(t))
	require.NoError(t, err)
	require.NoError(t, c.Raw(func(dc any) error {
		ours := dc.(interface{ Raw() sqldriver.Conn }).Raw()
		pg := ours.(interface{ Conn() *pgx.Conn }).Conn()
		var one int
		return pg.QueryRow(context.Background(), "SELECT 1").Scan(&one)
	}))
	require.NoError(t, c.Close())
	require.NoError(t, lk.Close())
}

// Before the first lock lockctx has to look through a connection of the pool.
// It must not wait for one longer than the caller would for the lock.
func TestNoFirstAcquireWaitsForAWrappedPoolLongerThanForTheLock(t *testing.T) {
	eachOtelsql(t, func(t *testing.T, s server, db *sql.DB) {
		db.SetMaxOpenConns(1)
		tx, err := db.Begin()
		require.NoError(t, err)
		key := dbtest.Key(t)

		// quickest leaves out what a busy machine adds.
		quickest := func(f func()) time.Duration {
			best := time.Hour
			for range 5 {
				start := time.Now()
				f()
				best = min(best, time.Since(start))
			}
			return best
		}
		took := quickest(func() {
			_, err = lockctx.TryAcquire(testCtx(t), db, key)
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.ErrorContains(t, err, "pool")
		})
		require.Less(t, took, 50*time.Millisecond)

		const timeout = 100 * time.Millisecond
		took = quickest(func() {
			_, err = lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(timeout))
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			require.ErrorContains(t, err, key)
		})
		require.InDelta(t, timeout, took, float64(50*time.Millisecond))

		ctx, cancel := context.WithTimeout(testCtx(t), 20*time.Millisecond)
		defer cancel()
		_, err = lockctx.Acquire(ctx, db, key, lockctx.WithTimeout(time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, lockctx.ErrNotAcquired)

		require.NoError(t, tx.Rollback())
		lk, err := lockctx.Acquire(testCtx(t), db, key, lockctx.WithTimeout(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, lk.Close())
	})
}

// otelsql can write the trace's id as a comment before each statement.
func TestWhatWouldDropTheLockIsRefusedBelowOtelsqlToo(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		db := otelsql.OpenDB(s.connector(t), otelsql.WithSQLCommenter(true),
			otelsql.WithTracerProvider(sdktrace.NewTracerProvider()),
			otelsql.WithTextMapPropagator(propagation.TraceContext{}))
		closeAtEnd(t, db)
		lk, session := s.acquire(t, db)
		ctx, span := sdktrace.NewTracerProvider().Tracer("").Start(lk.Context(), "request")
		defer span.End()
		drop := "SELECT pg_advisory_unlock_all()"
		if s.IsMySQL() {
			drop = "SELECT RELEASE_ALL_LOCKS()"
		}
		_, err := db.ExecContext(ctx, drop)
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		stmt, err := db.PrepareContext(ctx, drop)
		if err == nil {
			_, err = stmt.ExecContext(ctx)
		}
		require.ErrorIs(t, err, lockctx.ErrUnsupported)
		require.Equal(t, session, s.holder(t, lk.Key()))
		require.NoError(t, lk.Close())
	})
}
