package sqlscan

const (
	space      = 1 << iota // white space to both families
	identStart             // begins an unquoted identifier
	identPart              // continues one
	digit
)

// Bytes from 0x80 are letters to both families' lexers.
var class = func() (c [256]uint8) {
	for _, b := range []byte(" \t\n\v\f\r") {
		c[b] = space
	}
	for b := range 256 {
		switch {
		case 'a' <= b|0x20 && b|0x20 <= 'z' && b < 0x80, b == '_', b >= 0x80:
			c[b] = identStart | identPart
		case '0' <= b && b <= '9':
			c[b] = identPart | digit
		}
	}
	c['$'] = identPart
	return c
}()
