package orm_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
)

// sqlxWays are what sqlx has to read a value.
var sqlxWays = map[string]func(ctx context.Context, x *sqlx.DB, query string, arg any) (bool, error){
	"Select": func(ctx context.Context, x *sqlx.DB, query string, arg any) (bool, error) {
		var yes []sql.NullBool
		err := x.SelectContext(ctx, &yes, x.Rebind(query), arg)
		return err == nil && yes[0].Bool, err
	},
	"QueryRowx": func(ctx context.Context, x *sqlx.DB, query string, arg any) (bool, error) {
		var row struct{ Yes sql.NullBool }
		err := x.QueryRowxContext(ctx, x.Rebind(query), arg).StructScan(&row)
		return row.Yes.Bool, err
	},
	"NamedQuery": func(ctx context.Context, x *sqlx.DB, query string, arg any) (yes bool, err error) {
		rows, err := x.NamedQueryContext(ctx, strings.Replace(query, "?", ":arg", 1), map[string]any{"arg": arg})
		if err != nil {
			return false, err
		}
		defer rows.Close()
		if rows.Next() {
			err = rows.Scan(&yes)
		}
		return yes, err
	},
	"Preparex": func(ctx context.Context, x *sqlx.DB, query string, arg any) (yes bool, err error) {
		stmt, err := x.PreparexContext(ctx, x.Rebind(query))
		if err != nil {
			return false, err
		}
		defer stmt.Close()
		err = stmt.GetContext(ctx, &yes, arg)
		return yes, err
	},
	"PrepareNamed": func(ctx context.Context, x *sqlx.DB, query string, arg any) (yes bool, err error) {
		stmt, err := x.PrepareNamedContext(ctx, strings.Replace(query, "?", ":arg", 1))
		if err != nil {
			return false, err
		}
		defer stmt.Close()
		err = stmt.GetContext(ctx, &yes, map[string]any{"arg": arg})
		return yes, err
	},
}

func TestSqlxReadsWhatALockStatementSays(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		for name, way := range sqlxWays {
			t.Run(name, func(t *testing.T) {
				c, l := openSqlxNewDb(t, s).(sqlxClient), s.lockText(t)
				inRounds(t, 20, s, c, l,
					func() (bool, error) { return way(testCtx(t), c.x, l.take, l.arg) },
					func() (bool, error) { return way(testCtx(t), c.x, l.release, l.arg) })
			})
		}
	})
}
