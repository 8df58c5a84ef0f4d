package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readThrough reads as database/sql does and writes down what it sees. between
// is called wherever the keeper can come in between.
func readThrough(r driver.Rows, between func()) (seen []string) {
	note := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
	sets := r.(driver.RowsNextResultSet)
	for {
		note("columns %v", r.Columns())
		dest := make([]driver.Value, len(r.Columns()))
		for {
			between()
			err := r.Next(dest)
			between()
			if err != nil {
				note("%v", err)
				if !errors.Is(err, io.EOF) {
					return seen
				}
				break
			}
			note("%s", dest)
		}
		between()
		note("more: %v", sets.HasNextResultSet())
		between()
		if err := sets.NextResultSet(); err != nil {
			note("%v", err)
			return seen
		}
	}
}

func TestReadingAheadChangesNothingForWhoReads(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		inner := randomRows(random)
		want := readThrough(newTestRows(inner.copy()), func() {})
		r := newTestRows(inner)
		got := readThrough(r, func() { readSomeAhead(random, r) })
		require.Equal(t, want, got, "seed %d", seed)
		require.NoError(t, r.Close())
		require.Equal(t, 1, inner.closed, "seed %d", seed)
		require.Nil(t, r.sess.rows)
	}
}

// readSomeAhead reads ahead, now and then: all, or as much as comes in no time.
func readSomeAhead(random *rand.Rand, r *rows) {
	_ = r.sess.io.lock(context.Background())
	defer r.sess.io.unlock()
	switch random.IntN(6) {
	case 0:
		r.readAhead(time.Hour)
	case 1:
		r.readAhead(0)
	case 2:
		r.readAhead(time.Duration(random.IntN(1000)))
	}
}

// endlessRows is a result set of large rows that does not end.
type endlessRows struct {
	text  string
	given int
}

func (r *endlessRows) Columns() []string { return []string{"a"} }
func (r *endlessRows) Close() error      { return nil }
func (r *endlessRows) Next(row []driver.Value) error {
	r.given++
	row[0] = r.text
	return nil
}

func TestWhatIsReadAheadIsBounded(t *testing.T) {
	inner := &endlessRows{text: strings.Repeat("x", 1<<20)}
	r := newTestRows(inner)
	require.False(t, r.readAhead(time.Hour), "there is more")
	first := inner.given
	require.InDelta(t, readAheadLimit>>20, first, 1)
	require.False(t, r.readAhead(time.Hour))
	require.Equal(t, first, inner.given, "it holds as much as it may")

	row := make([]driver.Value, 1)
	for range 10 {
		require.NoError(t, r.Next(row))
	}
	require.False(t, r.readAhead(time.Hour))
	require.Equal(t, first+10, inner.given, "it may hold again what was taken")
	for range first + 5 {
		require.NoError(t, r.Next(row))
	}
	require.Equal(t, first+15, inner.given, "who reads faster is not held up")
}

func TestReadingAheadIsBoundedInTime(t *testing.T) {
	inner := &endlessRows{text: "x"}
	r := newTestRows(inner)
	for try := 0; try < 20 && inner.given == 0; try++ { // the time may be over before the first row
		start := time.Now()
		require.False(t, r.readAhead(20*time.Millisecond))
		require.Less(t, time.Since(start), 20*time.Second)
	}
	require.Positive(t, inner.given)
}

func TestAResultSetThatHasEndedStillTellsItsColumns(t *testing.T) {
	gone := errors.New("gone")
	r := newTestRows(&scriptedRows{sets: []scriptedSet{{columns: []string{"a", "b"}, rows: 1}}})
	require.NoError(t, r.Next(make([]driver.Value, 2)))
	r.shut(gone)
	require.Equal(t, gone, r.Next(make([]driver.Value, 2)))
	require.Equal(t, gone, r.NextResultSet())
	require.False(t, r.HasNextResultSet())
	require.Equal(t, []string{"a", "b"}, r.Columns(), "database/sql indexes it when a Scan fails")
	require.Equal(t, "", r.ColumnTypeDatabaseTypeName(1))
}
