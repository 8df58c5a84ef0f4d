package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

var (
	operations = []string{"QueryRow", "Exec", "PrepareExec", "BeginCommit"}
	networks   = []string{"rtt=0s", "rtt=1ms"}
	sizes      = []int{1, 2, 4, 8, 16, 32, 64, 128, 256} // of crowds
	networkOf  = map[string]string{"rtt=0s": "", "rtt=1ms": ", 1 ms"}
)

func tables(r results) []table {
	return slices.Concat(
		[]table{uncontended(r), peerTable(r), inTxTable(r)},
		[]table{crowdTable(r), limitTable(r), processTable(r), heldTable(r)},
		[]table{leaseTable(r), renewalTable(r), handOverTable(r), failoverTable(r), lossTable(r)},
		[]table{passThroughTable(r), passThroughServerTable(r), ownCostTable(r)},
	)
}

// columns are the values of some units at one path.
func columns(r results, format string, scale float64, units []string, path ...string) (cells []string) {
	for _, unit := range units {
		cells = append(cells, number(r.at(unit, path...)*scale, format))
	}
	return cells
}

const micro = 1e-3 // ns to µs

func uncontended(r results) table {
	t := table{
		title: "One lock, uncontended",
		note: "Acquire and release, in µs. The literals are two bare statements on a connection kept for it, the limit; placeholders cost " +
			"go-sql-driver a prepare and a close each.",
		head: []string{"", "literals", "placeholders", "lockdb", "multiplexed", "lockdb/literals", "multiplexed/literals"},
	}
	for _, s := range servers {
		for _, row := range []struct{ path, name string }{
			{"rtt=0s/ctx=plain", ""}, {"rtt=0s/ctx=cancellable", ", under a context that can be cancelled"}, {"rtt=1ms/ctx=plain", ", 1 ms"},
		} {
			path := []string{"AcquireClose", "server=" + s, row.path, "ratio"}
			cells := columns(r, "%.0f", micro, []string{"literals-ns", "placeholders-ns", "lockdb-ns", "multiplexed-ns"}, path...)
			cells = append(cells, columns(r, "%.2f×", 1, []string{"lockdb/literals", "multiplexed/literals"}, path...)...)
			t.rows = append(t.rows, append([]string{serverNames[s] + row.name}, cells...))
		}
	}
	return t
}

// peerNames are the contenders of Peers, as benchmark and people call them.
var peerNames = [][2]string{
	{"redsync", "go-redsync, one Redis"},
	{"etcd", "etcd mutex, one member"},
	{"lock-mysql", "lockdb, MySQL"},
	{"lock-mariadb", "lockdb, MariaDB"},
	{"lock-postgres", "lockdb, PostgreSQL"},
	{"lease-mysql", "lease, MySQL"},
	{"lease-mariadb", "lease, MariaDB"},
	{"lease-postgres", "lease, PostgreSQL"},
}

func peerTable(r results) table {
	t := table{
		title: "Against a server run for it",
		note: "Acquire and release, uncontended, in µs. Leases and etcd sync each write to disk; Redis, as it is run here, writes nothing, " +
			"and neither do session locks. A session lock ends with its holder, the others by expiry.",
		plot: "peers",
		head: []string{"", "local", "1 ms network"},
	}
	for _, p := range peerNames {
		t.rows = append(t.rows, []string{
			p[1],
			number(r.at(p[0]+"-ns", "Peers/rtt=0s/ratio")*micro, "%.0f"), number(r.at(p[0]+"-ns", "Peers/rtt=1ms/ratio")*micro, "%.0f"),
		})
	}
	return t
}

func inTxTable(r results) table {
	t := table{
		title: "A transaction under a lock",
		note:  "BEGIN, one UPDATE, COMMIT, in µs: without a lock, with a lock taken by hand on the same connection, and lockctx.InTx.",
		plot:  "intx",
		head:  []string{"", "plain", "by hand", "InTx", "InTx/plain", "by hand/plain"},
	}
	for _, s := range servers {
		for _, n := range networks {
			path := []string{"InTx", "server=" + s, n, "ratio"}
			cells := columns(r, "%.0f", micro, []string{"plain-ns", "hand-ns", "lockdb-ns"}, path...)
			cells = append(cells, columns(r, "%.2f×", 1, []string{"lockdb/plain", "hand/plain"}, path...)...)
			t.rows = append(t.rows, append([]string{serverNames[s] + networkOf[n]}, cells...))
		}
	}
	return t
}

func crowdTable(r results) table {
	t := table{
		title: "One key, many goroutines",
		note: "Goroutines of one process that want the same lock all the time: turns a second; the wait for a turn, p50 / p99 in µs; and " +
			"connections, sampled. By hand (with placeholders, as most write it; with literals) each has a connection on which it waits at the server.",
		head: []string{
			"", "by hand", "literals", "lockdb", "multiplexed", "lease", "wait by hand", "wait lockdb", "wait lease",
			"connections by hand", "lockdb", "lease",
		},
	}
	for _, s := range servers {
		for _, n := range sizes {
			path := []string{"Crowd", "server=" + s, "goroutines=" + strconv.Itoa(n)}
			cells := columns(r, "%.0f", 1, []string{"hand-turns/s", "literals-turns/s", "lockdb-turns/s", "multiplexed-turns/s", "lease-turns/s"}, path...)
			for _, way := range []string{"hand", "lockdb", "lease"} {
				cells = append(cells, waits(r, way, path))
			}
			cells = append(cells, columns(r, "%.0f", 1, []string{"hand-conns", "lockdb-conns", "lease-conns"}, path...)...)
			t.rows = append(t.rows, append([]string{fmt.Sprintf("%s, %d", serverNames[s], n)}, cells...))
		}
	}
	return t
}

func limitTable(r results) table {
	t := table{
		title: "What there would be without a server",
		note: "Turns a second with a token in a channel, the least that it can cost to hand something from goroutine to goroutine in the order " +
			"of their coming, and with lockdb on a driver that does nothing.",
		head: []string{"goroutines", "channel", "lockdb", "multiplexed", "lockdb/channel"},
	}
	for _, n := range []string{"2", "64"} {
		path := []string{"CrowdLimit", "goroutines=" + n}
		cells := columns(r, "%.0f", 1, []string{"channel-turns/s", "lockdb-turns/s", "multiplexed-turns/s"}, path...)
		t.rows = append(t.rows, append([]string{n}, append(cells, number(r.at("lockdb/channel", path...), "%.2f×"))...))
	}
	return t
}

func waits(r results, way string, path []string) string {
	return number(r.at(way+"-p50-ns", path...)*micro, "%.0f") + " / " + number(r.at(way+"-p99-ns", path...)*micro, "%.0f")
}

var wayNames = map[string]string{"hand": "by hand", "literals": "by hand, literals", "lockdb": "lockdb", "multiplexed": "multiplexed", "lease": "lease"}

func processTable(r results) table {
	t := table{
		title: "One key, four processes of 16 goroutines",
		head:  []string{"", "turns a second", "against by hand", "least share of a process", "wait p50 / p99, µs", "connections"},
	}
	for _, s := range servers {
		path := []string{"Processes", "server=" + s}
		for _, way := range []string{"hand", "literals", "lockdb", "multiplexed", "lease"} {
			if s == "postgres" && way == "literals" {
				continue
			}
			against := number(r.at(way+"/hand", path...), "%.1f×")
			if way == "hand" {
				against = ""
			}
			t.rows = append(t.rows, []string{
				serverNames[s] + ", " + wayNames[way], number(r.at(way+"-turns/s", path...), "%.0f"), against,
				number(100*r.at(way+"-least-share", path...), "%.0f %%"), waits(r, way, path), number(r.at(way+"-conns", path...), "%.0f"),
			})
		}
	}
	return t
}

func heldTable(r results) table {
	t := table{
		title: "Many locks held",
		note: "Each of a key of its own, taken and released by one goroutine, one after the other. The heap is what is reachable after a " +
			"garbage collection.",
		plot: "held",
		head: []string{"", "connections", "heap each, bytes", "all taken in, ms", "all released in, ms"},
	}
	for _, s := range servers {
		for _, way := range []string{"lockdb", "multiplexed", "lease"} {
			for n := 1; n <= 10_000; n *= 10 {
				path := []string{"Held", "server=" + s, "by=" + way, "locks=" + strconv.Itoa(n)}
				if math.IsNaN(r.at("conns", path...)) || n == 1 {
					continue // the heap of one lock is below what can be seen
				}
				cells := columns(r, "%.0f", 1, []string{"conns", "heap-B/lock", "take-ms", "release-ms"}, path...)
				t.rows = append(t.rows, append([]string{fmt.Sprintf("%s, %s, %d", serverNames[s], wayNames[way], n)}, cells...))
			}
		}
	}
	return t
}

func ownCostTable(r results) table {
	t := table{
		title: "The client's own part of a lock",
		note:  "Acquire and release on a driver that does nothing.",
		head:  []string{"", "ns", "allocations", "bytes"},
	}
	for _, ctx := range []struct{ path, name string }{{"ctx=plain", ""}, {"ctx=cancellable", ", under a context that can be cancelled"}} {
		for _, way := range []string{"literals", "lockdb", "multiplexed"} {
			path := []string{"AcquireCloseOwnCost", ctx.path, "by=" + way}
			t.rows = append(t.rows, append([]string{way + ctx.name}, columns(r, "%.0f", 1, []string{"ns/op", "allocs/op", "B/op"}, path...)...))
		}
	}
	return t
}

func passThroughTable(r results) table {
	t := table{
		title: "Statements that have nothing to do with a lock, on a driver that does nothing",
		note:  "ns, times the bare driver's, and allocations. \"Locked\" is lockdb while a lock is held elsewhere; otelsql has no tracer.",
		head:  []string{"", "bare", "lockdb", "locked", "sqlmw", "otelsql"},
	}
	for _, op := range operations {
		path := "PassThrough/op=" + op
		row := []string{op}
		for _, way := range []string{"bare", "lockdb", "locked", "sqlmw", "otelsql"} {
			cell := number(r.at(way+"-ns", path, "ratio"), "%.0f ns")
			if way != "bare" {
				cell += ", " + number(r.at(way+"/bare", path, "ratio"), "%.2f×")
			}
			row = append(row, cell+", "+number(r.at("allocs/op", path, "by="+way), "%.0f"))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func passThroughServerTable(r results) table {
	t := table{
		title: "… on real servers",
		note:  "µs, and times the bare driver's.",
		head:  []string{"", "bare", "lockdb", "sqlmw", "otelsql"},
	}
	for _, s := range servers {
		for _, op := range operations {
			path := []string{"PassThroughServer", "server=" + s, "op=" + op, "ratio"}
			row := []string{serverNames[s] + ", " + op, number(r.at("bare-ns", path...)*micro, "%.0f")}
			for _, way := range []string{"lockdb", "sqlmw", "otelsql"} {
				row = append(row, number(r.at(way+"-ns", path...)*micro, "%.0f")+", "+number(r.at(way+"/bare", path...), "%.2f×"))
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}
