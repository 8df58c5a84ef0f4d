package dialect

import "errors"

// sqlState returns the code of PostgreSQL's own answer; "" if err is none. Every
// driver has it in an error of its own: pgx and lib/pq behind SQLState, bun's
// pgdriver as the field 'C' of the protocol's message.
func sqlState(err error) string {
	if s, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return s.SQLState()
	}
	if f, ok := errors.AsType[interface {
		error
		Field(k byte) string
	}](err); ok {
		return f.Field('C')
	}
	return ""
}
