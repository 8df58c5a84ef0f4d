package driver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockdb/lockdb/conn"
)

// form is how a DSN is written.
type form uint8

const (
	formEmpty       form = iota // nothing, or only white space
	formPostgresURL             // postgres://…, postgresql://…
	formKeyValue                // libpq's key=value …
	formRegistered              // a name that stdlib.RegisterConnConfig gave
	formMySQL                   // go-sql-driver's, also with mysql:// before it
	formMySQLURL                // mysql://user:password@host:port/db?…
)

// dsn is a data source name, taken apart as far as lockdb needs it.
type dsn struct {
	form    form
	dialect Dialect // "" if form is formEmpty and nobody has said
	inner   string  // what the inner driver gets: the DSN without params, else byte for byte
	params  []param // the lockdb_ parameters

	// secrets are the passwords, as written and decoded.
	secrets []string
	// clear is true if there is no doubt where the password ends, so that the
	// rest of the DSN may appear in an error.
	clear bool
	// likely is false for what parses in this form, but only just: it is not
	// taken for it unless the dialect is said.
	likely bool
}

const (
	postgresForms = `"postgres://USER:PASSWORD@HOST:5432/DBNAME?sslmode=verify-full" or "host=HOST user=USER password=PASSWORD dbname=DBNAME"`
	mysqlForms    = `"USER:PASSWORD@tcp(HOST:3306)/DBNAME?parseTime=true" or "mysql://USER:PASSWORD@HOST:3306/DBNAME"`
)

// The errors of this file show no part of the DSN.
var (
	errNeither = errors.New("lockdb: cannot tell what server the DSN is for: write PostgreSQL's as " +
		postgresForms + ", and MySQL's or MariaDB's as " + mysqlForms)
	errBoth = errors.New("lockdb: the DSN reads as PostgreSQL's key=value form and as MySQL's form: " +
		"add lockdb_dialect=postgres or lockdb_dialect=mysql, or open it as postgres-lockdb or mysql-lockdb")
	errEmpty error = emptyDSN("lockdb: the DSN is empty: PostgreSQL's is written as " + postgresForms +
		" (lockdb_dialect=postgres alone takes everything from the environment), and MySQL's or MariaDB's as " + mysqlForms)
)

// emptyDSN matches ErrUnsupported, so that nobody tries again.
type emptyDSN string

func (e emptyDSN) Error() string        { return string(e) }
func (e emptyDSN) Is(target error) bool { return target == conn.ErrUnsupported }

// parseDSN takes a DSN apart. want, if not "", is the dialect that it is said to
// be of; otherwise the DSN tells.
func parseDSN(name string, want Dialect) (dsn, error) {
	if strings.TrimSpace(name) == "" {
		return dsn{form: formEmpty, dialect: want, inner: name, clear: true}, nil
	}
	d, err := parseForm(name, want)
	if err != nil {
		return dsn{}, err
	}
	if want != "" && d.dialect != want {
		return dsn{}, fmt.Errorf("lockdb: the DSN is %s's, but it is to be opened as %s's, which is written as %s", d.dialect.server(), want.server(), want.forms())
	}
	return d, nil
}

func parseForm(name string, want Dialect) (dsn, error) {
	switch {
	case hasPostgresScheme(name):
		return parsePostgresURL(name)
	case strings.HasPrefix(name, mysqlScheme):
		return parseMySQLScheme(name)
	case isRegisteredName(name):
		return dsn{form: formRegistered, dialect: Postgres, inner: name, clear: true}, nil
	}
	switch want {
	case Postgres:
		return parseKeyValue(name)
	case MySQL:
		return parseMySQL(name)
	}
	pg, pgErr := parseKeyValue(name)
	my, myErr := parseMySQL(name)
	if pgErr != nil && pg.likely { // begins as one, and then has a fault
		return dsn{}, pgErr
	}
	isPG, isMy := pgErr == nil && pg.likely, myErr == nil && my.likely
	if isPG && isMy {
		isPG, isMy = dialectOf(pg.params) == Postgres, dialectOf(my.params) == MySQL
		if isPG == isMy {
			return dsn{}, errBoth
		}
	}
	switch {
	case isPG:
		return pg, nil
	case isMy:
		return my, nil
	case my.likely && myErr != nil:
		return dsn{}, myErr
	}
	return dsn{}, errNeither
}

func (d Dialect) server() string {
	if d == MySQL {
		return "MySQL"
	}
	return "PostgreSQL"
}

func (d Dialect) forms() string {
	if d == MySQL {
		return mysqlForms
	}
	return postgresForms
}

// isRegisteredName tells whether name is of the shape that pgx's
// stdlib.RegisterConnConfig gives. Its registry is private: whether the name is
// in it shows at Connect, as with the bare driver.
func isRegisteredName(name string) bool {
	digits, ok := strings.CutPrefix(name, "registeredConnConfig")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// stripQuery takes the lockdb_ parameters out of a query, the text after '?'.
// decodeKey and decodeValue are those of the form. What is left is byte for byte
// as it was; left is false if there is nothing, and no '?' should be.
func stripQuery(query string, decodeKey func(string) string, decodeValue func(string) (string, error)) (rest string, left bool, params []param, err error) {
	pairs := strings.Split(query, "&")
	kept := make([]string, 0, len(pairs))
	for _, pair := range pairs {
		key, raw, found := strings.Cut(pair, "=")
		key = decodeKey(key)
		if !isParam(key) {
			kept = append(kept, pair)
			continue
		}
		p := newParam(key, "")
		if !found {
			return "", false, nil, fmt.Errorf("lockdb: the DSN parameter %s has no value: write name=value", show(p.String()))
		}
		if p.value, err = decodeValue(raw); err != nil {
			return "", false, nil, fmt.Errorf("lockdb: the value of the DSN parameter %s has an invalid percent-escape", show(p.String()))
		}
		params = append(params, p)
	}
	if len(params) == 0 {
		return query, true, nil, nil
	}
	return strings.Join(kept, "&"), len(kept) > 0, params, nil
}
