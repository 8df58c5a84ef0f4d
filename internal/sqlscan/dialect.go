package sqlscan

// Dialect is the family of servers for which a text is meant.
type Dialect uint8

// The dialects.
const (
	MySQL    Dialect = iota + 1 // MySQL, MariaDB and what speaks like them
	Postgres                    // PostgreSQL
)
