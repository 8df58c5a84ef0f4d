package orm_test

import (
	"log/slog"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The tests break connections by the hundred; what they want to know of it
	// they ask.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	_ = mysql.SetLogger(&mysql.NopLogger{})
	goleak.VerifyTestMain(m,
		// Each gorm.DB with PrepareStmt starts one that never ends.
		goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"),
	)
}
