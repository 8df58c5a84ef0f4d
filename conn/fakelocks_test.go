package conn_test

import (
	"database/sql/driver"
	"regexp"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// fakeLocks answers what lockdb asks of a server of MySQL's family.
type fakeLocks struct {
	mu     sync.Mutex // guards what follows
	owners map[string]int64
	last   int64
}

// connect gives a connection its id.
func (l *fakeLocks) connect() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return l.last
}

// disconnect lets the connection's locks go.
func (l *fakeLocks) disconnect(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, owner := range l.owners {
		if owner == id {
			delete(l.owners, name)
		}
	}
}

var lockCall = regexp.MustCompile(`(GET_LOCK|RELEASE_LOCK|IS_USED_LOCK)\('([^']*)'`)

// answer is the row that a connection gets for a question, nil if it is none
// about locks or the server.
func (l *fakeLocks) answer(id int64, query string) ([]driver.Value, error) {
	if strings.Contains(query, "@@") || strings.HasPrefix(query, "SHOW ") {
		return nil, &mysql.MySQLError{Number: 1193, Message: "Unknown system variable"}
	}
	if query == "SELECT CONNECTION_ID(), VERSION()" {
		return []driver.Value{id, "8.0.0-fake"}, nil
	}
	var row []driver.Value
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range lockCall.FindAllStringSubmatch(query, -1) {
		row = append(row, l.call(id, call[1], call[2]))
	}
	return row, nil
}

func (l *fakeLocks) call(id int64, function, name string) driver.Value {
	owner, held := l.owners[name]
	switch {
	case function == "IS_USED_LOCK" && held:
		return owner
	case function == "GET_LOCK" && (!held || owner == id):
		if l.owners == nil {
			l.owners = make(map[string]int64)
		}
		l.owners[name] = id
		return int64(1)
	case function == "RELEASE_LOCK" && held && owner == id:
		delete(l.owners, name)
		return int64(1)
	case held:
		return int64(0)
	}
	return nil
}
