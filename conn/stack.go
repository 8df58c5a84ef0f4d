package conn

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// direct tells by the call stack whether database/sql is at work for the *sql.DB
// itself: not for a *sql.Conn or a *sql.Tx, whose session is its user's. What
// called database/sql does not count: that may be at work inside another call.
func direct() bool { return !within("(*Conn).", "(*Tx).") }

// within tells whether database/sql is at work in a method of one of these types.
func within(types ...string) bool {
	var pcs [48]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for inside := false; ; {
		f, more := frames.Next()
		name, ours := strings.CutPrefix(f.Function, "database/sql.")
		switch {
		case ours && slices.ContainsFunc(types, func(t string) bool { return strings.HasPrefix(name, t) }):
			return true
		case inside && !ours, !more:
			return false
		}
		inside = ours
	}
}

// goid is the id of the calling goroutine. It costs microseconds, and is asked
// only by statements that may lock.
func goid() int64 {
	var buf [64]byte
	id, _ := goidIn(buf[:runtime.Stack(buf[:], false)])
	return id
}

// goidIn reads the id at the beginning of a stack.
func goidIn(stack []byte) (id int64, ok bool) {
	rest, ok := bytes.CutPrefix(stack, []byte("goroutine "))
	if !ok {
		return 0, false
	}
	digits, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(string(digits), 10, 64)
	return id, err == nil
}
