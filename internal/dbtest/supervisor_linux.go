package dbtest

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes the children of a killed program ours, so that they can be found and ended.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr ends the child should somebody kill the supervisor.
func childAttr(who *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: who.credential()}
}
