package lockkey_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockdb/lockdb/internal/lockkey"
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9_.:/#-]{1,64}$`)
	plainForm = regexp.MustCompile(`^[a-z0-9_.:/-]{1,64}$`)
	nsForm    = regexp.MustCompile(`^[a-z0-9_.:-]{0,24}$`)
)

func name(t testing.TB, namespace, key string) string {
	t.Helper()
	n, err := lockkey.Name(namespace, key)
	require.NoError(t, err)
	require.Regexp(t, nameForm, n)
	return n
}

func id(t testing.TB, namespace, key string) int64 {
	t.Helper()
	n, err := lockkey.ID(namespace, key)
	require.NoError(t, err)
	return n
}

func TestC31_KeysThatFitEveryServerPassUnchangedAndLongerOnesStayDistinct(t *testing.T) {
	for _, n := range []int{1, 63, 64} {
		key := strings.Repeat("k", n)
		assert.Equal(t, key, name(t, "", key))
	}
	seen := map[string]string{}
	for _, n := range []int{65, 191, 192, 193, 5000, lockkey.MaxBytes} {
		for _, tail := range []string{"a", "b"} {
			key := strings.Repeat("k", n-1) + tail
			got := name(t, "", key)
			assert.Len(t, got, 64)
			assert.Equal(t, "kkkkkkkkkkk#", got[:12], "people find the key by its beginning")
			assert.Empty(t, seen[got])
			seen[got] = key
		}
	}
}

func TestC32_EqualityOfKeysIsEqualityOfGoStrings(t *testing.T) {
	distinct := []string{
		"a", "A", "a ", " a", "a\x00", "a\x00b", "a\x00c", "e", "é", "É", "e\u0301", "E\u0301", "\u212a", "k", "K",
		"\U0001F512", "\U0001F513", "\xff", "\xfe", "\xff\xfe", "_", "__", "'", `"`, `\`, "?", "$1", "%", "--", "/*",
		"/", "//", "a/b", "a#b", "#a", "#a/b", ";",
	}
	names, ids := map[string]string{}, map[int64]string{}
	for _, ns := range []string{"", "a", "b"} {
		for _, key := range distinct {
			n, i := name(t, ns, key), id(t, ns, key)
			assert.NotContains(t, names, n, "%q", key)
			assert.NotContains(t, ids, i, "%q", key)
			names[n], ids[i] = key, key
		}
	}
}

func TestC32_EmptyAndOverlongKeysAreErrorsThatSayWhatToDo(t *testing.T) {
	for key, want := range map[string]error{"": lockkey.ErrEmpty, strings.Repeat("k", lockkey.MaxBytes+1): lockkey.ErrTooLong} {
		_, err := lockkey.Name("", key)
		require.ErrorIs(t, err, want)
		assert.Less(t, len(err.Error()), 250)
		_, err = lockkey.ID("ns", key)
		require.ErrorIs(t, err, want)
	}
}

func TestC33_NamespacesKeepEqualKeysApart(t *testing.T) {
	assert.Equal(t, "order:42", name(t, "", "order:42"))
	assert.Equal(t, "#billing/order:42", name(t, "billing", "order:42"))
	assert.NotEqual(t, id(t, "", "order:42"), id(t, "billing", "order:42"))

	// The boundary between namespace and key cannot be moved, nor can a key
	// without a namespace be made to look like one with it.
	apart := [][2]string{
		{"a", "b:c"},
		{"a:b", "c"},
		{"", "a:b:c"},
		{"", "a/b:c"},
		{"", "#a/b:c"},
		{"", "a\x00b:c"},
		{"a", "É"},
		{"", "a/É"},
		{"", "a\x00É"},
		{"", "#a/É"},
	}
	names, ids := map[string]bool{}, map[int64]bool{}
	for _, p := range apart {
		names[name(t, p[0], p[1])] = true
		ids[id(t, p[0], p[1])] = true
	}
	assert.Len(t, names, len(apart))
	assert.Len(t, ids, len(apart))
}

func TestANamespacedKeyIsReadableUpTo64CharactersInAll(t *testing.T) {
	ns := strings.Repeat("n", lockkey.MaxNamespaceBytes)
	assert.Equal(t, "#"+ns+"/"+strings.Repeat("k", 38), name(t, ns, strings.Repeat("k", 38)))
	assert.Regexp(t, "^#n{10}#[a-z2-7]{52}$", name(t, ns, strings.Repeat("k", 39)))
	assert.Regexp(t, "^#app/order_#[a-z2-7]{52}$", name(t, "app", "Order 42"))
}

func TestNoKeyCanPoseAsTheEncodedFormOfAnother(t *testing.T) {
	for _, key := range []string{"É", strings.Repeat("k", 65)} {
		for _, ns := range []string{"", "ns"} {
			encoded := name(t, ns, key)
			assert.NotEqual(t, encoded, name(t, "", encoded))
			assert.NotEqual(t, encoded, name(t, ns, encoded))
		}
	}
}

func TestNamespacesAreChecked(t *testing.T) {
	for _, good := range []string{"", "a", "billing", "my-app_v1.2:x", strings.Repeat("n", 24)} {
		require.NoError(t, lockkey.CheckNamespace(good))
	}
	for _, bad := range []string{"A", "a/b", "a#b", "a b", "é", "\xff", "a'", strings.Repeat("n", 25)} {
		require.Error(t, lockkey.CheckNamespace(bad), "%q", bad)
		_, err := lockkey.Name(bad, "k")
		require.Error(t, err)
		_, err = lockkey.ID(bad, "k")
		require.Error(t, err)
	}
	assert.ErrorContains(t, lockkey.CheckNamespace("a/b"), `"a/b" contains "/"`)
}

func TestC34_KeysWithEqual32BitHashesHaveDistinctIDs(t *testing.T) {
	a, b := collide32(t)
	assert.NotEqual(t, id(t, "", a), id(t, "", b))
	assert.Equal(t, id(t, "", a)>>32, id(t, "", b)>>32)
}

// collide32 searches for two keys whose SHA-256 begin with the same four bytes.
func collide32(t *testing.T) (string, string) {
	t.Helper()
	seen := make(map[uint32]int64, 1<<17)
	for i := range int64(1 << 20) {
		key := "job:" + big.NewInt(i).String()
		h := sha256.Sum256([]byte(key))
		short := binary.BigEndian.Uint32(h[:])
		if j, ok := seen[short]; ok {
			return "job:" + big.NewInt(j).String(), key
		}
		seen[short] = i
	}
	t.Fatal("no collision among a million keys")
	return "", ""
}

func TestC36_IDsAreTwosComplementOverTheWholeRange(t *testing.T) {
	var negative, positive bool
	for i := range int64(64) {
		key := big.NewInt(math.MinInt64 + i).String()
		digest := sha256.Sum256([]byte(key))
		want := new(big.Int).SetBytes(digest[:8])
		if want.Bit(63) == 1 {
			want.Sub(want, new(big.Int).Lsh(big.NewInt(1), 64))
		}
		got := id(t, "", key)
		assert.Equal(t, want.Int64(), got)
		negative, positive = negative || got < 0, positive || got > 0
	}
	assert.True(t, negative && positive)
}

func TestAPlainKeyCostsNoAllocation(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = lockkey.Name("", "order:42") }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = lockkey.ID("", "order:42") }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = lockkey.ID("billing", "order:42") }))
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = lockkey.Name("billing", "order:42") }), 1.0)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = lockkey.Name("", "Order 42") }), 1.0)
}

func FuzzNamesAreSafeDeterministicAndDistinct(f *testing.F) {
	for _, k := range []string{"a", "A", "é", "\xff", "a b", "#a/b", strings.Repeat("k", 64), strings.Repeat("k", 65)} {
		for _, ns := range []string{"", "ns", "Ns"} {
			f.Add(ns, k, ns, k+"x")
			f.Add(ns, k, "", ns+"/"+k)
			f.Add(ns, k, "", "#"+ns+"/"+k)
			f.Add(ns, k, "", ns+"\x00"+k)
		}
	}
	f.Fuzz(func(t *testing.T, ns1, key1, ns2, key2 string) {
		n1, err1 := lockkey.Name(ns1, key1)
		i1, errID := lockkey.ID(ns1, key1)
		ok := nsForm.MatchString(ns1) && key1 != "" && len(key1) <= lockkey.MaxBytes
		if (err1 == nil) != ok || (errID == nil) != ok {
			t.Fatalf("%q %q: errors %v and %v, want success: %v", ns1, key1, err1, errID, ok)
		}
		if !ok {
			return
		}
		if !nameForm.MatchString(n1) {
			t.Fatalf("%q %q: unsafe name %q", ns1, key1, n1)
		}
		if n1 != obviousName(ns1, key1) {
			t.Fatalf("%q %q: %q, want %q", ns1, key1, n1, obviousName(ns1, key1))
		}
		n2, err2 := lockkey.Name(ns2, key2)
		if err2 != nil {
			if !errors.Is(err2, lockkey.ErrEmpty) && !errors.Is(err2, lockkey.ErrTooLong) && lockkey.CheckNamespace(ns2) == nil {
				t.Fatal(err2)
			}
			return
		}
		i2, _ := lockkey.ID(ns2, key2)
		same := ns1 == ns2 && key1 == key2
		if (n1 == n2) != same || (i1 == i2) != same {
			t.Fatalf("(%q, %q) and (%q, %q): names %q and %q, ids %d and %d", ns1, key1, ns2, key2, n1, n2, i1, i2)
		}
	})
}

// obviousName is the derivation as doc.go words it.
func obviousName(ns, key string) string {
	readable, text, mark, room := key, key, "", 11
	if ns != "" {
		readable, text, mark, room = ns+"/"+key, ns+"\x00"+key, "#", 10
	}
	if plainForm.MatchString(key) && len(mark+readable) <= 64 {
		return mark + readable
	}
	prefix := []byte(readable[:min(room, len(readable))])
	for i, b := range prefix {
		if 'A' <= b && b <= 'Z' {
			prefix[i] = b | 0x20
		} else if !plainForm.Match(prefix[i : i+1]) {
			prefix[i] = '_'
		}
	}
	h := sha256.Sum256([]byte(text))
	return mark + string(prefix) + "#" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h[:]))
}

func BenchmarkName(b *testing.B) {
	for _, c := range []struct{ what, ns, key string }{
		{"plain", "", "order:42"},
		{"namespace", "billing", "order:42"},
		{"encoded", "", "Order 42"},
		{"64KiB", "", strings.Repeat("k", lockkey.MaxBytes)},
	} {
		b.Run(c.what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = lockkey.Name(c.ns, c.key)
			}
		})
	}
}

func BenchmarkID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = lockkey.ID("", "order:42")
	}
}
