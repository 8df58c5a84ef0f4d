package driver

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const mysqlScheme = "mysql://"

var (
	errMySQLNoAt = errors.New("lockdb: the MySQL DSN has a ':' and no '@' before its last '/': write it as " + mysqlForms)
	errMySQLPath = errors.New("lockdb: the MySQL DSN has a '/' in a parameter: write it as %2F")
	errMySQLURL  = errors.New("lockdb: the host or the port of the MySQL URL is not valid: it is written as mysql://USER:PASSWORD@HOST:3306/DBNAME, " +
		"and in a user name or a password '@' as %40, ':' as %3A, '/' as %2F, '?' as %3F, '%' as %25")
	errMySQLEscape = errors.New("lockdb: the MySQL URL has an invalid percent-escape before its parameters: write '%' as %25")
)

// mysqlParts are the parts of go-sql-driver's form, which is cut at the last '/',
// and what is before it at the last '@':
// [user[:password]@][net[(addr)]]/dbname[?param1=value1&…].
type mysqlParts struct {
	user     string // with the password
	hasUser  bool
	server   string // network and address
	network  string
	addr     string
	hasAddr  bool // there are parentheses
	unclosed bool // and the second one is not where it should be
	dbname   string
	query    string
	hasQuery bool
}

func splitMySQL(name string) (p mysqlParts, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return p, false
	}
	server := name[:i]
	if at := strings.LastIndexByte(server, '@'); at >= 0 {
		p.user, p.hasUser, server = server[:at], true, server[at+1:]
	}
	p.server, p.network = server, server
	if k := strings.IndexByte(server, '('); k >= 0 {
		p.network, p.hasAddr = server[:k], true
		p.addr, ok = strings.CutSuffix(server[k+1:], ")")
		p.unclosed = !ok
	}
	p.dbname, p.query, p.hasQuery = strings.Cut(name[i+1:], "?")
	return p, true
}

// plain tells whether the network's name is such that it cannot be a part of
// something else. Programs register names such as cloudsql or mysql+tcp.
func (p mysqlParts) plain() bool {
	for i := range len(p.network) {
		c := p.network[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '+' || c == '-' || c == '_' || c == '.':
		default:
			return false
		}
	}
	return !p.unclosed
}

// parseMySQL takes go-sql-driver's form apart, as its ParseDSN does.
func parseMySQL(name string) (dsn, error) {
	d := dsn{form: formMySQL, dialect: MySQL, inner: name}
	p, ok := splitMySQL(name)
	if !ok {
		return d, nil // the driver will say that a '/' is missing
	}
	_, password, _ := strings.Cut(p.user, ":")
	d.secrets = []string{password}
	switch {
	case !p.hasUser && strings.Contains(p.network, ":"):
		return d, errMySQLNoAt
	case hasParamIn(p.server): // cut in the middle of the parameters
		d.likely = strings.Contains(p.server, ")/") || strings.HasPrefix(p.server, "/")
		return d, errMySQLPath
	}
	// Without an address the driver knows that of tcp and unix only.
	d.likely = p.plain() && (p.hasAddr || p.network == "" || p.network == "tcp" || p.network == "unix")
	keyword, _, _ := strings.Cut(p.user, "=")
	d.clear = d.likely && !strings.Contains(p.dbname+p.query, "@") && !libpqKeywords[keyword]
	if !p.hasQuery {
		return d, nil
	}
	rest, left, params, err := stripQuery(p.query, func(s string) string { return s }, url.QueryUnescape)
	if err != nil {
		return d, err
	}
	d.params = params
	d.inner = strings.TrimSuffix(name, p.query)
	if d.inner += rest; !left {
		d.inner = strings.TrimSuffix(d.inner, "?")
	}
	return d, nil
}

// parseMySQLScheme parses what begins with mysql://. Behind it stands go-sql-driver's
// form if that has an address in parentheses, and the rest of a URL otherwise.
func parseMySQLScheme(name string) (dsn, error) {
	name = strings.TrimPrefix(name, mysqlScheme)
	if p, ok := splitMySQL(name); ok && p.hasAddr && p.plain() {
		return parseMySQL(name)
	}
	u, err := splitMySQLURL(name)
	if err != nil {
		return dsn{}, err
	}
	d := dsn{form: formMySQLURL, dialect: MySQL, inner: name, likely: true}
	d.secrets = []string{u.rawPassword, u.password}
	d.clear = !strings.Contains(u.dbname+u.query, "@")
	if !u.hasQuery {
		return d, nil
	}
	rest, left, params, err := stripQuery(u.query, func(s string) string { return s }, url.QueryUnescape)
	if err != nil {
		return dsn{}, err
	}
	d.params = params
	d.inner = strings.TrimSuffix(name, u.query)
	if d.inner += rest; !left {
		d.inner = strings.TrimSuffix(d.inner, "?")
	}
	return d, nil
}

// mysqlURL are the parts of the URL form, decoded but for the query.
type mysqlURL struct {
	user, password, rawPassword string
	network, addr               string // addr is "" for the driver's default
	dbname                      string
	query                       string
	hasQuery                    bool
}

// splitMySQLURL takes the URL form apart, behind mysql://. The user's part ends at
// the last '@' before the first '/' or '?'.
func splitMySQLURL(s string) (u mysqlURL, err error) {
	end := strings.IndexAny(s, "/?")
	if end < 0 {
		end = len(s)
	}
	host, path := s[:end], s[end:]
	path, u.query, u.hasQuery = strings.Cut(path, "?")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		user, password, _ := strings.Cut(host[:at], ":")
		host, u.rawPassword = host[at+1:], password
		if u.user, err = url.PathUnescape(user); err != nil {
			return u, errMySQLEscape
		}
		if u.password, err = url.PathUnescape(password); err != nil {
			return u, errMySQLEscape
		}
	} else if strandedUser(host, path+"?"+u.query) {
		return u, errMySQLURL
	}
	if u.dbname, err = url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil {
		return u, errMySQLEscape
	}
	u.network, u.addr, err = mysqlAddr(host)
	return u, err
}

// mysqlAddr turns the host of a URL into go-sql-driver's network and address. A
// host that begins with an escaped '/' is the path of a unix socket.
func mysqlAddr(hostport string) (network, addr string, err error) {
	host, port, literal := hostport, "", false
	if strings.HasPrefix(host, "[") {
		host, port, literal = strings.Cut(host[1:], "]")
		if !literal || port != "" && port[0] != ':' {
			return "", "", errMySQLURL
		}
		port = strings.TrimPrefix(port, ":")
	} else {
		host, port, _ = strings.Cut(host, ":")
	}
	if host, err = url.PathUnescape(host); err != nil {
		return "", "", errMySQLEscape
	}
	if port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", "", errMySQLURL
		}
	}
	switch {
	case strings.HasPrefix(host, "/") && port == "" && !strings.ContainsAny(host, "@"):
		return "unix", host, nil
	case strings.ContainsAny(host, "@/()?#,"):
		return "", "", errMySQLURL
	case host == "" && (port != "" || literal):
		host = "127.0.0.1"
	case host == "":
		return "tcp", "", nil
	}
	if port == "" {
		port = "3306"
	}
	return "tcp", net.JoinHostPort(host, port), nil
}
