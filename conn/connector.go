package conn

import (
	"database/sql/driver"

	"github.com/lockdb/lockdb/internal/dialect"
)

// Config is what a Connector is built from.
type Config struct {
	// Inner opens the sessions that database/sql pools.
	Inner driver.Connector
	// Lock opens lock sessions; nil means Inner. It differs from Inner in what
	// only lock sessions need: the dialler that reports its socket, keep-alive,
	// the name that a DBA sees.
	Lock driver.Connector
	// Dialect speaks the server's lock SQL.
	Dialect dialect.Dialect
	// Options are the user's settings.
	Options Options
}
