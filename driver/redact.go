package driver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// dsnError is what an inner driver said of a DSN, as far as it can be shown. The
// driver's own error is reached only if its text can be shown too: pgx's, for
// one, carries the DSN in a field.
type dsnError struct {
	text string
	err  error
}

func (e *dsnError) Error() string { return e.text }
func (e *dsnError) Unwrap() error { return e.err }

// shows tells whether text holds no part of a password.
func (d dsn) shows(text string) bool {
	if !d.clear {
		return false
	}
	for _, secret := range d.secrets {
		if secret != "" && strings.Contains(text, secret) {
			return false
		}
	}
	return true
}

// redactMySQL makes an error of mysql.ParseDSN presentable. Those that begin with
// "invalid DSN" are fixed texts; others quote what they did not understand, which
// can be a password.
func (d dsn) redactMySQL(err error) error {
	text := err.Error()
	if !strings.HasPrefix(text, "invalid DSN:") && !d.shows(text) {
		return &dsnError{text: "lockdb: the MySQL DSN is not valid (what the driver says of it could show a password): it is written as " + mysqlForms}
	}
	return &dsnError{text: "lockdb: the MySQL DSN is not valid: " + text, err: err}
}

// redactPostgres makes an error of pgx's Connect presentable: only that of its
// parser, ParseConfigError, knows the DSN.
func (d dsn) redactPostgres(err error) error {
	var parse *pgconn.ParseConfigError
	if !errors.As(err, &parse) {
		return err
	}
	if d.form == formRegistered {
		return fmt.Errorf("lockdb: no configuration is registered as %s: stdlib.RegisterConnConfig gives the name, and stdlib.UnregisterConnConfig takes it back", d.inner)
	}
	// The error's text begins with the DSN, of which pgx masks what it takes for
	// the password. The same without a message is that beginning.
	head := pgconn.NewParseConfigError(parse.ConnString, "", nil).Error()
	text, ok := strings.CutPrefix(parse.Error(), head)
	if !ok || !d.shows(text) {
		return &dsnError{text: "lockdb: the PostgreSQL DSN is not valid (what the driver says of it could show a password): it is written as " + postgresForms}
	}
	return &dsnError{text: "lockdb: the PostgreSQL DSN is not valid: " + text, err: parse.Unwrap()}
}
