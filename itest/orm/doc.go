// Package orm holds the tests of lockdb below the libraries that people use on
// top of database/sql: gorm, sqlx, bun and ent, and otelsql as a wrapper around
// lockdb. They run on real servers.
//
// promise_test.go has what holds for every library, in every way that it can be
// opened; libraries_test.go lists those. The other files have, per library, how
// it is opened, and what only it does.
package orm
