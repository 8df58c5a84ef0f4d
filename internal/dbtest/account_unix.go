//go:build unix

package dbtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user a program runs as; nil is the user of this process.
type account struct{ UID, GID int }

// unprivileged returns an account for programs that refuse to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return &account{uid, gid}, nil
		}
	}
	return nil, fmt.Errorf("running as root, found neither a user postgres nor nobody to run the server as")
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
}

// own gives the file to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, a.UID, a.GID)
}
