package driver

import (
	"errors"
	"net"

	"github.com/go-sql-driver/mysql"
)

// quietLogger is the user's logger without what go-sql-driver says when it comes
// to close a socket that is closed already: lockdb closes those of sessions that
// it gives up, and tells of the loss itself.
type quietLogger struct{ mysql.Logger }

// Print implements mysql.Logger.
func (l quietLogger) Print(v ...any) {
	for _, part := range v {
		if err, ok := part.(error); ok && errors.Is(err, net.ErrClosed) {
			return
		}
	}
	l.Logger.Print(v...)
}
