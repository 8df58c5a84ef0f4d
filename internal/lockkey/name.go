package lockkey

import "encoding/base32"

const (
	maxName   = 64 // MySQL's limit, in characters
	hashChars = 52 // 256 bits at 5 a character
	maxPrefix = maxName - len("#") - hashChars
)

var base = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Name returns the name of the MySQL or MariaDB lock for key, which is also the
// key of its lease row: 1 to 64 characters of [a-z0-9_.:/#-]. The error is
// ErrEmpty, ErrTooLong, or that of CheckNamespace.
func Name(namespace, key string) (string, error) {
	if err := check(namespace, key); err != nil {
		return "", err
	}
	if namespace == "" {
		if len(key) <= maxName && plain(key) {
			return key, nil
		}
	} else if len("#")+len(namespace)+len("/")+len(key) <= maxName && plain(key) {
		return "#" + namespace + "/" + key, nil
	}
	return encode(namespace, key), nil
}

func encode(namespace, key string) string {
	var room [maxName]byte
	name := room[:0]
	if namespace == "" {
		name = appendPrefix(name, key, maxPrefix)
	} else {
		name = append(name, '#')
		name = appendPrefix(name, namespace, maxPrefix)
		name = appendPrefix(name, "/", maxPrefix)
		name = appendPrefix(name, key, maxPrefix)
	}
	name = append(name, '#')
	digest := sum(namespace, key)
	return string(base.AppendEncode(name, digest[:]))
}

// appendPrefix appends to name a readable form of s, byte by byte since s need
// not be UTF-8, until name has limit characters.
func appendPrefix(name []byte, s string, limit int) []byte {
	for i := 0; i < len(s) && len(name) < limit; i++ {
		b := s[i]
		switch {
		case 'A' <= b && b <= 'Z':
			b += 'a' - 'A'
		case class[b]&inKey == 0:
			b = '_'
		}
		name = append(name, b)
	}
	return name
}
