package main

import "strconv"

func leaseTable(r results) table {
	t := table{
		title: "Leases",
		note: "A lease acquired and released, against two writes of a row that are committed one by one, and against the statements " +
			"that one would write for a lease by hand, without and with a session lock that wakes those who wait; and a transaction with one update that is fenced by a lease, against a plain one. In µs.",
		head: []string{"", "two writes", "by hand", "waking by hand", "lease", "by hand/writes", "waking/writes", "lease/writes", "plain", "fenced", "fenced/plain"},
	}
	for _, s := range servers {
		for _, commits := range []string{"durable", "fast"} {
			for _, n := range networks {
				writes := []string{"LeaseAcquireClose", "server=" + s, "commits=" + commits, n, "ratio"}
				fenced := []string{"FencedCommit", "server=" + s, "commits=" + commits, n, "ratio"}
				row := append([]string{serverNames[s] + ", " + commits + networkOf[n]}, columns(r, "%.0f", micro, []string{"writes-ns", "hand-ns", "waking-ns", "lease-ns"}, writes...)...)
				row = append(row, columns(r, "%.2f×", 1, []string{"hand/writes", "waking/writes", "lease/writes"}, writes...)...)
				row = append(row, columns(r, "%.0f", micro, []string{"plain-ns", "fenced-ns"}, fenced...)...)
				t.rows = append(t.rows, append(row, number(r.at("fenced/plain", fenced...), "%.2f×")))
			}
		}
	}
	return t
}

func renewalTable(r results) table {
	t := table{
		title: "Renewals",
		note:  "What the server is asked in each interval to keep so many leases, and how long it takes.",
		head:  []string{"leases"},
	}
	for _, s := range servers {
		t.head = append(t.head, serverNames[s]+", statements", "ms")
	}
	for _, n := range []int{1, 100, 1000, 10_000} {
		row := []string{strconv.Itoa(n)}
		for _, s := range servers {
			path := []string{"Renewal", "server=" + s, "leases=" + strconv.Itoa(n)}
			row = append(row, number(r.at("statements/interval", path...), "%.1f"), number(r.at("ms/interval", path...), "%.1f"))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func handOverTable(r results) table {
	t := table{
		title: "Hand-over to another process",
		note:  "From the begin of the release until a process that waits has the lock, p50 / p99 in ms.",
		head:  []string{"", "lockdb", "multiplexed", "lease"},
	}
	for _, s := range servers {
		for _, commits := range []string{"durable", "fast"} {
			row := []string{serverNames[s] + ", " + commits + " commits"}
			for _, way := range []string{"lockdb", "multiplexed", "lease"} {
				path := []string{"HandOver", "server=" + s, "commits=" + commits, "by=" + way}
				row = append(row, number(r.at("p50-ns", path...)*1e-6, "%.2f")+" / "+number(r.at("p99-ns", path...)*1e-6, "%.2f"))
			}
			t.rows = append(t.rows, row)
		}
	}
	return t
}

func failoverTable(r results) table {
	t := table{
		title: "Failover after kill -9",
		note: "From the kill of the holder until a process that waits has the lock, p50 / worst in ms. A lease (here of 3 s) ends at its " +
			"expiry, which was put off at the last renewal, up to a third of that earlier.",
		head: []string{"", "lockdb", "multiplexed", "lease"},
	}
	for _, s := range servers {
		row := []string{serverNames[s]}
		for _, way := range []string{"lockdb", "multiplexed", "lease"} {
			path := []string{"Failover", "server=" + s, "by=" + way}
			row = append(row, number(r.at("p50-ms", path...), "%.0f")+" / "+number(r.at("max-ms", path...), "%.0f"))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func lossTable(r results) table {
	t := table{
		title: "The news of a loss",
		note: "From the moment at which KILL of the lock's session is sent until its context has ended, in ms. Bare is until the socket of a " +
			"session killed in the same way, at which somebody does nothing but wait, has been read to its end: the limit.",
		head: []string{"", "p50", "p99", "bare p50", "bare p99"},
	}
	for _, s := range servers {
		t.rows = append(t.rows, append([]string{serverNames[s]}, columns(r, "%.2f", 1e-6, []string{"p50-ns", "p99-ns", "bare-p50-ns", "bare-p99-ns"}, "Loss", "server="+s)...))
	}
	return t
}
