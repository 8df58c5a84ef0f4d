// Package migrate holds the tests of lockdb below tools that bring a schema up to
// date, and take a session lock in SQL text for that: goose, with its session
// locker for PostgreSQL, and golang-migrate, with its drivers for MySQL and for
// pgx. Processes of their own run them at the same time, on real servers.
package migrate
