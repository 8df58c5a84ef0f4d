package dbtest

import (
	"syscall"
	"time"
)

// nap is time.Sleep, which of less than a millisecond makes up to one more.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // Who calls it looks at the clock again.
}
