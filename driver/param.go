package driver

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

const paramPrefix = "lockdb_"

// param is a lockdb_ parameter of a DSN, its value decoded.
type param struct {
	name  string // without the prefix
	value string
}

// setters has a setter for each parameter. What they set is validated later,
// together with the Go options.
var setters = map[string]func(*settings, string) error{
	"ttl":               func(s *settings, v string) error { return setDuration(&s.TTL, v) },
	"raw":               func(s *settings, v string) error { s.RawLocks = RawMode(v); return nil },
	"max_sessions":      func(s *settings, v string) error { return setInt(&s.MaxSessions, v) },
	"max_idle_sessions": func(s *settings, v string) error { return setInt(&s.MaxIdleSessions, v) },
	"namespace":         func(s *settings, v string) error { s.Namespace = v; return nil },
	"busy_timeout":      func(s *settings, v string) error { return setDuration(&s.BusyTimeout, v) },
	"pooler":            func(s *settings, v string) error { s.Pooler = PoolerMode(v); return nil },
	"lease_table":       func(s *settings, v string) error { s.LeaseTable = v; return nil },
	"dialect":           setDialect,
}

// isParam tells whether key is one of ours. Capitals count: no server has such a
// setting, and passed on it would be an error that does not name the cause.
func isParam(key string) bool {
	return len(key) >= len(paramPrefix) && strings.EqualFold(key[:len(paramPrefix)], paramPrefix)
}

// newParam makes a param of a key for which isParam holds.
func newParam(key, value string) param {
	if strings.HasPrefix(key, paramPrefix) {
		return param{name: key[len(paramPrefix):], value: value}
	}
	return param{name: key, value: value} // no setter has that name
}

func (p param) String() string {
	if isParam(p.name) {
		return p.name
	}
	return paramPrefix + p.name
}

// applyParams writes the parameters to s. An unknown one and a repeated one are
// errors.
func applyParams(s *settings, params []param) error {
	seen := make(map[string]bool, len(params))
	for _, p := range params {
		set, ok := setters[p.name]
		if !ok {
			return fmt.Errorf("lockdb: unknown DSN parameter %s: the parameters are %s", show(p.String()), knownParams())
		}
		if seen[p.name] {
			return fmt.Errorf("lockdb: the DSN has the parameter %s twice", p)
		}
		seen[p.name] = true
		if err := set(s, p.value); err != nil {
			return fmt.Errorf("lockdb: DSN parameter %s: %w", p, err)
		}
	}
	return nil
}

func knownParams() string {
	names := make([]string, 0, len(setters))
	for name := range setters {
		names = append(names, paramPrefix+name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

// dialectOf returns the value of lockdb_dialect, "" if there is none.
func dialectOf(params []param) Dialect {
	for _, p := range params {
		if p.name == "dialect" {
			return Dialect(p.value)
		}
	}
	return ""
}

func setDialect(s *settings, v string) error {
	switch s.dialect = Dialect(v); s.dialect {
	case MySQL, Postgres:
		return nil
	}
	return fmt.Errorf("unknown dialect %s: the dialects are %q and %q", show(v), MySQL, Postgres)
}

func setDuration(d *time.Duration, v string) error {
	x, err := time.ParseDuration(v)
	if err != nil {
		return fmt.Errorf("%s is not a duration with a unit, such as 30s or 1m30s", show(v))
	}
	*d = x
	return nil
}

func setInt(n *int, v string) error {
	x, err := strconv.Atoi(v)
	if err != nil {
		return fmt.Errorf("%s is not a whole number", show(v))
	}
	*n = x
	return nil
}

// show quotes a value for an error, unless it may hold what it should not: a
// password with an unescaped delimiter can put a part of itself anywhere.
func show(v string) string {
	if len(v) > 64 || strings.ContainsAny(v, "@/?&=:") {
		return "(a value that is not shown)"
	}
	return strconv.Quote(v)
}
