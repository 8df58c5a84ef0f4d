package sock

// KeepAliveFor gives the tests the settings that a ttl leads to.
var KeepAliveFor = keepAliveFor

// The fields of keepAlive.
func (k keepAlive) Fields() (idle, interval, count, unacked int64) {
	return int64(k.idle), int64(k.interval), int64(k.count), int64(k.unacked)
}
