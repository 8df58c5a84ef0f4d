package lockctx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// witnessTable makes a table that sees tenures as they are, through connections that know nothing of lockdb: who has a
// lease marks its row with his token. The row must be free then, and have had lesser tokens only.
func witnessTable(t testing.TB, view *dbtest.Server, keys int) *sql.DB {
	t.Helper()
	bare := view.Open(t)
	bare.SetMaxOpenConns(1)
	_, err := bare.Exec("CREATE TABLE w (k BIGINT PRIMARY KEY, inside BIGINT, token BIGINT NOT NULL, tenures BIGINT NOT NULL)")
	require.NoError(t, err)
	for k := range keys {
		_, err := bare.Exec(fmt.Sprintf("INSERT INTO w VALUES (%d, NULL, 0, 0)", k))
		require.NoError(t, err)
	}
	return bare
}

// change runs a statement that must change one row.
func change(ctx context.Context, bare *sql.DB, query string) error {
	res, err := bare.ExecContext(ctx, query)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("%w: %d rows changed by %s", errWitness, n, query), err)
	}
	return nil
}

var errWitness = errors.New("the witness has seen two inside, or a token that went back")

func enter(ctx context.Context, bare *sql.DB, key int, token int64) error {
	return change(ctx, bare, fmt.Sprintf("UPDATE w SET inside = %d, token = %d, tenures = tenures + 1 WHERE k = %d AND inside IS NULL AND token < %d", token, token, key, token))
}

func leave(ctx context.Context, bare *sql.DB, key int, token int64) error {
	return change(ctx, bare, fmt.Sprintf("UPDATE w SET inside = NULL WHERE k = %d AND inside = %d", key, token))
}
