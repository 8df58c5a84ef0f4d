// Package bench compares lockdb with the bare drivers. It has benchmarks only:
//
//	make bench                                 all, on servers of their own
//	make bench BENCH=PassThrough COUNT=10      some, ten times, for benchstat
//	go test -bench AcquireClose/server=mysql   in this folder, on one server
//
// Each comparison runs its contenders twice. As by=NAME one after the other, as
// benchmarks are: for ns/op, B/op and allocs/op over time (benchstat -col /by).
// And as "ratio" in turn, in short rounds, so that whatever else the machine does
// meets all of them alike: there NAME/FIRST is the median over the rounds of NAME's
// time divided by that of the first contender, and NAME-ns its median time. Ratios
// stand still on a busy machine where nanoseconds do not.
package bench
