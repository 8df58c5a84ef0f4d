package sqlscan_test

import (
	"testing"

	"github.com/lockdb/lockdb/internal/sqlscan"
)

func TestAnswerIsOfOneCallWithAnyArguments(t *testing.T) {
	for text, want := range map[string]sqlscan.Fn{
		"SELECT GET_LOCK(CONCAT(DATABASE(), '.x'), 10)":                sqlscan.Lock,
		"select get_lock((select name from t where id = 1), @t) as l;": sqlscan.Lock,
		"SELECT RELEASE_LOCK(CONCAT('a', ?)) FROM DUAL":                sqlscan.Unlock,
		"SELECT GET_LOCK('a', 1)":                                      sqlscan.Lock,
		"SELECT RELEASE_ALL_LOCKS()":                                   sqlscan.UnlockAll,
		"SELECT app.GET_LOCK(CONCAT('a', 1), 1)":                       0,
		"SELECT GET_LOCK(GET_LOCK('a', 1), 1)":                         0,
		"SELECT GET_LOCK(IF(RELEASE_LOCK('a'), 'b', 'c'), 1)":          0,
		"SELECT GET_LOCK(CONCAT('a', 1), 1), 2":                        0,
		"SELECT GET_LOCK(CONCAT('a', 1), 1) + 1":                       0,
		"SELECT GET_LOCK(name, 1) FROM t":                              0,
		"SELECT GET_LOCK(CONCAT('a', 1), 1); SELECT 2":                 0,
		"SELECT GET_LOCK(CONCAT('a', 1), 1) UNION SELECT 1":            0,
		"SELECT GET_LOCK(CONCAT('a', 1))":                              0,
		"SELECT GET_LOCK(CONCAT('a', /*!50000 1 */ ), 1)":              0,
		`SELECT GET_LOCK(CONCAT('a\'', 1), 1)`:                         0,
		"DO GET_LOCK(CONCAT('a', 1), 1)":                               0,
		"SELECT GET_LOCK(CONCAT('a', 1), 1":                            0,
		"SELECT CONCAT(GET_LOCK('a', 1), 1)":                           0,
	} {
		if fn, ok := sqlscan.Answer(text); fn != want && ok || ok != (want != 0) {
			t.Errorf("%s: %v, %v", text, fn, ok)
		}
	}
}
