package conn

import "errors"

// Within the driver code of users runs too: interceptors, codecs of pgx. If it
// panics, or ends the goroutine, what is held around the call is let go on the
// way, or everyone else would wait for it for ever; and the session is given up,
// since nobody knows what the server was told.

var errUnwound = errors.New("a call into the driver did not return: it panicked")

// unwind is deferred around calls into the driver, under io. If they did not
// return it loses the session and unlocks io.
func (s *session) unwind(returned *bool) {
	if !*returned {
		s.lose(errUnwound)
		s.io.unlock()
	}
}
