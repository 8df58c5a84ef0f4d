package dialect

import (
	"context"
	"database/sql/driver"
	"strings"
)

// Preparer is a Querier that can keep statements prepared for as long as its session
// lasts. The server reads the text of a lease statement for longer than it takes to do
// what it says.
type Preparer interface {
	// RunPrepared is Querier's Run of a prepared statement with placeholders. If sent is
	// false, nothing was done, and the caller has the text with literals run instead.
	RunPrepared(ctx context.Context, query string, args []driver.Value) (lastInsertID int64, sent bool, err error)
}

// runPrepared runs a statement whose placeholders stand for names of lockkey's alphabet
// (strings) and integers (int64), and returns the LastInsertId.
func (mysqlLeases) runPrepared(ctx context.Context, q Querier, query string, args ...driver.Value) (int64, error) {
	if p, ok := q.(Preparer); ok {
		if id, sent, err := p.RunPrepared(ctx, query, args); sent || err != nil {
			return id, err
		}
	}
	id, _, err := q.Run(ctx, mysqlLiterals(query, args))
	return id, err
}

// mysqlLiterals puts literals in the place of the placeholders: a placeholder of a statement
// that is not prepared costs go-sql-driver two round trips.
func mysqlLiterals(query string, args []driver.Value) string {
	var b strings.Builder
	b.Grow(len(query) + 80*len(args))
	for _, arg := range args {
		before, after, _ := strings.Cut(query, "?")
		b.WriteString(before)
		switch v := arg.(type) {
		case int64:
			b.WriteString(number(v))
		case string:
			b.WriteByte('\'')
			b.WriteString(v)
			b.WriteByte('\'')
		}
		query = after
	}
	b.WriteString(query)
	return b.String()
}
