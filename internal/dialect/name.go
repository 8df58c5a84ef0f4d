package dialect

import (
	"cmp"
	"strconv"
	"strings"
)

// Name is a lock as the server knows it. Names are comparable: equal names are
// the same lock. Resolve, AdvisoryID and AdvisoryPair make them.
type Name struct {
	space keySpace
	text  string // MySQL and MariaDB
	id    int64  // PostgreSQL: the bigint, or class<<32 | object of a pair
}

type keySpace uint8

const (
	spaceText   keySpace = iota // GET_LOCK names
	spaceBigint                 // pg_advisory_lock(bigint)
	spacePair                   // pg_advisory_lock(int4, int4): never the same lock as a bigint
)

// AdvisoryID is PostgreSQL's advisory lock of that bigint.
func AdvisoryID(id int64) Name { return Name{space: spaceBigint, id: id} }

// AdvisoryPair is PostgreSQL's advisory lock of that (int4, int4).
func AdvisoryPair(class, object int32) Name {
	return Name{space: spacePair, id: int64(class)<<32 | int64(uint32(object))}
}

// Compare orders names, for those who take several.
func (n Name) Compare(m Name) int {
	return cmp.Or(cmp.Compare(n.space, m.space), strings.Compare(n.text, m.text), cmp.Compare(n.id, m.id))
}

func (n Name) halves() (class, object int32) { return int32(n.id >> 32), int32(n.id) }

// String is the lock in the server's terms, for messages.
func (n Name) String() string {
	switch n.space {
	case spaceBigint:
		return "advisory lock " + strconv.FormatInt(n.id, 10)
	case spacePair:
		class, object := n.halves()
		return "advisory lock (" + strconv.Itoa(int(class)) + ", " + strconv.Itoa(int(object)) + ")"
	default:
		return "GET_LOCK name '" + n.text + "'"
	}
}
