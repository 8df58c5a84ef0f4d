package dbtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// cacheDir keeps what is made once per machine: scripts/install-servers puts MySQL there, and
// templates are data folders of freshly initialised servers.
func cacheDir() (string, error) {
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "lockdb-test"), nil
}

// cloneTemplate copies an initialised data folder to dst. The template is made on first use by initialise,
// a command line that fills the folder it is given, and is kept for that build of the server's program and
// that command line.
func cloneTemplate(k Kind, who *account, program string, initialise func(data string) []string, dst string) error {
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	build, err := os.Stat(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Append(nil, program, build.Size(), build.ModTime().UnixNano(), initialise("")))
	template := filepath.Join(cache, "templates", fmt.Sprintf("%s-%x", k, sum[:6]))
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		if err := makeTemplate(k, who, initialise, template); err != nil {
			return err
		}
	}
	return copyTree(template, dst, who)
}

// makeTemplate is safe beside other processes that make the same template: whoever is first wins.
func makeTemplate(k Kind, who *account, initialise func(data string) []string, template string) error {
	p, err := newSupervised(k, who)
	if err != nil {
		return err
	}
	defer p.end()
	data := filepath.Join(p.dir, "data")
	if err := p.run(initialise(data)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(template), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(template), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := copyTree(data, filepath.Join(tmp, "data"), nil); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "data"), template); err != nil {
		if _, statErr := os.Stat(template); statErr != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a folder of plain files and folders and gives the copy to who.
func copyTree(src, dst string, who *account) error {
	return filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case entry.IsDir():
			err = os.Mkdir(to, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(path, to)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return who.own(to)
	})
}

func copyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
