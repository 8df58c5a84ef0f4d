package main

import (
	"math"
	"testing"
)

func TestResultsAreReadAsBenchstatReadsThem(t *testing.T) {
	r := parse(`machine: 2 CPUs
goos: linux
BenchmarkPeers/rtt=1ms/ratio-2         	     100	   2758000 redsync-ns	         1.412 etcd/redsync
BenchmarkCrowd/server=mysql/goroutines=64-16 	       3	         0 ns/op	     64.00 hand-conns
goos: linux
PASS
`)
	for _, want := range []struct {
		unit, path string
		value      float64
	}{
		{"redsync-ns", "Peers/rtt=1ms/ratio", 2758000},
		{"etcd/redsync", "Peers/rtt=1ms/ratio", 1.412},
		{"hand-conns", "Crowd/server=mysql/goroutines=64", 64},
	} {
		if got := r.at(want.unit, want.path); got != want.value {
			t.Errorf("%s of %s: %v, want %v", want.unit, want.path, got, want.value)
		}
	}
	if v := r.at("etcd-ns", "Peers/rtt=1ms/ratio"); !math.IsNaN(v) {
		t.Errorf("a value that is not there: %v", v)
	}
	if got := r.setting("machine"); got != "2 CPUs" {
		t.Errorf("machine: %q", got)
	}
	if n := len(r.settingsOf("goos")); n != 1 {
		t.Errorf("%d settings of one that is repeated", n)
	}
}

func TestAGoalThatIsMissedIsBoldAndOneThatWasNotMeasuredIsNot(t *testing.T) {
	r := parse("BenchmarkLoss/server=mysql-2 300 12000000 bare-p99-ns 100000 p50-ns 11000000 p99-ns\nBenchmarkLoss/server=mariadb-2 300 100000 p50-ns 9000000 p99-ns\n")
	rows := goalTable(r).rows
	got := rows[len(rows)-1][2:]
	for i, want := range []string{"**11.0 ms (12.0)**", "9.0 ms", "–"} {
		if got[i] != want {
			t.Errorf("%s: %q, want %q", servers[i], got[i], want)
		}
	}
}
