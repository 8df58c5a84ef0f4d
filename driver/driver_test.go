package driver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/conn"
)

func TestTheThreeNamesAreRegistered(t *testing.T) {
	for _, name := range []string{"lockdb", "mysql-lockdb", "postgres-lockdb"} {
		require.Contains(t, sql.Drivers(), name)
	}
}

func TestAnEmptyDSNIsAnErrorAtFirstUse(t *testing.T) {
	for _, name := range []string{"lockdb", "mysql-lockdb"} {
		for _, dsn := range []string{"", " "} {
			db, err := sql.Open(name, dsn)
			require.NoError(t, err)
			err = db.PingContext(context.Background())
			require.ErrorIs(t, err, errEmpty)
			require.NoError(t, db.Close())
		}
	}
	c, err := OpenConnector("", WithDialect(MySQL))
	require.NoError(t, err)
	_, err = c.Connect(context.Background())
	require.ErrorIs(t, err, errEmpty)
}

func TestTheDriversNameSaysTheDialect(t *testing.T) {
	for _, tc := range []struct {
		name, dsn string
		ok        bool
	}{
		{"lockdb", "host=h", true},
		{"lockdb", "u@/db", true},
		{"mysql-lockdb", "u@/db", true},
		{"mysql-lockdb", "mysql://h/db", true},
		{"mysql-lockdb", "host=h", false},
		{"mysql-lockdb", "postgres://h/db", false},
		{"postgres-lockdb", "host=h", true},
		{"postgres-lockdb", "postgres://h/db", true},
		{"postgres-lockdb", "u@/db", false},
	} {
		db, err := sql.Open(tc.name, tc.dsn)
		if !tc.ok {
			require.Error(t, err, tc)
			continue
		}
		require.NoError(t, err, tc)
		require.NoError(t, db.Close())
	}
}

func TestOpenSharesAConnectorPerDSN(t *testing.T) {
	h := newHandshakes(t)
	d := &Driver{}
	t.Cleanup(func() {
		for _, c := range d.opened {
			_ = c.Close()
		}
	})
	for range 2 {
		dc, err := d.Open(h.dsn(""))
		require.NoError(t, err)
		require.NoError(t, dc.Close())
	}
	require.Len(t, d.opened, 1)
	_, err := d.Open("nonsense")
	require.ErrorIs(t, err, errNeither)
	require.Len(t, d.opened, 1)
}

func TestNewConnectorTellsTheDialectFromTheDriver(t *testing.T) {
	my, err := mysql.NewConnector(mysql.NewConfig())
	require.NoError(t, err)
	cfg, err := pgx.ParseConfig("host=h")
	require.NoError(t, err)
	require.Equal(t, MySQL, driverDialect(my.Driver()))
	require.Equal(t, MySQL, driverDialect(mysql.MySQLDriver{}))
	require.Equal(t, Postgres, driverDialect(stdlib.GetConnector(*cfg).Driver()))
	for _, inner := range []driver.Connector{my, stdlib.GetConnector(*cfg)} {
		_, err := NewConnector(inner)
		require.NoError(t, err)
	}
	_, err = NewConnector(fakeConnector{})
	require.ErrorContains(t, err, "say it with WithDialect")
	_, err = NewConnector(fakeConnector{}, WithDialect(Postgres))
	require.NoError(t, err)
}

func TestNewConnectorRefusesNilAndItsOwn(t *testing.T) {
	_, err := NewConnector(nil)
	require.ErrorContains(t, err, "needs a connector")
	var own *conn.Connector
	own, err = OpenConnector("u@/db")
	require.NoError(t, err)
	_, err = NewConnector(own)
	require.ErrorContains(t, err, "lockdb's already")
}
