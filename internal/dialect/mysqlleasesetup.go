package dialect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Setup takes three round trips. What the DSN or the account has chosen for the session does not
// reach lease statements: sql_select_limit, for one, cuts off answers, that of SHOW too.
//
// Under READ COMMITTED no statement locks a gap. A server whose binary log has statements refuses
// to write then, with error 1665.
func (mysqlLeases) Setup(ctx context.Context, q Querier, idle time.Duration) (s LeaseServer, err error) {
	secs := min(max(1, int64((idle+time.Second-1)/time.Second)), 31536000)
	if err := q.Exec(ctx, "SET SESSION autocommit=1,sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',innodb_lock_wait_timeout=1,"+
		"sql_safe_updates=0,sql_select_limit=18446744073709551615,group_concat_max_len=1024,wait_timeout="+number(secs)); err != nil {
		return s, fmt.Errorf("prepare the session: %w", err)
	}
	rows, err := q.QueryAll(ctx, "SHOW VARIABLES WHERE Variable_name IN "+
		"('pseudo_thread_id','version','log_bin','binlog_format','innodb_snapshot_isolation')")
	if err != nil {
		return s, fmt.Errorf("ask what the server is: %w", err)
	}
	said := map[string]string{}
	for _, row := range rows {
		if len(row) == 2 {
			said[strings.ToLower(text(row[0]))] = text(row[1])
		}
	}
	if said["version"] == "" {
		return s, errors.New("the server did not tell its version")
	}
	s.SessionID, _ = strconv.ParseInt(said["pseudo_thread_id"], 10, 64)
	s.MariaDB = strings.Contains(strings.ToLower(said["version"]), "mariadb")
	_, s.SnapshotIsolation = said["innodb_snapshot_isolation"]
	s.FenceCommits = s.MariaDB
	s.StatementLog = on(said["log_bin"]) && strings.EqualFold(said["binlog_format"], "STATEMENT")
	level := "READ COMMITTED"
	if s.StatementLog {
		level = "REPEATABLE READ"
	}
	if err := q.Exec(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL "+level+", READ WRITE"); err != nil {
		return s, fmt.Errorf("set the isolation level: %w", err)
	}
	if s.StatementLog && s.SnapshotIsolation {
		err = q.Exec(ctx, "SET SESSION innodb_snapshot_isolation=OFF")
	}
	return s, err
}
