package driver

import (
	"errors"
	"net/url"
	"strings"
)

var postgresSchemes = []string{"postgresql://", "postgres://"}

func hasPostgresScheme(name string) bool {
	return strings.HasPrefix(name, postgresSchemes[0]) || strings.HasPrefix(name, postgresSchemes[1])
}

var (
	errURLAt = errors.New("lockdb: the PostgreSQL URL has a second '@' before its host: in a user name or a password write '@' as %40, ':' as %3A, '/' as %2F, '%' as %25")
	// pgx would look for a host with the user's name, and say which it looked for.
	errURLSlash = errors.New("lockdb: the PostgreSQL URL has a '@' after its first '/': in a user name or a password write '/' as %2F, and in a database's name '@' as %40")
	errURLParam = errors.New("lockdb: the PostgreSQL URL has a '@' in a parameter and neither a user name nor a path: write it as %40")
	errURLIPv6  = errors.New("lockdb: the PostgreSQL URL has a '[' at the start of a host, and no ']' behind it")
)

// parsePostgresURL takes a connection URI apart where pgx does (its
// pgconn/parse_url.go, which follows libpq and not RFC 3986).
func parsePostgresURL(name string) (dsn, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return dsn{}, errors.New("lockdb: the DSN contains a NUL byte")
	}
	d := dsn{form: formPostgresURL, dialect: Postgres, inner: name, likely: true}
	p := strings.SplitN(name, "://", 2)[1]

	// The user's part ends at a '@' before the first '/', even one in what looks
	// like a query.
	hasUser := false
	if i := strings.IndexAny(p, "@/"); i >= 0 && p[i] == '@' {
		_, password, _ := strings.Cut(p[:i], ":")
		d.secrets = []string{password, percentDecode(password)}
		if hasParamIn(p[:i]) {
			return dsn{}, errURLParam
		}
		hasUser, p = true, p[i+1:]
	}

	hosts, rest, err := cutHosts(p)
	if err != nil {
		return dsn{}, err
	}
	path, query, hasQuery := strings.Cut(rest, "?")
	switch {
	case strings.Contains(hosts, "@"):
		return dsn{}, errURLAt
	case !hasUser && strandedUser(hosts, path):
		return dsn{}, errURLSlash
	}
	d.clear = !strings.Contains(rest, "@")
	if !hasQuery {
		return d, nil
	}
	for _, pair := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		switch percentDecode(key) {
		case "password", "sslpassword":
			d.secrets = append(d.secrets, value, percentDecode(value))
			d.clear = false // with a '&' in it, it goes on where nobody can tell
		}
	}
	rest, left, params, err := stripQuery(query, percentDecode, func(s string) (string, error) {
		s, err := url.PathUnescape(s)
		return strings.Trim(s, " "), err
	})
	if err != nil {
		return dsn{}, err
	}
	d.params = params
	d.inner = strings.TrimSuffix(name, query)
	if d.inner += rest; !left {
		d.inner = strings.TrimSuffix(d.inner, "?")
	}
	return d, nil
}

// cutHosts cuts the list of hosts and ports from what follows it.
func cutHosts(p string) (hosts, rest string, err error) {
	i := 0
	for {
		if i < len(p) && p[i] == '[' {
			end := strings.IndexByte(p[i:], ']')
			if end < 0 {
				return "", "", errURLIPv6
			}
			i += end + 1
		}
		n := strings.IndexAny(p[i:], "/?,")
		if n < 0 {
			return p, "", nil
		}
		i += n
		if p[i] != ',' {
			return p[:i], p[i:], nil
		}
		i++
	}
}

// strandedUser tells whether hosts and path look like a user's part whose password
// has a '/' in it: user:pa / ss@host…, with a port or a path behind the host.
func strandedUser(hosts, path string) bool {
	_, tail, ok := strings.Cut(path, "@")
	return ok && strings.Contains(hosts, ":") && strings.ContainsAny(tail, ":/")
}

// hasParamIn tells whether s, which should be before the parameters, has one of
// ours in it.
func hasParamIn(s string) bool {
	_, query, _ := strings.Cut(s, "?")
	for _, pair := range strings.Split(query, "&") {
		if key, _, ok := strings.Cut(pair, "="); ok && isParam(percentDecode(key)) {
			return true
		}
	}
	return false
}

// percentDecode decodes what can be decoded and leaves the rest, as pgx does
// before it compares a key.
func percentDecode(s string) string {
	s = strings.Trim(s, " ")
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i] == '%' {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
