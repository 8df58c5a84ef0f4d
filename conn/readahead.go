package conn

import (
	"database/sql/driver"
	"errors"
	"io"
	"time"
)

// readAheadLimit bounds what the keeper holds of one result set, in bytes as
// counted by sizeOf. Of a larger one that its owner leaves open the server has
// the rest to send, and ends the session when it has waited for the TTL.
//
// ackRoom is what must be read for the server to be able to send more: TCP tells it
// of room in the receiver's buffer by the segment, of 64 KiB at most.
const (
	readAheadLimit = 64 << 20
	ackRoom        = 128 << 10
)

// resultSet is what was read ahead of one result set.
type resultSet struct {
	columns  []string
	types    []columnType
	rows     [][]driver.Value
	complete bool  // there is no more of it in the inner Rows
	failed   error // what NextResultSet says of it
}

// readAhead reads the result sets to their end, so that the connection is free
// to be pinged while the owner takes his time. It returns false if there is
// more than may be held, or than comes within d. The result set is then stuck if
// the server has to wait for the owner to read.
func (r *rows) readAhead(d time.Duration) bool {
	r.stuck = false
	if r.inner == nil {
		return true
	}
	r.keepRow()
	if len(r.ahead) == 0 {
		r.ahead = []resultSet{newResultSet(r.inner)}
	}
	if r.atEnd {
		r.ahead[len(r.ahead)-1].complete = true
	}
	size := 0
	for _, set := range r.ahead {
		for _, row := range set.rows {
			size += sizeOf(row)
		}
	}
	before := size
	for until := time.Now().Add(d); size < readAheadLimit && time.Now().Before(until); {
		set := &r.ahead[len(r.ahead)-1]
		if !set.complete {
			row := make([]driver.Value, len(set.columns))
			switch err := r.read(func() error { return r.inner.Next(row) }); {
			case err == nil:
				cloneBytes(row)
				set.rows = append(set.rows, row)
				size += sizeOf(row)
				continue
			case errors.Is(err, io.EOF):
				set.complete = true
			default:
				return r.stopAhead(err)
			}
		}
		if !hasNext(r.inner) {
			return r.stopAhead(nil)
		}
		if err := r.read(r.inner.(driver.RowsNextResultSet).NextResultSet); err != nil {
			r.ahead = append(r.ahead, resultSet{complete: true, failed: err})
			return r.stopAhead(nil)
		}
		r.atEnd = false
		r.ahead = append(r.ahead, newResultSet(r.inner))
	}
	r.stuck = size >= readAheadLimit && size-before < ackRoom
	return false
}

// stopAhead closes the inner Rows; err is for the owner when he gets there.
func (r *rows) stopAhead(err error) bool {
	if cerr := r.closeInner(); err == nil {
		err = cerr
	}
	r.err = err
	if err != nil {
		r.ahead[len(r.ahead)-1].complete = false
	}
	return true
}

func newResultSet(inner driver.Rows) resultSet {
	set := resultSet{columns: inner.Columns()}
	for i := range set.columns {
		set.types = append(set.types, columnTypeOf(inner, i))
	}
	return set
}

func sizeOf(row []driver.Value) int {
	n := 24 + 16*len(row)
	for _, v := range row {
		switch v := v.(type) {
		case []byte:
			n += 24 + len(v)
		case string:
			n += 16 + len(v)
		case time.Time:
			n += 24
		default:
			n += 8
		}
	}
	return n
}
