package monotime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since some fixed point.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return elapsed()
	}
	return time.Duration(ts.Nano())
}
