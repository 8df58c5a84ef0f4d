package sqlscan

// folds reports whether s is lower when ASCII letters are folded. lower has
// no upper-case letters.
func folds(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		b := s[i]
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}
