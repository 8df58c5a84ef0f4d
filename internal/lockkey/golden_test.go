package lockkey_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/lockkey"
)

const goldenFile = "testdata/golden.tsv"

// A line of the file that changes is a lock that is no longer the same lock
// while an old and a new version of a program run side by side. Lines may be
// added with -add; there is no way to update one.
var addGolden = flag.Bool("add", false, "append the keys that the golden file lacks")

func TestC35_GoldenKeysKeepTheirNamesAndIDs(t *testing.T) {
	have := readGolden(t)
	var missing []string
	for _, ns := range []string{"", "billing", "a-24-character.namespace"} {
		for _, key := range goldenKeys() {
			where := strconv.QuoteToASCII(ns) + "\t" + strconv.QuoteToASCII(key)
			got := derive(ns, key)
			want, ok := have[where]
			if !ok {
				missing = append(missing, where+"\t"+got)
				continue
			}
			require.Equal(t, want, got, "the derivation changed for namespace and key %s: this is a breaking change", where)
			delete(have, where)
		}
	}
	if *addGolden {
		appendGolden(t, missing)
	} else {
		require.Empty(t, missing, "not in %s: add with -add", goldenFile)
	}
	require.Empty(t, have, "in %s but no longer tested", goldenFile)
}

func derive(ns, key string) string {
	n, err := lockkey.Name(ns, key)
	if err != nil {
		return "error"
	}
	i, err := lockkey.ID(ns, key)
	if err != nil {
		return "error"
	}
	return fmt.Sprintf("%s\t%d", n, i)
}

func goldenKeys() []string {
	keys := []string{
		"", "a", "A", "order:42", "Order:42", "/path/to_the-thing.v2", "é", "É", "e\u0301", "E\u0301",
		"a ", " a", "a\x00b", "a\x00c", "\x00", "\U0001F512", "ключ", "\xff", "a\xc3", "'", `"`, "`", `\`, `a\'b`,
		"?", "$1", "%", "%s", "--", "-- x", "/*", "/*!50000 x*/", "#", "#a/b", ";", "a;b", "a\nb", "\u212a", "\u0130",
		"0", "-1", "42", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "18446744073709551615",
		strings.Repeat("0123456789abcdef", 4) + "x", strings.Repeat("0123456789abcdef", 4) + "y",
		strings.Repeat("é", 32), strings.Repeat("é", 33),
		"job#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	}
	for _, n := range []int{37, 38, 39, 54, 55, 56, 63, 64, 65, 191, 192, 193, 5000} {
		keys = append(keys, strings.Repeat("k", n))
	}
	return keys
}

func readGolden(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open(goldenFile)
	if *addGolden && os.IsNotExist(err) {
		return map[string]string{}
	}
	require.NoError(t, err)
	defer f.Close()
	have := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), "\t", 3)
		require.Len(t, part, 3)
		have[part[0]+"\t"+part[1]] = part[2]
	}
	require.NoError(t, lines.Err())
	return have
}

func appendGolden(t *testing.T, lines []string) {
	t.Helper()
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	f, err := os.OpenFile(goldenFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	for _, line := range lines {
		_, err = fmt.Fprintln(f, line)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}
