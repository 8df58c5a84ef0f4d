package conn

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/lockdb/lockdb/internal/dialect"
)

// rows is a result set on a lock's session. While it is open it occupies the
// gate. Its inner Rows may be gone before that: the keeper reads it to its end
// to be able to ping, and Close of the lock closes it.
type rows struct {
	sc   scope
	sess *session
	call *call    // the query's; nil if the user cannot end it
	cols []string // of the current result set

	// Guarded by the session's io.
	inner driver.Rows // nil once the inner Rows is closed
	ahead []resultSet // read ahead by the keeper; the first one is being read
	atEnd bool        // the current result set has been read to its end
	stuck bool        // the server waits for it to be read: see readAhead
	//lint:ignore U1000 rows_go127.go uses it
	inPlace
	err error // what Next says once there is nothing left to read ahead

	// Set under io, for good. What they end needs io no more, which others
	// may have for long: those to whom the session was handed on.
	dead   atomic.Pointer[error] // why the result set ended before its owner closed it
	closed atomic.Bool           // the inner Rows is
}

// drainTime bounds how long the rest of a result set may take to read whose
// context has ended. The bare drivers close the connection at once then, which
// would cost the lock.
const drainTime = time.Second

// newRows is called under io, as is everything below that does not say under.
func newRows(sc scope, s *session, inner driver.Rows) *rows {
	return &rows{sc: sc, sess: s, inner: inner, cols: inner.Columns()}
}

// goOn has the result set go on with the query's call, which is the context
// that the inner driver got for it.
func (r *rows) goOn(ctx context.Context) {
	if c, ok := ctx.(*call); ok {
		c.forRows()
		r.call = c
	}
}

// read makes a call on the inner Rows that may have to wait for the server: it
// goes on with the query's call, and ends with its context.
func (r *rows) read(call func() error) error {
	if r.call == nil {
		return call()
	}
	if err := r.call.resume(); err != nil {
		return err
	}
	s := r.sess
	s.mu.Lock()
	s.running = r.call
	s.mu.Unlock()
	err := call()
	r.call.finish()
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	return err
}

// ended returns the error of the query's context if that has ended.
func (r *rows) ended() error {
	if r.call == nil {
		return nil
	}
	return r.call.ended()
}

// gone returns why the result set ended before its owner closed it, nil if it
// did not.
func (r *rows) gone() error {
	if err := r.dead.Load(); err != nil {
		return *err
	}
	return nil
}

// under runs fn with io held, unless the result set has ended.
func (r *rows) under(fn func() error) error {
	if err := r.gone(); err != nil {
		return err
	}
	s := r.sess
	_ = s.io.lock(context.Background())
	if err := r.gone(); err != nil {
		s.io.unlock()
		return err
	}
	returned := false
	defer s.unwind(&returned)
	err := fn()
	if err != nil && !errors.Is(err, io.EOF) && s.keeper.dialect.Classify(err) != dialect.ClassServer {
		// Only a closed Rows lets go-sql-driver tell whether its connection
		// lives; database/sql closes it after an error in any case.
		_ = r.closeInner()
		if s.dead() {
			s.lose(s.whyClosed(r.ended(), err))
			err = r.sc.lock.lostIn(r.ended(), err)
		}
		r.err = err
	}
	returned = true
	s.io.unlock()
	return err
}

// Next gives copies: the keeper may move the inner Rows before database/sql
// has scanned what it was given.
func (r *rows) Next(dest []driver.Value) error {
	return r.under(func() error {
		if ok, row, err := r.nextAhead(); ok {
			copy(dest, row)
			return err
		}
		err := r.read(func() error { return r.inner.Next(dest) })
		r.atEnd = errors.Is(err, io.EOF)
		r.sess.goesOn(r.atEnd || err == nil)
		cloneBytes(dest)
		return err
	})
}

// nextAhead takes the next row from what was read ahead; ok is false if the
// inner Rows has it. err is what Next is to return for the row.
func (r *rows) nextAhead() (ok bool, row []driver.Value, err error) {
	if len(r.ahead) > 0 {
		set := &r.ahead[0]
		if len(set.rows) > 0 {
			row, set.rows[0] = set.rows[0], nil
			set.rows = set.rows[1:]
			return true, row, nil
		}
		if set.complete {
			return true, nil, io.EOF
		}
	}
	if r.inner == nil {
		if r.err != nil {
			return true, nil, r.err
		}
		return true, nil, io.EOF
	}
	return false, nil, nil
}

func cloneBytes(row []driver.Value) {
	for i, v := range row {
		if b, ok := v.([]byte); ok {
			row[i] = bytes.Clone(b)
		}
	}
}

// Columns returns the names of the current result set's columns, also when it
// has ended: database/sql looks there for the words of an error of Scan.
func (r *rows) Columns() []string { return r.cols }

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *rows) HasNextResultSet() (has bool) {
	_ = r.under(func() error {
		has = len(r.ahead) > 1 || hasNext(r.inner)
		return nil
	})
	return has
}

func hasNext(inner driver.Rows) bool {
	more, ok := inner.(driver.RowsNextResultSet)
	return ok && more.HasNextResultSet()
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *rows) NextResultSet() error {
	return r.under(func() error {
		if len(r.ahead) > 1 {
			r.ahead = r.ahead[1:]
			if err := r.ahead[0].failed; err != nil {
				return err
			}
			r.cols = r.ahead[0].columns
			return nil
		}
		more, ok := r.inner.(driver.RowsNextResultSet)
		if !ok {
			return io.EOF
		}
		r.ahead, r.atEnd, r.inPlace = nil, false, inPlace{}
		if err := r.read(more.NextResultSet); err != nil {
			return err
		}
		r.sess.goesOn(true)
		r.cols = r.inner.Columns()
		return nil
	})
}

// Close closes the result set and lets the next statement through.
func (r *rows) Close() error {
	s := r.sess
	defer r.sc.gate().leave()
	if r.closed.Load() || r.gone() != nil {
		return nil
	}
	_ = s.io.lock(context.Background())
	returned := false
	defer s.unwind(&returned)
	err := r.closeInner()
	returned = true
	dead := s.rows == nil && r.sc.lock.Err() == nil && s.dead()
	s.io.unlock()
	if dead {
		s.lose(s.whyClosed(r.ended(), err))
	}
	return err
}

func (r *rows) closeInner() (err error) {
	if r.inner != nil {
		closed := false
		if r.ended() == nil {
			err = r.read(func() error {
				closed = true
				return r.inner.Close()
			})
		}
		if !closed {
			err = r.drain()
		}
		r.sess.goesOn(err == nil)
		r.inner = nil
		if r.call != nil {
			r.call.detach()
		}
	}
	if r.sess.rows == r {
		r.sess.rows = nil
	}
	r.closed.Store(true)
	return err
}

// drain closes an inner Rows whose context has ended.
func (r *rows) drain() error {
	cut := time.AfterFunc(drainTime, r.sess.cut)
	err := r.inner.Close()
	if !cut.Stop() { // at the same moment, perhaps: see bound
		r.sess.lose(r.sess.whyClosed(r.ended(), err))
	}
	return err
}

// shut ends the result set for a reason that its owner learns at the next call.
func (r *rows) shut(reason error) {
	r.dead.Store(&reason)
	_ = r.closeInner()
}
