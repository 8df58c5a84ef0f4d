package lease

// seen are keys whose rows this process has released, and wanted without a wait: so
// they are there, and nobody else seems to want them. It is a guess, which saves the
// server some work where it is right.
type seen map[string]struct{}

// maxSeen bounds them.
const maxSeen = 1024

func (s seen) add(key string) {
	if len(s) >= maxSeen {
		for other := range s { // any one
			delete(s, other)
			break
		}
	}
	s[key] = struct{}{}
}

func (s seen) has(key string) bool {
	_, ok := s[key]
	return ok
}
