package driver

import (
	"errors"
	"strings"
)

// libpq's keywords, and those that pgx adds. A DSN with none of them is not taken
// for PostgreSQL's: "server=localhost;user id=sa" reads as key=value too.
var libpqKeywords = map[string]bool{
	"host": true, "hostaddr": true, "port": true, "dbname": true, "database": true,
	"user": true, "password": true, "passfile": true, "service": true, "servicefile": true,
	"sslmode": true, "sslcert": true, "sslkey": true, "sslrootcert": true, "sslpassword": true,
	"sslcertmode": true, "sslsni": true, "sslnegotiation": true, "requiressl": true,
	"application_name": true, "fallback_application_name": true, "connect_timeout": true,
	"client_encoding": true, "options": true, "target_session_attrs": true, "require_auth": true,
	"channel_binding": true, "krbsrvname": true, "krbspn": true, "gssencmode": true,
	"min_protocol_version": true, "max_protocol_version": true, "load_balance_hosts": true,
	"search_path": true, "statement_cache_capacity": true, "description_cache_capacity": true,
	"default_query_exec_mode": true, "timezone": true, "TimeZone": true,
}

// pair is one key=value of a libpq string.
type pair struct {
	key, value string
	raw        string // the value as written, without its quotes
	start      int    // where the key starts
}

// parseKeyValue takes a libpq key=value string apart, by the rules of libpq's
// conninfo_parse, as pgx has them. With an error, likely tells whether the
// string begins as one.
func parseKeyValue(name string) (dsn, error) {
	pairs, err := splitKeyValue(name)
	d := dsn{form: formKeyValue, dialect: Postgres, clear: true}
	plain := true
	for _, p := range pairs {
		d.likely = d.likely || libpqKeywords[p.key] || isParam(p.key)
		plain = plain && isPlainKey(p.key)
		switch {
		case isParam(p.key):
			d.params = append(d.params, newParam(p.key, p.value))
		case p.key == "password" || p.key == "sslpassword":
			d.secrets = append(d.secrets, p.raw, p.value)
		}
	}
	d.likely = d.likely && plain
	d.inner = cutPairs(name, pairs)
	return d, err
}

// isPlainKey tells whether key could be a keyword or the name of a server setting.
func isPlainKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case (c >= '0' && c <= '9' || c == '.') && i > 0:
		default:
			return false
		}
	}
	return key != ""
}

const asciiSpace = " \t\n\r\v\f"

// splitKeyValue returns the pairs of s; with an error, those before the fault.
// Where pgx would report a fault of syntax, so does this, without quoting.
func splitKeyValue(s string) ([]pair, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, errors.New("lockdb: the DSN contains a NUL byte")
	}
	var pairs []pair
	i := skipSpace(s, 0)
	for i < len(s) {
		p := pair{start: i}
		eq := strings.IndexByte(s[i:], '=')
		if eq < 0 {
			return pairs, errors.New("lockdb: the DSN, read as key=value pairs, ends in a word without '=': a value with spaces must be in single quotes")
		}
		p.key = strings.Trim(s[i:i+eq], asciiSpace)
		switch {
		case p.key == "":
			return pairs, errors.New("lockdb: the DSN, read as key=value pairs, has a '=' with no key before it")
		case strings.ContainsAny(p.key, asciiSpace):
			return pairs, errors.New("lockdb: the DSN, read as key=value pairs, has a word without '=': a value with spaces must be in single quotes")
		}
		valueStart := i + eq + 1
		i = skipSpace(s, valueStart)
		quoted := i < len(s) && s[i] == '\''
		if quoted {
			i++
		}
		end := i
		for end < len(s) && !(quoted && s[end] == '\'') && (quoted || strings.IndexByte(asciiSpace, s[end]) < 0) {
			if s[end] == '\\' {
				end++ // the next byte is literal, whatever it is
			}
			end++
		}
		if end >= len(s) && quoted {
			// Take it for a pair: its key tells what was meant.
			pairs = append(pairs, p)
			return pairs, errors.New("lockdb: the DSN, read as key=value pairs, has a quoted value without its closing quote: inside, write \\' for a quote and \\\\ for a backslash")
		}
		end = min(end, len(s))
		p.raw = s[i:end]
		if !quoted && i > valueStart && !isParam(p.key) && strings.Contains(p.raw, "=") && isParam(p.raw) {
			// To libpq the next word is the value. Nobody means that.
			return append(pairs, p), errors.New("lockdb: the DSN, read as key=value pairs, has a key without a value before a lockdb_ parameter: write the value as ''")
		}
		p.value = unescapeValue(p.raw)
		pairs = append(pairs, p)
		if quoted {
			end++
		}
		i = skipSpace(s, end)
	}
	return pairs, nil
}

func skipSpace(s string, i int) int {
	for i < len(s) && strings.IndexByte(asciiSpace, s[i]) >= 0 {
		i++
	}
	return i
}

// unescapeValue drops each backslash and takes what follows as it is; a backslash
// at the very end stands for nothing.
func unescapeValue(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				break
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// cutPairs returns s without the pairs that are ours, each with the white space
// after it, or before it at the end. The rest is as it was.
func cutPairs(s string, pairs []pair) string {
	var b strings.Builder
	from, cutLast := 0, false
	for i, p := range pairs {
		end := len(s)
		if i+1 < len(pairs) {
			end = pairs[i+1].start
		}
		if cutLast = isParam(p.key); cutLast {
			b.WriteString(s[from:p.start])
			from = end
		}
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	if cutLast {
		return trimRightSpace(b.String())
	}
	return b.String()
}

// trimRightSpace drops trailing white space, but not a space that a backslash
// makes part of a value.
func trimRightSpace(s string) string {
	t := strings.TrimRight(s, asciiSpace)
	slashes := len(t) - len(strings.TrimRight(t, `\`))
	if slashes%2 == 1 && len(t) < len(s) {
		return s[:len(t)+1]
	}
	return t
}
