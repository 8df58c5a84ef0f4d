package conn

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/lockdb/lockdb/internal/dialect"
)

// scriptedRows is an inner Rows without a server. It gives its bytes out in one
// buffer that it uses again, as go-sql-driver does.
type scriptedRows struct {
	sets   []scriptedSet
	buf    []byte
	row    int // the current row of the first set, counted from 1
	closed int
}

type scriptedSet struct {
	columns []string
	rows    int
	id      int
	rowErr  error // what Next says after the last row; nil is io.EOF
	failed  error // what NextResultSet says instead of giving the set
}

// randomRows makes up to four sets of up to six rows. At most one thing fails,
// and then nothing comes after it.
func randomRows(random *rand.Rand) *scriptedRows {
	r := &scriptedRows{}
	for id := range 1 + random.IntN(4) {
		set := scriptedSet{columns: make([]string, 1+random.IntN(3)), rows: random.IntN(7), id: id}
		for i := range set.columns {
			set.columns[i] = fmt.Sprintf("column %d of set %d", i, id)
		}
		switch random.IntN(12) {
		case 0:
			set.rowErr = errors.New("the row cannot be read")
		case 1:
			if id > 0 {
				set.failed = errors.New("the statement fails")
			}
		}
		r.sets = append(r.sets, set)
		if set.rowErr != nil || set.failed != nil {
			break
		}
	}
	return r
}

func (r *scriptedRows) copy() *scriptedRows { return &scriptedRows{sets: r.sets} }

func (r *scriptedRows) Columns() []string { return r.sets[0].columns }

func (r *scriptedRows) Close() error {
	r.closed++
	return nil
}

func (r *scriptedRows) Next(row []driver.Value) error {
	if r.closed > 0 {
		return errors.New("Next after Close")
	}
	set := r.sets[0]
	if r.row >= set.rows {
		if set.rowErr != nil {
			return set.rowErr
		}
		return io.EOF
	}
	r.row++
	for i := range row {
		row[i] = r.value(i)
	}
	return nil
}

func (r *scriptedRows) value(column int) driver.Value {
	text := fmt.Sprintf("set %d row %d column %d", r.sets[0].id, r.row, column)
	if column%2 == 0 {
		return text
	}
	r.buf = append(r.buf[:0], text...)
	return r.buf
}

func (r *scriptedRows) HasNextResultSet() bool { return len(r.sets) > 1 }

func (r *scriptedRows) NextResultSet() error {
	if r.closed > 0 {
		return errors.New("NextResultSet after Close")
	}
	if len(r.sets) == 1 {
		return io.EOF
	}
	r.sets, r.row = r.sets[1:], 0
	return r.sets[0].failed
}

// newTestRows is a result set on a lock's session, without a lock and a server.
func newTestRows(inner driver.Rows) *rows {
	k := &Keeper{dialect: dialect.MySQL, opts: DefaultOptions()}
	s := &session{keeper: k, io: newIOMutex()}
	r := newRows(scope{lock: &Lock{keeper: k, sess: s}}, s, inner)
	s.rows = r
	return r
}
