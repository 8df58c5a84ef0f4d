package migrate_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/driver"
)

// The test binary with these set is a process that migrates.
const (
	toolEnv = "LOCKDB_TEST_MIGRATE_TOOL"
	dsnEnv  = "LOCKDB_TEST_MIGRATE_DSN"
)

func init() {
	if name := os.Getenv(toolEnv); name != "" {
		if err := migrateWhenTold(name, os.Getenv(dsnEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// migrateWhenTold opens the database and says "ready", migrates when it is told
// to and says "migrated", and ends when it is told again.
func migrateWhenTold(name, dsn string) error {
	db, err := sql.Open(driver.Name, dsn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	told := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := told.ReadString('\n'); err != nil {
		return err
	}
	if err := tools[name](ctx, db, migrations(name)); err != nil {
		return err
	}
	fmt.Println("migrated")
	if _, err := told.ReadString('\n'); err != nil {
		return err
	}
	return db.Close()
}

// process is one that runs migrateWhenTold.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	says  *bufio.Reader
	log   bytes.Buffer
}

func start(t *testing.T, name, dsn string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), toolEnv+"="+name, dsnEnv+"="+dsn)
	p.cmd.Stderr = &p.log
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.says = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

func (p *process) tell(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.stdin, "\n")
	require.NoError(t, err)
}

// said waits for the line. What libraries log may stand before it.
func (p *process) said(t *testing.T, want string) {
	t.Helper()
	for {
		line, err := p.says.ReadString('\n')
		if err != nil {
			_ = p.cmd.Wait()
			require.NoError(t, err, "the process ended before it said %q: %s", want, p.log.String())
		}
		if line == want+"\n" {
			return
		}
	}
}

func (p *process) ends(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Wait(), p.log.String())
}
