package dialect

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

func (mysqlDialect) Guard(query string, args []driver.NamedValue, held []Name) Verdict {
	v := guard(sqlscan.MySQL, query, "RELEASE_ALL_LOCKS", held, func(c sqlscan.Call, n Name) bool {
		return c.MayReleaseName(n.text, args)
	})
	v.Autocommit = containsFold(query, "autocommit")
	v.MayBegin = v.MayLock || mayBegin(query) || v.Autocommit
	v.Rebinds, v.LocksTables = begins(query)
	return v
}

// begins tells whether the text is a USE or a SET, or a LOCK TABLES or a FLUSH, which can
// lock tables, too, or has one after a semicolon.
func begins(query string) (rebinds, locksTables bool) {
	for more := true; more; {
		first := afterComments(query) // a semicolon may be in them
		starts := func(word string) bool {
			n := len(word)
			return len(first) > n && strings.EqualFold(first[:n], word) && strings.ContainsAny(first[n:n+1], " \t\r\n\v\f/`@#-")
		}
		rebinds = rebinds || starts("use") || starts("set")
		locksTables = locksTables || starts("lock") || starts("flush")
		_, query, more = strings.Cut(query, ";")
	}
	return rebinds, locksTables
}

// afterComments is MySQL's text without the comments before it, but with what stands in a
// comment that the server runs.
func afterComments(text string) string {
	for {
		text = strings.TrimSpace(text)
		end := "\n"
		switch {
		case strings.HasPrefix(text, "/*!"):
			text = strings.TrimLeft(text[3:], "0123456789")
			continue
		case strings.HasPrefix(text, "*/"): // such a one was empty
			text = text[2:]
			continue
		case strings.HasPrefix(text, "/*"):
			end = "*/"
		case !strings.HasPrefix(text, "--") && !strings.HasPrefix(text, "#"):
			return text
		}
		_, text, _ = strings.Cut(text, end)
	}
}

func (postgresDialect) Guard(query string, args []driver.NamedValue, held []Name) Verdict {
	args = withoutOptions(args)
	v := guard(sqlscan.Postgres, query, "DISCARD ALL or pg_advisory_unlock_all", held, func(c sqlscan.Call, n Name) bool {
		if n.space == spacePair {
			class, object := n.halves()
			return c.MayReleasePair(class, object, args)
		}
		return c.MayReleaseID(n.id, args)
	})
	v.MayBegin = mayBegin(query)
	return v
}

// mayBegin errs to the side of yes: a word too many costs a ROLLBACK of nothing.
func mayBegin(query string) bool {
	return containsFold(query, "begin") || containsFold(query, "transaction")
}

func guard(d sqlscan.Dialect, query, all string, held []Name, mayRelease func(sqlscan.Call, Name) bool) Verdict {
	found := sqlscan.Scan(d, query)
	v := Verdict{MayLock: found.Has(sqlscan.MayLock)}
	if v.MayLock {
		for c := range sqlscan.Calls(d, query) {
			v.Locks = v.Locks || c.Fn == sqlscan.Lock || c.Fn == sqlscan.TryLock
		}
	}
	switch {
	case found.Has(sqlscan.DropsAll) && len(held) > 0:
		v.Refuse = all
	case found.Has(sqlscan.MayUnlock):
		for c := range sqlscan.Calls(d, query) {
			if slices.ContainsFunc(held, func(n Name) bool { return mayRelease(c, n) }) {
				v.Refuse = "a release of a lock that is, or may be, this one"
			}
		}
	}
	return v
}

// withoutOptions leaves out what pgx takes as leading arguments besides the
// statement's own. A rewriter changes text and arguments: they are not known.
func withoutOptions(args []driver.NamedValue) []driver.NamedValue {
	for len(args) > 0 {
		switch args[0].Value.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			args = args[1:]
		case pgx.QueryRewriter:
			return nil
		default:
			return args
		}
	}
	return args
}

func containsFold(s, lower string) bool {
	for i := 0; i+len(lower) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}
