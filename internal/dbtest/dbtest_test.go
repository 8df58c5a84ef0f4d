package dbtest_test

import (
	"testing"

	"github.com/lockdb/lockdb/internal/dbtest"
)

func TestEachServerAnswers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, s *dbtest.Server) {
		var one int
		if err := s.Open(t).QueryRow("SELECT 1").Scan(&one); err != nil {
			t.Fatal(err)
		}
	})
}
