// Package dialect holds all lock SQL.
package dialect

// Dialect speaks a server's lock SQL.
type Dialect interface {
	// Name is "mysql" or "postgres".
	Name() string
}
