package orm_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// gorm keeps its prepared statements for all: they see sessions come and be
// killed by the dozen.
func TestPreparedStatementsOutliveKilledLocks(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		const keys, perKey, least, most = 3, 3, 1500 * time.Millisecond, 30 * time.Second
		c := openGorm(true)(t, s)
		var locks [keys]string
		for id := range locks {
			locks[id] = dbtest.Key(t)
			require.NoError(t, c.insert(testCtx(t), rowOf(id)))
			require.NoError(t, c.rename(testCtx(t), rowOf(id), "0"))
		}
		var done, unknown [keys]atomic.Int64
		ctx, cancel := context.WithTimeout(testCtx(t), most)
		defer cancel()
		var wg sync.WaitGroup
		for id, key := range locks {
			for range perKey {
				wg.Go(func() {
					for ctx.Err() == nil {
						// Do also tells of a loss after the commit: what counts here is
						// the commit's own answer.
						err := lockctx.Do(testCtx(t), c.db(), key, func(ctx context.Context) error {
							err := addOneInTx(ctx, c, rowOf(id))
							if err == nil {
								done[id].Add(1)
							} else if errors.Is(err, lockctx.ErrOutcomeUnknown) {
								unknown[id].Add(1)
							}
							return err
						})
						if err != nil && !errors.Is(err, lockctx.ErrLost) && !errors.Is(err, sql.ErrTxDone) {
							t.Errorf("neither done nor lost: %v", err)
							return
						}
					}
				})
			}
		}
		kills := 0
		enough := func() bool {
			return kills > 0 && done[0].Load() > 0 && done[1].Load() > 0 && done[2].Load() > 0
		}
		for began := time.Now(); ctx.Err() == nil && (time.Since(began) < least || !enough()); {
			time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
			if id := s.holder(t, locks[rand.IntN(keys)]); id != 0 && s.tryKill(id) {
				kills++
			}
		}
		cancel()
		wg.Wait()
		t.Logf("%d sessions killed", kills)
		require.NotZero(t, kills)
		for id := range locks {
			name, err := c.name(testCtx(t), rowOf(id))
			require.NoError(t, err)
			n, err := strconv.Atoi(name)
			require.NoError(t, err)
			require.NotZero(t, n)
			require.GreaterOrEqual(t, int64(n), done[id].Load())
			require.LessOrEqual(t, int64(n), done[id].Load()+unknown[id].Load())
		}
	})
}

func addOneInTx(ctx context.Context, c client, id int64) error {
	tx, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.rollback() }()
	if err := addOne(ctx, tx, id); err != nil {
		return err
	}
	return tx.commit()
}

// rowOf spares gorm the id 0, which it takes for none.
func rowOf(lock int) int64 { return int64(lock + 1) }

// tryKill ends a session if it is still there.
func (s server) tryKill(id int64) bool {
	query := "KILL " + strconv.FormatInt(id, 10)
	if !s.IsMySQL() {
		query = "SELECT 1 / pg_terminate_backend(" + strconv.FormatInt(id, 10) + ")::int"
	}
	_, err := s.outside.Exec(query)
	return err == nil
}
