package bench

import (
	"math/bits"
	"testing"
	"time"
)

// histogram counts durations in buckets whose width is a thirty-second of their
// power of two, so that quantiles of any number of them are right to 3 %. It can
// be added to another one, and sent from process to process.
type histogram map[int]int64

const fine = 5 // bits of a bucket's place within its power of two

func (h histogram) note(d time.Duration) { h[bucketOf(d)]++ }

func bucketOf(d time.Duration) int {
	n := uint64(max(d, 1<<fine))
	shift := bits.Len64(n) - 1 - fine
	return shift<<fine + int(n>>shift)
}

// counts is a histogram that is quicker to note in, for where the time that this
// takes would count.
type counts [(64 - fine) << fine]int64

func (c *counts) note(d time.Duration) { c[bucketOf(d)]++ }

func (c *counts) histogram() histogram {
	h := make(histogram)
	for bucket, n := range c {
		if n > 0 {
			h[bucket] = n
		}
	}
	return h
}

func (h histogram) add(other histogram) {
	for bucket, n := range other {
		h[bucket] += n
	}
}

func (h histogram) count() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// quantile is the upper end of the bucket in which it is.
func (h histogram) quantile(q float64) time.Duration {
	rank, last := int64(q*float64(h.count())), 0
	for bucket := range h {
		last = max(last, bucket)
	}
	for bucket := range last + 1 {
		if rank -= h[bucket]; rank < 0 {
			return upper(bucket)
		}
	}
	return upper(last)
}

func upper(bucket int) time.Duration {
	shift := max(bucket>>fine-1, 0)
	return time.Duration(bucket-shift<<fine+1) << shift
}

// report reports the median and the 99th percentile, in ns.
func (h histogram) report(b *testing.B, name string) {
	b.ReportMetric(float64(h.quantile(0.5)), name+"p50-ns")
	b.ReportMetric(float64(h.quantile(0.99)), name+"p99-ns")
}
