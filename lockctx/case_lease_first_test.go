package lockctx_test

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

// isolationDefaults are DSN parameters, by level, that set the isolation level of what names none.
func isolationDefaults(s *dbtest.Server) map[string]string {
	params := map[string]string{}
	for _, level := range []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		dashed := strings.ReplaceAll(level, " ", "-")
		switch s.Kind() {
		case dbtest.MySQL:
			params[level] = "transaction_isolation=%27" + dashed + "%27"
		case dbtest.MariaDB:
			params[level] = "tx_isolation=%27" + dashed + "%27"
		default:
			params[level] = "default_transaction_isolation=" + url.PathEscape(level)
		}
	}
	return params
}

func TestC59_TheFirstOfAKeyAndOfATableIsOneOfFifty(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for level, param := range isolationDefaults(s) {
			view := s.CreateDatabase(t) // which has no table yet
			dbs := make([]*sql.DB, 5)
			for i := range dbs {
				dbs[i] = openDSN(t, withParam(s, view.DSN(), param, param))
			}
			for range 5 {
				key := dbtest.Key(t)
				var won atomic.Int32
				var start sync.WaitGroup
				start.Add(50)
				together(t, 50, func(i int) error {
					start.Done()
					start.Wait()
					lk, err := lockctx.TryAcquire(testCtx(t), dbs[i%len(dbs)], key, lockctx.Lease(time.Minute))
					switch {
					case err == nil: // it keeps the lease until the test ends
						won.Add(1)
						return lk.Err()
					case errors.Is(err, lockctx.ErrNotAcquired):
						return nil
					}
					return err
				})
				require.EqualValues(t, 1, won.Load(), level)
			}
		}
	})
}

func TestC59_FiftyOnAFreshKeyHaveItOneAfterTheOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		t.Parallel()
		for _, param := range isolationDefaults(s) {
			view := s.CreateDatabase(t)
			dbs := []*sql.DB{
				openDSN(t, withParam(s, view.DSN(), param, param)),
				openDSN(t, withParam(s, view.DSN(), param, param), driver.WithMaxSessions(8)),
			}
			key := dbtest.Key(t)
			var inside atomic.Int32
			together(t, 50, func(i int) error {
				lk, err := lockctx.Acquire(testCtx(t), dbs[i%len(dbs)], key, lockctx.Lease(time.Minute))
				if err != nil {
					return err
				}
				if inside.Add(1) != 1 {
					err = errors.New("two are inside")
				}
				inside.Add(-1)
				return errors.Join(err, lk.Close())
			})
		}
	})
}
