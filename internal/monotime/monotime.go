// Package monotime is the clock by which the absence of signs of life is
// measured: it never jumps, and where the system offers it, it goes on while
// the machine is suspended, as the server's clock does.
package monotime

import "time"

var base = time.Now()

func elapsed() time.Duration { return time.Since(base) }
