// Package sqlscan tells from the text of a statement what it may do with the
// session-level locks of its connection: MySQL's and MariaDB's GET_LOCK family,
// PostgreSQL's advisory locks. It keeps no state and asks nobody.
//
// [Scan] is made for every statement of a pool: one look for the few byte
// sequences without which a text cannot touch a lock, and only where one occurs
// a tokenizer. Neither allocates. [Calls] then tells which locks are named, and
// [Call.MayReleaseName], [Call.MayReleaseID] and [Call.MayReleasePair] whether
// a call may release a given one.
//
// # What it knows
//
// Comments of both families (nested ones in PostgreSQL; in MySQL '#', and "--"
// only before white space), strings, quoted identifiers, dollar quotes, schema
// qualification, white space and comments between a function's name and its
// parenthesis. What stands inside a string is never a call. The content of
// versioned comments (/*!50000 … */, /*M! … */) is code.
//
// Where the text alone does not decide how it is read (a quote after a
// backslash, which depends on the sql_mode or on standard_conforming_strings,
// and a versioned comment, which depends on the version), all readings are
// looked at. The usual one counts in full; a lock function that is code only in
// another gives MayLock and Opaque, so the server is asked, but nothing is
// refused that is innocent as usually read. So does one that is mentioned beside
// several versioned comments, some of which a server may run and others skip.
//
// # What it cannot know
//
//   - what functions, procedures, triggers, views, rules and operators that
//     users defined do inside. CALL, DO, EXECUTE, PREPARE, MariaDB's compound
//     statements and PostgreSQL's FETCH and MOVE (a cursor's query runs then)
//     are Opaque; a SELECT that calls a user's function is not, unless that has
//     the name of a lock function and its schema before it.
//   - that a user's function of such a name is meant without a schema: an overload
//     that fits the arguments better, or one in a schema that the search_path
//     has before pg_catalog.
//   - PostgreSQL's attribute notation, (42).pg_advisory_lock.
//   - connection character sets in which a backslash or a quote can be part of
//     a longer character (gbk, big5, sjis, …).
package sqlscan
