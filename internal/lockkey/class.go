package lockkey

// What a byte may be part of.
const (
	inKey       = 1 << iota // a plain key
	inNamespace             // a namespace
)

var class = func() (c [256]uint8) {
	for b := byte('a'); b <= 'z'; b++ {
		c[b] = inKey | inNamespace
	}
	for b := byte('0'); b <= '9'; b++ {
		c[b] = inKey | inNamespace
	}
	for _, b := range []byte("_.:-") {
		c[b] = inKey | inNamespace
	}
	c['/'] = inKey
	return c
}()

// plain reports whether all bytes of s may stand in a name as they are.
func plain(s string) bool {
	for i := range len(s) {
		if class[s[i]]&inKey == 0 {
			return false
		}
	}
	return true
}
