package sqlscan

// reading fixes what the text of a statement leaves open.
type reading struct {
	single bool // a backslash escapes in '…'
	double bool // MySQL: a backslash escapes in "…"; not so under ANSI_QUOTES
	skip   bool // MySQL: versioned comments are comments
}

// usual is how a server reads with its default settings. Versioned comments are
// code: they are written to be run.
func usual(d Dialect) reading {
	return reading{single: d == MySQL, double: d == MySQL}
}

// The other readings, of which a text needs a look only if the lexer doubts.
var (
	otherMySQL = [...]reading{
		{single: true, double: false},
		{single: false, double: false},
		{single: true, double: true, skip: true},
		{single: true, double: false, skip: true},
		{single: false, double: false, skip: true},
	}
	otherPostgres = [...]reading{{single: true}}
)

func others(d Dialect) []reading {
	if d == MySQL {
		return otherMySQL[:]
	}
	return otherPostgres[:]
}
