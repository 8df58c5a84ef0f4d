package dbtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// startTimeout is generous: a busy machine may start many servers at once.
const startTimeout = 90 * time.Second

// daemon is a server program, started from dir on a port that stays the same over restarts.
type daemon struct {
	*supervised
	argv []string
	// stop is the signal that asks the program to shut down cleanly and at once.
	stop syscall.Signal
	// driver and dsn are used to find out whether the server answers.
	driver, dsn string
}

// start starts the program and waits until the server answers.
func (d *daemon) start() error {
	if err := d.supervised.start(d.argv); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := ping(ctx, d.driver, d.dsn)
		switch {
		case err == nil:
			return nil
		case !d.alive():
			return fmt.Errorf("%s ended at its start:\n%s", filepath.Base(d.argv[0]), d.logTail())
		case ctx.Err() != nil:
			return fmt.Errorf("%s did not answer within %v: %w\n%s", filepath.Base(d.argv[0]), startTimeout, err, d.logTail())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// shutDown ends the program cleanly.
func (d *daemon) shutDown() error {
	if !d.alive() {
		return nil
	}
	if err := d.signal(d.stop); err != nil {
		return err
	}
	if d.gone(startTimeout) {
		return nil
	}
	return fmt.Errorf("%s did not shut down within %v:\n%s", filepath.Base(d.argv[0]), startTimeout, d.logTail())
}

// logTail returns the end of what the program printed.
func (d *daemon) logTail() string { return logTail(d.dir) }

func logTail(dir string) string {
	log, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-25):], []byte("\n")))
}

// launchDaemon makes a folder, fills it by prepare, and starts the program there. Another
// process may take the port between its choice and its use: then another is tried.
func launchDaemon(k Kind, who *account, prepare func(dir string) error, configure func(d *daemon, port int) error) (*Server, error) {
	sup, err := newSupervised(k, who)
	if err != nil {
		return nil, err
	}
	d := &daemon{supervised: sup}
	err = prepare(d.dir)
	for attempt := 0; err == nil && attempt < 3; attempt++ {
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		if err = configure(d, port); err != nil {
			break
		}
		if err = d.start(); err == nil {
			return &Server{kind: k, dsn: d.dsn, admin: d.dsn, daemon: d}, nil
		}
		if !bytes.Contains([]byte(err.Error()), []byte("ddress already in use")) {
			break
		}
	}
	d.end()
	return nil, fmt.Errorf("%s: %w", k, err)
}
