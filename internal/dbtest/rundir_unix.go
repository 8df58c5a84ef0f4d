//go:build unix

package dbtest

import (
	"os"

	"golang.org/x/sys/unix"
)

// runDir is where servers keep their folders: in memory if there is room for several servers of about
// 100 MB, because a PostgreSQL is a thousand files, which some disks take a second to make.
func runDir() string {
	const memory, room = "/dev/shm", 2 << 30
	if os.Getenv("TMPDIR") != "" {
		return os.TempDir()
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(memory, &fs); err != nil || uint64(fs.Bavail)*uint64(fs.Bsize) < room {
		return os.TempDir()
	}
	return memory
}
