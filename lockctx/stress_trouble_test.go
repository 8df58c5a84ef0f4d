package lockctx_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockdb/lockdb/internal/dbtest"
)

// kill ends random sessions, those of the pools too.
func (st *stress) kill(stop <-chan struct{}) {
	db, err := sql.Open(st.view.Driver(), st.view.DSN())
	if err != nil {
		st.t.Error(err)
		return
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	list, kill := "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id NOT IN (CONNECTION_ID(), %d)", "KILL %d"
	if !st.view.IsMySQL() {
		list, kill = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid NOT IN (pg_backend_pid(), %d)", "SELECT pg_terminate_backend(%d)"
	}
	r := st.rand(-1)
	for st.pause(r, 60*time.Millisecond, stop) {
		var ids []int64
		rows, err := db.Query(fmt.Sprintf(list, st.spared))
		if err != nil {
			st.t.Error(err)
			return
		}
		for rows.Next() {
			var id int64
			_ = rows.Scan(&id)
			ids = append(ids, id)
		}
		_ = rows.Close()
		if len(ids) > 0 {
			_, _ = db.Exec(fmt.Sprintf(kill, ids[r.IntN(len(ids))])) // it may have ended by itself
		}
	}
}

// reset breaks the network, makes it slow, and silent: for a moment, or for longer than a lock lasts.
func (st *stress) reset(relay *dbtest.Relay, stop <-chan struct{}) {
	r := st.rand(-2)
	for st.pause(r, 200*time.Millisecond, stop) {
		relay.SetDelay(time.Duration(r.IntN(3)) * time.Millisecond)
		switch r.IntN(20) {
		case 0:
			relay.Cut()
			st.pause(r, stressTTL*3/2, stop)
			relay.Heal()
		case 1:
			relay.CutReplies()
			st.pause(r, stressTTL*3/2, stop)
			relay.Heal()
		case 2:
			relay.CutForGood()
			relay.Heal()
		default:
			if r.IntN(2) == 0 {
				relay.Reset()
			}
		}
	}
}

func (st *stress) pause(r *rand.Rand, atMost time.Duration, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-time.After(time.Duration(r.Int64N(int64(atMost)))):
		return true
	}
}
