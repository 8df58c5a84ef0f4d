package dbtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// findProgram looks for a program in the folders of the patterns, the latest version first, then in the
// PATH and where servers are kept out of it.
func findProgram(name string, patterns ...string) (string, bool) {
	var found []string
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(filepath.Join(pattern, name))
		found = append(found, matches...)
	}
	slices.SortFunc(found, func(a, b string) int { return compareVersions(b, a) })
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		found = append(found, filepath.Join(dir, name))
	}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path, true
		}
	}
	return "", false
}

// compareVersions orders 9 before 15.
func compareVersions(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	if a < b {
		return -1
	}
	return 1
}
