package lockctx_test

import (
	"context"
	sqldriver "database/sql/driver"
	"sync/atomic"
	"testing"

	"github.com/ngrok/sqlmw"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
)

// endsAfterBegin ends the context of a BeginTx when the server's answer is there.
type endsAfterBegin struct {
	sqlmw.NullInterceptor
	end atomic.Pointer[context.CancelFunc] // nil until then
}

func (i *endsAfterBegin) ConnBeginTx(ctx context.Context, c sqldriver.ConnBeginTx, o sqldriver.TxOptions) (context.Context, sqldriver.Tx, error) {
	tx, err := c.BeginTx(ctx, o)
	if end := i.end.Load(); end != nil {
		(*end)()
		<-ctx.Done()
	}
	return ctx, tx, err
}

func TestTheEndOfAContextAsTheAnswerToBeginComesCostsNoLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		ends := &endsAfterBegin{}
		db, key := open(t, s, driver.WithInterceptor(ends)), dbtest.Key(t)
		lk := acquire(t, db, key)
		ctx, cancel := context.WithCancel(lk.Context())
		defer cancel()
		ends.end.Store(&cancel)
		_, err := lk.DB().BeginTx(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, lk.DB().PingContext(lk.Context()))
		ends.end.Store(nil)
		tx, err := lk.DB().BeginTx(lk.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, lk.Close())
	})
}
