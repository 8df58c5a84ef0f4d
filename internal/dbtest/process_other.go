//go:build !unix

package dbtest

import (
	"errors"
	"syscall"
)

// Elsewhere than on Unix dbtest starts no servers: the variables that name running ones must be set.
var errUnix = errors.New("dbtest starts servers on Unix only: set " + MySQL.dsnEnv() + " and its like")

type account struct{}

func unprivileged() (*account, error) { return nil, errUnix }

func runDir() string { return "" }

func (*account) own(string) error { return errUnix }

func ownProcessGroup() *syscall.SysProcAttr { return nil }

func (*supervised) alive() bool                 { return false }
func (*supervised) signal(syscall.Signal) error { return errUnix }
func (*supervised) stopAll() error              { return errUnix }
func (*supervised) contAll() error              { return errUnix }
func (*supervised) killAll() error              { return errUnix }
