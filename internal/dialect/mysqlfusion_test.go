package dialect_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/dbtest"
	"github.com/lockdb/lockdb/internal/dialect"
)

// fusing is a server of MySQL's family with two sessions, and two names that nobody uses.
type fusing struct {
	*dbtest.Server
	version    string
	q, other   *querier
	held, free dialect.Name // held is the other's
}

func eachFusing(t *testing.T, fn func(t *testing.T, f *fusing)) {
	eachServer(t, func(t *testing.T, s *dbtest.Server) {
		if !s.IsMySQL() {
			return
		}
		f := &fusing{Server: s.CreateDatabase(t)}
		f.q, f.other = session(t, f.Driver(), f.DSN()), session(t, f.Driver(), f.DSN())
		require.NoError(t, f.q.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&f.version))
		f.held, f.free = f.name(t), f.name(t)
		granted, err := dialect.MySQL.Try(t.Context(), f.other, f.held)
		require.NoError(t, err)
		require.True(t, granted)
		fn(t, f)
	})
}

func (f *fusing) name(t *testing.T) dialect.Name {
	t.Helper()
	n, err := dialect.MySQL.Resolve("", dbtest.Key(t))
	require.NoError(t, err)
	return n
}

func (f *fusing) find(t *testing.T, q dialect.Querier) dialect.Fusion {
	t.Helper()
	return dialect.FindFusion(t.Context(), q, f.version, f.held, f.free)
}

func TestEachServersFusionIsFoundAndNothingStaysOfTheSearch(t *testing.T) {
	eachFusing(t, func(t *testing.T, f *fusing) {
		want := dialect.FusionAutocommit
		if f.Kind() == dbtest.MariaDB {
			want = dialect.FusionCompound
		}
		require.Equal(t, want, f.find(t, f.q))
		for _, n := range []dialect.Name{f.free, f.held} {
			who, err := dialect.MySQL.Holder(t.Context(), f.q, n)
			require.NoError(t, err)
			require.Equal(t, n == f.held, who != "", n)
		}
		var autocommit bool
		require.NoError(t, f.q.QueryRowContext(t.Context(), "SELECT @@autocommit").Scan(&autocommit))
		require.True(t, autocommit)
	})
}

// pretending is a server that understands some statements otherwise, or does not do them.
type pretending struct {
	*querier
	as func(string) (query string, err error)
}

func (q pretending) Exec(ctx context.Context, query string) error {
	query, err := q.as(query)
	if err != nil || query == "" {
		return err
	}
	return q.querier.Exec(ctx, query)
}

func TestNoFusionIsFoundOnAServerThatOnlySeemsToUnderstandIt(t *testing.T) {
	replace := func(oldnew ...string) func(string) (string, error) {
		return func(query string) (string, error) { return strings.NewReplacer(oldnew...).Replace(query), nil }
	}
	for name, as := range map[string]func(string) (string, error){
		"it refuses all":              func(string) (string, error) { return "", &mysql.MySQLError{Number: 1064} },
		"it does nothing":             func(string) (string, error) { return "", nil },
		"it refuses as if not free":   func(string) (string, error) { return "", &mysql.MySQLError{Number: 1231} },
		"it locks nothing":            replace("GET_LOCK(", "STRCMP("),
		"it begins nothing":           replace("=1,0,2)", "=1,1,2)", "START TRANSACTION", "SET @a = 1"),
		"it releases nothing":         replace("RELEASE_LOCK(", "LENGTH("),
		"it commits nothing":          replace("COMMIT", "SET @a = 1", "=1,1,2)", "=1,0,2)"),
		"it grants what is not free":  func(query string) (string, error) { return replaceFirst(query), nil },
		"it does not switch it again": replace("IF(RELEASE_LOCK", "IF(0*RELEASE_LOCK", "COMMIT; IF", "IF"),
	} {
		t.Run(name, func(t *testing.T) {
			eachFusing(t, func(t *testing.T, f *fusing) {
				require.Equal(t, dialect.FusionNone, f.find(t, pretending{f.q, as}))
			})
		})
	}
}

// replaceFirst has every try granted.
func replaceFirst(query string) string {
	i := strings.Index(query, "GET_LOCK('")
	j := strings.Index(query, "',0)")
	if i < 0 || j < 0 {
		return query
	}
	return query[:i] + "1" + query[j+4:]
}

func TestAFusedTryBeginsAsItsOptionsSayAndIsRefusedWhatAnotherHolds(t *testing.T) {
	eachFusing(t, func(t *testing.T, f *fusing) {
		fusion := f.find(t, f.q)
		for _, opts := range []driver.TxOptions{
			{}, {ReadOnly: true}, {Isolation: driver.IsolationLevel(sql.LevelSerializable)}, {Isolation: driver.IsolationLevel(sql.LevelLinearizable)},
		} {
			begin, ok := fusion.Begin(opts)
			plain, known := opts == driver.TxOptions{}, opts.Isolation != driver.IsolationLevel(sql.LevelLinearizable)
			require.Equal(t, plain || fusion == dialect.FusionCompound && known, ok, "%v", opts)
			if !ok {
				continue
			}
			granted, err := fusion.TryAndBegin(t.Context(), f.q, f.held, begin)
			require.NoError(t, err)
			require.False(t, granted)
			granted, err = fusion.TryAndBegin(t.Context(), f.q, f.free, begin)
			require.NoError(t, err)
			require.True(t, granted)
			if fusion == dialect.FusionCompound {
				require.NoError(t, fusion.CommitAndRelease(t.Context(), f.q, f.free))
			} else {
				f.q.run(t, "COMMIT")
				require.NoError(t, fusion.ReleaseAndAutocommit(t.Context(), f.q, f.free))
			}
		}
	})
}

func TestACommitWithTheReleaseOfALockNotHeldCommitsAndSaysSo(t *testing.T) {
	eachFusing(t, func(t *testing.T, f *fusing) {
		fusion := f.find(t, f.q)
		f.q.run(t, "CREATE TABLE work (n int)", "START TRANSACTION", "INSERT INTO work VALUES (1)")
		if fusion == dialect.FusionCompound {
			require.ErrorIs(t, fusion.CommitAndRelease(t.Context(), f.q, f.held), dialect.ErrNotHeld)
		} else {
			f.q.run(t, "COMMIT")
			require.Error(t, fusion.ReleaseAndAutocommit(t.Context(), f.q, f.held))
		}
		var n int
		require.NoError(t, f.other.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM work").Scan(&n))
		require.Equal(t, 1, n)
	})
}

func TestAnErrorOfAnotherIsNotTakenForAnAnswerOfOurs(t *testing.T) {
	for _, number := range []uint16{45191, 45192} {
		err := &mysql.MySQLError{Number: number, Message: "the account is closed"}
		_, got := dialect.FusionCompound.TryAndBegin(t.Context(), failing{err: err}, dialect.Name{}, "")
		require.ErrorIs(t, got, err)
		got = dialect.FusionCompound.CommitAndRelease(t.Context(), failing{err: err}, dialect.Name{})
		require.ErrorIs(t, got, err)
		require.NotErrorIs(t, got, dialect.ErrNotHeld)
	}
}
