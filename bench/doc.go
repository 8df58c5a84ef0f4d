// Package bench compares lockdb with the bare drivers, and with what one might use
// instead: locks by hand, go-redsync on a Redis server, etcd's mutex. It has
// benchmarks only:
//
//	make bench                                 all, on servers of their own
//	make bench BENCH=PassThrough COUNT=10      some, ten times, for benchstat
//	make bench-report                          a short set, as tables and plots in report/
//	go test -bench AcquireClose/server=mysql   in this folder, on one server
//
// Each comparison of single calls runs its contenders twice. As by=NAME one after
// the other, as benchmarks are: for ns/op, B/op and allocs/op over time (benchstat
// -col /by). And as "ratio" in turn, in short rounds, so that whatever else the
// machine does meets all of them alike: there NAME/FIRST is the median over the
// rounds of NAME's time divided by that of the first contender, and NAME-ns its
// median time. Ratios stand still on a busy machine where nanoseconds do not.
//
// Crowds, which share one lock, take turns for a fixed time in each round: Crowd and
// Processes report turns a second, the wait for each, and connections. HandOver,
// Failover, Held and Renewal have no rival that does the same; Loss has the socket of a
// killed session, which nobody can hear of sooner.
//
// Paths have the server (server=), the round-trip time that a relay adds to the
// network (rtt=), and whether commits are on disk before they are answered
// (commits=).
package bench
