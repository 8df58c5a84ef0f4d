package lockkey

import "fmt"

// MaxNamespaceBytes is the length of the longest namespace. It leaves at least
// 38 characters for a plain key to stay readable in.
const MaxNamespaceBytes = 24

// CheckNamespace tells whether ns can be a namespace: [a-z0-9_.:-]{0,24}. The
// alphabet is that of plain keys without '/', which ends the namespace in a
// name. "" is no namespace, and allowed.
func CheckNamespace(ns string) error {
	if len(ns) > MaxNamespaceBytes {
		return fmt.Errorf("lockdb: the namespace %.40q is %d bytes long: use at most %d", ns, len(ns), MaxNamespaceBytes)
	}
	for i := range len(ns) {
		if class[ns[i]]&inNamespace == 0 {
			return fmt.Errorf("lockdb: the namespace %q contains %q: use only a-z, 0-9, '_', '.', ':' and '-'", ns, ns[i:i+1])
		}
	}
	return nil
}
