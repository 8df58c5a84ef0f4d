// Package dbtest gives tests real servers: MySQL, MariaDB, PostgreSQL and PgBouncer, started from
// the machine's own programs on free ports of 127.0.0.1, with their data in temporary folders.
//
// Shared servers serve a whole test process, or a whole `make test` run, and are never disturbed:
// a test there uses its own keys (Key) or its own database (CreateDatabase). A Private server belongs
// to one test, which may kill, stop and restart it. A Relay stands before a server and delays,
// cuts or resets the connections.
//
// Every server is started by a supervisor: this program again, whose standard input is a pipe from
// the test process. When that pipe ends, however the test process ended, the supervisor kills the
// server and removes its folder. dbtest itself leaves no goroutine behind a test.
//
// LOCKDB_TEST_SERVERS (mysql mariadb postgres pgbouncer, separated by spaces) selects servers, by
// default all. LOCKDB_TEST_MYSQL, LOCKDB_TEST_MARIADB, LOCKDB_TEST_POSTGRES and
// LOCKDB_TEST_PGBOUNCER name running servers to use instead of starting shared ones.
// A selected server that is missing fails the test.
package dbtest
