package lockctx_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/lockctx"
)

func TestC31_KeysOfAnyLengthWorkAndDoNotCollide(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		base := dbtest.Key(t)
		pad := func(fill string, bytes int) string {
			return base + strings.Repeat(fill, (bytes-len(base))/len(fill)+1)[:bytes-len(base)]
		}
		var keys []string
		for _, n := range []int{63, 64, 65, 191, 192, 193, 5000, 64 << 10} {
			for _, fill := range []string{"x", "X", "é", "漢", "🔒"} { // cut off anywhere: any bytes will do
				keys = append(keys, pad(fill, n))
			}
		}
		// Equal in all that a server could look at, if it cut names off.
		for _, n := range []int{64, 192, 255, 1024} {
			keys = append(keys, pad("y", n)+"1", pad("y", n)+"2")
		}
		requireDistinct(t, s, keys)
	})
}

func TestC31_APlainKeyOfAtMost64CharactersMeetsRawSQL(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		db, out := open(t, s), newOutsider(t, s)
		for _, n := range []int{1, 63, 64} {
			key := (dbtest.Key(t) + ":" + strings.Repeat("k", 64))[:n]
			raw, arg := "SELECT GET_LOCK(?, 0)", any(key)
			if !s.IsMySQL() { // the derivation that package lockkey documents
				raw = "SELECT pg_try_advisory_lock(('x' || left(encode(sha256($1::text::bytea), 'hex'), 16))::bit(64)::bigint)"
			}
			take := func() (granted bool) {
				require.NoError(t, out.conn.QueryRowContext(testCtx(t), raw, arg).Scan(&granted))
				return granted
			}
			lk := acquire(t, db, key)
			require.False(t, take(), "%d characters", n)
			require.NoError(t, lk.Close())
			require.True(t, take(), "%d characters", n)
			_, err := lockctx.TryAcquire(testCtx(t), db, key)
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
			out.release(key)
		}
	})
}

func TestC32_KeysThatDifferAsGoStringsAreDifferentLocks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		base := dbtest.Key(t)
		var keys []string
		for _, end := range []string{
			"a", "A", "é", "É", "e", "a\x00b", "a\x00c", "a\x00", "a ", " a", "a\t", "a\n",
			"\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", // NFC and NFD
			"🔒", "🔓", "ß", "ss", "ı", "i", "I", "İ", "ﬀ", "ff",
			"\xff", "\xfe", "\xc3", "\xed\xa0\x80", // not UTF-8
			"'", `"`, `\`, `\'`, "''", "`", "?", "$1", "%", "%s", "%%", "_", ";", "--", "-- ", "#", "/*", "*/", "/*!", "{", "\x1a",
			"'); DROP TABLE t; --", `" OR ""="`, "(", ")", ",", ":name", "@v", "\\x00", "NULL", "0",
		} {
			keys = append(keys, base+end)
		}
		keys = withoutRepeats(keys)
		requireDistinct(t, s, keys)
	})
}

func TestC32_TheEmptyKeyIsAnErrorBeforeTheServerIsAsked(t *testing.T) {
	for _, dsn := range []string{"root@tcp(127.0.0.1:1)/nowhere", "postgres://127.0.0.1:1/nowhere"} {
		db := openDSN(t, dsn) // nobody is there to ask
		for _, opts := range [][]lockctx.Option{nil, {lockctx.AdvisoryID(7)}, {lockctx.AdvisoryPair(7, 7)}} {
			for _, acquire := range []acquirer{lockctx.Acquire, lockctx.TryAcquire} {
				_, err := acquire(testCtx(t), db, "", opts...)
				require.ErrorContains(t, err, "lockdb: ")
				require.NotContains(t, err.Error(), "lockdb: lockdb: ")
				require.NotContains(t, err.Error(), "127.0.0.1", "the server was asked")
			}
		}
		_, err := lockctx.Acquire(testCtx(t), db, "")
		require.ErrorContains(t, err, "empty")
		_, err = lockctx.Acquire(testCtx(t), db, strings.Repeat("k", 64<<10+1))
		require.ErrorContains(t, err, "65536")
		require.Less(t, len(err.Error()), 500, "the key is not repeated in full")
	}
}

func TestC33_ANamespaceKeepsApplicationsApart(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		for _, key := range []string{dbtest.Key(t), dbtest.Key(t) + " not plain", dbtest.Key(t) + strings.Repeat("x", 60)} {
			bare, one := open(t, s), open(t, s, driver.WithNamespace("one"))
			oneByDSN := openDSN(t, withParam(s, s.DSN(), "lockdb_namespace=one", "lockdb_namespace=one"))
			two := open(t, s, driver.WithNamespace("two"))
			lks := []*lockctx.Lock{acquire(t, bare, key), acquire(t, one, key), acquire(t, two, key)}
			require.Equal(t, key, lks[1].Key())
			_, err := lockctx.TryAcquire(testCtx(t), oneByDSN, key)
			require.ErrorIs(t, err, lockctx.ErrNotAcquired, "the same namespace")
			for _, lk := range lks {
				require.NoError(t, lk.Close())
			}
			require.NoError(t, acquire(t, oneByDSN, key).Close())
		}
	})
}

// MySQL's and MariaDB's names are the whole server's, PostgreSQL's the database's.
func TestC33_TwoDatabasesOfOneServerShareALockOnlyOnMySQL(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		one, two := open(t, s.CreateDatabase(t)), open(t, s.CreateDatabase(t))
		key := dbtest.Key(t)
		lk := acquire(t, one, key)
		second, err := lockctx.TryAcquire(testCtx(t), two, key)
		if s.IsMySQL() {
			require.ErrorIs(t, err, lockctx.ErrNotAcquired)
		} else {
			require.NoError(t, err)
			require.NoError(t, second.Close())
		}
		require.NoError(t, lk.Close())
	})
}

// requireDistinct acquires all keys at once, each of which then excludes itself.
func requireDistinct(t *testing.T, s *dbtest.Server, keys []string) {
	t.Helper()
	one, two := open(t, s), open(t, s)
	var lks []*lockctx.Lock
	for _, key := range keys {
		lk, err := lockctx.Acquire(testCtx(t), one, key, lockctx.WithTimeout(5*time.Second))
		require.NoError(t, err, "%.90q", key)
		require.Equal(t, key, lk.Key())
		lks = append(lks, lk)
	}
	for _, key := range keys {
		_, err := lockctx.TryAcquire(testCtx(t), two, key)
		require.ErrorIs(t, err, lockctx.ErrNotAcquired, "%.90q", key)
	}
	for _, lk := range lks {
		require.NoError(t, lk.Close())
	}
	for _, key := range keys {
		require.NoError(t, acquire(t, two, key).Close(), "%.90q", key)
	}
}

// withoutRepeats leaves out what is there before.
func withoutRepeats(keys []string) (distinct []string) {
	seen := make(map[string]bool)
	for _, key := range keys {
		if !seen[key] {
			distinct = append(distinct, key)
		}
		seen[key] = true
	}
	return distinct
}
