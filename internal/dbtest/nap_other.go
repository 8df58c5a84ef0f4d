//go:build !linux

package dbtest

import "time"

func nap(d time.Duration) { time.Sleep(d) }
