package main

import (
	"fmt"
	"math"
	"strings"
)

// goal is a row of the table of goals.
type goal struct {
	what, limit string
	figures     []figure // one for each server, or one for all
}

// figure is a value with the word whether it is as good as the goal wants.
type figure struct {
	text string
	met  bool
}

var (
	servers     = []string{"mysql", "mariadb", "postgres"}
	serverNames = map[string]string{"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL"}
)

func atMost(v, limit float64, format string) figure {
	return figure{number(v, format), v <= limit}
}

func atLeast(v, limit float64, format string) figure {
	return figure{number(v, format), v >= limit}
}

func number(v float64, format string) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

func both(a, b figure) figure { return figure{a.text + ", " + b.text, a.met && b.met} }

func goals(r results) []goal {
	of := func(f func(server string) figure) (figures []figure) {
		for _, s := range servers {
			figures = append(figures, f("server="+s))
		}
		return figures
	}
	ratio := func(group, server, of, to string, more ...string) float64 {
		path := append(append([]string{group, server}, more...), "ratio")
		return r.at(of+"-ns", path...) / r.at(to+"-ns", path...)
	}
	medianRatio := func(group, server, unit string, more ...string) float64 {
		return r.at(unit, append(append([]string{group, server}, more...), "ratio")...)
	}
	return []goal{
		{"pass-through, no-op driver, the worst operation", "+0 allocs, ≤ 1.10×", []figure{passThroughGoal(r)}},
		{"Acquire+Close against two bare literal statements", "≤ 1.05×", of(func(s string) figure {
			return atMost(medianRatio("AcquireClose", s, "lockdb/literals", "rtt=0s", "ctx=plain"), 1.05, "%.2f×")
		})},
		{"… against placeholders by hand", "≤ 0.5×", of(func(s string) figure {
			if s == "server=postgres" {
				return figure{"", true}
			}
			return atMost(ratio("AcquireClose", s, "lockdb", "placeholders", "rtt=0s", "ctx=plain"), 0.5, "%.2f×")
		})},
		{"64 goroutines, one key, against by hand", "≥ 100×", of(func(s string) figure {
			return atLeast(r.at("lockdb/hand", "Crowd", s, "goroutines=64"), 100, "%.0f×")
		})},
		{"4 processes × 16 goroutines, against by hand", "≥ 5×, least share ≥ 15 %", of(func(s string) figure {
			return both(atLeast(r.at("lockdb/hand", "Processes", s), 5, "%.0f×"),
				atLeast(100*r.at("lockdb-least-share", "Processes", s), 15, "%.0f %%"))
		})},
		{"InTx, 1 ms network, against a plain transaction", "PostgreSQL ≤ 1.10×; MySQL ≤ 1 more round trip", of(func(s string) figure {
			times := medianRatio("InTx", s, "lockdb/plain", "rtt=1ms")
			if s == "server=postgres" {
				return atMost(times, 1.10, "%.2f×")
			}
			trip := r.at("literals-ns", "AcquireClose", s, "rtt=1ms", "ctx=plain", "ratio") / 2
			more := (r.at("lockdb-ns", "InTx", s, "rtt=1ms", "ratio") - r.at("plain-ns", "InTx", s, "rtt=1ms", "ratio")) / trip
			f := atMost(math.Round(more), 1, "+%.0f round trips") // they are whole: the rest is the server's time
			f.text = number(times, "%.2f×") + ", " + f.text
			return f
		})},
		{"lease Acquire+Close against two writes, durable commits", "≤ 1.05×", of(func(s string) figure {
			return atMost(medianRatio("LeaseAcquireClose", s, "lease/writes", "commits=durable", "rtt=0s"), 1.05, "%.2f×")
		})},
		{"… on a 1 ms network", "≤ 1.05×", of(func(s string) figure {
			return atMost(medianRatio("LeaseAcquireClose", s, "lease/writes", "commits=durable", "rtt=1ms"), 1.05, "%.2f×")
		})},
		{"hand-over of a lease between processes, p50", "≤ 5 ms", of(func(s string) figure {
			return atMost(r.at("p50-ns", "HandOver", s, "commits=durable", "by=lease")/1e6, 5, "%.1f ms")
		})},
		{"10,000 multiplexed locks held", "≤ 2 connections, ≤ 2 KiB heap each", of(func(s string) figure { return heldGoal(r, s, "multiplexed") })},
		{"10,000 leases held", "≤ 2 connections, ≤ 2 KiB heap each", of(func(s string) figure { return heldGoal(r, s, "lease") })},
		{"KILL to the end of the context, p99 (to the end of a bare socket)", "≤ 10 ms", of(func(s string) figure {
			f := atMost(r.at("p99-ns", "Loss", s)/1e6, 10, "%.1f ms")
			if bare := r.at("bare-p99-ns", "Loss", s) / 1e6; !math.IsNaN(bare) {
				f.text += number(bare, " (%.1f)")
			}
			return f
		})},
	}
}

func passThroughGoal(r results) figure {
	allocs, times := math.Inf(-1), math.Inf(-1)
	for _, op := range operations {
		path := "PassThrough/op=" + op
		allocs = math.Max(allocs, r.at("allocs/op", path, "by=lockdb")-r.at("allocs/op", path, "by=bare"))
		times = math.Max(times, r.at("lockdb/bare", path, "ratio"))
	}
	return both(atMost(allocs, 0, "%+.0f allocs"), atMost(times, 1.10, "%.2f×"))
}

func heldGoal(r results, server, way string) figure {
	path := []string{"Held", server, "by=" + way, "locks=10000"}
	return both(atMost(r.at("conns", path...), 2, "%.0f"), atMost(r.at("heap-B/lock", path...)/1024, 2, "%.1f KiB"))
}

func goalTable(r results) table {
	t := table{head: []string{"", "goal", "MySQL", "MariaDB", "PostgreSQL"}}
	for _, g := range goals(r) {
		row := []string{g.what, g.limit}
		for _, f := range g.figures {
			if !f.met && !strings.Contains(f.text, "–") {
				f.text = "**" + f.text + "**"
			}
			row = append(row, f.text)
		}
		t.rows = append(t.rows, row)
	}
	return t
}
