//go:build unix && !linux

package dbtest

import "syscall"

func adoptOrphans() {}

func childAttr(who *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: who.credential()}
}
