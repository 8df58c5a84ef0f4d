package dialect

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestAnErrorThatIsNotFatalLeavesThePostgresSession(t *testing.T) {
	for _, code := range []string{"08P01", "08006", "57P01", "25P03"} {
		for severity, want := range map[string]Class{"ERROR": ClassServer, "FATAL": ClassGone, "PANIC": ClassGone, "": ClassGone} {
			err := fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, SeverityUnlocalized: severity})
			require.Equal(t, want, Postgres.Classify(err), "%s %s", severity, code)
		}
	}
}
