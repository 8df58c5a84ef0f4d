// Package lockkey derives what the server sees of a lock from the user's key.
//
// Processes exclude each other only if they derive the same thing, whatever
// server, version of the server or version of lockdb they run. Derivation
// version 1, given here in full, is therefore part of lockdb's compatibility
// promise: a change to any byte of it is a breaking change, because during a
// rolling upgrade the old and the new processes would both be granted "the same"
// lock. The golden file in testdata holds it.
//
// A key is a Go string of 1 to [MaxBytes] bytes of any kind, valid UTF-8 or
// not. Equality of keys is equality of Go strings: nothing is folded, trimmed
// or normalized. A namespace keeps applications apart that share a server; the
// empty namespace is no namespace.
//
// # Names
//
// [Name] gives the name of a MySQL or MariaDB lock and the key of a lease row:
//
//	key           the key, if it matches [a-z0-9_.:/-]{1,64}
//	#ns/key       the same in a namespace, if this is at most 64 characters
//	prefix#hash   any other key
//	#prefix#hash  any other key in a namespace
//
// A plain key without a namespace stays as it is, so that lockdb and raw
// GET_LOCK calls meet on the same name.
//
// hash is the SHA-256 of the key, or of namespace + "\x00" + key, in lower-case
// base32 (RFC 4648, no padding): 52 characters. prefix is for people: the first
// 11 bytes of the key, or the first 10 of namespace + "/" + key, with A to Z
// lower-cased and every byte outside the plain alphabet replaced by '_'.
//
// The four forms cannot meet: a plain key has no '#'; a namespace's names begin
// with one, which a prefix never does; a hash has no '/'. So within the
// strength of SHA-256 equal names mean equal namespaces and equal keys, also
// where the server folds case or cuts names off after 64 characters. Every
// character is ASCII and without meaning inside a quoted SQL literal, whatever
// the sql_mode and the character set.
//
// # IDs
//
// [ID] gives the bigint of a PostgreSQL advisory lock: eight bytes of SHA-256,
// big endian, two's complement. Without a namespace they are the first eight of
// the SHA-256 of the key:
//
//	SELECT ('x' || left(encode(sha256('order:42'), 'hex'), 16))::bit(64)::bigint
//
// In a namespace they are the second eight of the SHA-256 of
// namespace + "\x00" + key, so that no bare key, whatever its bytes, is tied to
// a key in a namespace:
//
//	SELECT ('x' || substr(encode(sha256('ns\000order:42'), 'hex'), 17, 16))::bit(64)::bigint
package lockkey
