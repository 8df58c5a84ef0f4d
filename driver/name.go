package driver

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// maxNameBytes is what PostgreSQL keeps of an application_name (NAMEDATALEN - 1).
const maxNameBytes = 63

// programName is what a DBA sees of a lock session: "lockdb", the host and the
// process id, in pg_stat_activity.application_name, and as program_name in
// performance_schema.session_connect_attrs.
var programName = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return sessionName(host, os.Getpid())
})

// sessionName shortens host rather than lose the process id. PostgreSQL shows '?'
// for what is not printable ASCII; ',' would end a connection attribute.
func sessionName(host string, pid int) string {
	const head = "lockdb "
	tail := " " + strconv.Itoa(pid)
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ',' {
			return '_'
		}
		return r
	}, host)
	if room := maxNameBytes - len(head) - len(tail); len(host) > room {
		host = host[:room]
	}
	return head + host + tail
}
