package dialect

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestTheVersionTellsWhereASecondGetLockDropsTheFirst(t *testing.T) {
	for version, want := range map[string]bool{
		"9.7.4":                              false,
		"8.0.11-TiDB-v7.5.0":                 false,
		"5.7.5-m15":                          false,
		"5.7.4-m14":                          true,
		"5.6.51-log":                         true,
		"5.6.10":                             true, // Aurora
		"10.11.19-MariaDB-0+deb12u1":         false,
		"10.0.2-MariaDB":                     false,
		"10.0.1-MariaDB":                     true,
		"5.5.68-MariaDB":                     true,
		"5.5.5-10.11.19-MariaDB-0+deb12u1":   false,
		"5.5.5-10.0.1-MariaDB":               true,
		"":                                   false,
		"unknown":                            false,
		"5.6":                                false,
		"8.0.30-Vitess":                      false,
		"11.8.1-MariaDB-ubu2404-log, 5.6.51": false,
	} {
		require.Equal(t, want, mysqlOneLock(version), version)
	}
}

func TestAnErrorTellsAServerWithoutLocksFromAFullOne(t *testing.T) {
	for number, want := range map[uint16]Class{
		1040: ClassServerFull, 1203: ClassServerFull, 1226: ClassServerFull,
		1235: ClassUnsupported, 1305: ClassUnsupported, 1064: ClassServer, 1317: ClassServer,
		3058: ClassDeadlock, 1213: ClassDeadlock, 4031: ClassGone, 1927: ClassGone, 2006: ClassGone, 2013: ClassGone,
	} {
		require.Equal(t, want, MySQL.Classify(errors.Join(&mysql.MySQLError{Number: number})), number)
	}
	for code, want := range map[string]Class{
		"53300": ClassServerFull, "53200": ClassLockTable, "40P01": ClassDeadlock,
		"0A000": ClassUnsupported, "42883": ClassUnsupported, "57P05": ClassGone, "08006": ClassGone, "42601": ClassServer,
	} {
		require.Equal(t, want, Postgres.Classify(errors.Join(&pgconn.PgError{Code: code})), code)
	}
	for _, d := range []Dialect{MySQL, Postgres} {
		require.Equal(t, ClassOther, d.Classify(nil))
		require.Equal(t, ClassOther, d.Classify(errors.New("x")))
	}
}
