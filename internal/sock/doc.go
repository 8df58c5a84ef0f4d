// Package sock is what lockdb knows of a session's socket: which one it is, that
// a dead peer shows on it in time, and the moment when the peer closes it.
//
// The real drivers own their sockets. They dial them through a [Dialer], read
// and write them, and close them. This package never reads or writes a byte,
// never closes a socket, and holds no duplicate of a descriptor: a duplicate
// would keep the connection open after the driver's Close, and the server would
// keep the lock.
//
// Lifetimes:
//
//   - A [Captured] lives as long as its owner keeps it. It refers to the socket
//     but does not own it.
//   - A [Watcher] is owned by whoever called [Watch], who must Stop it, also after
//     it has fired. Stop and the Close of the socket may come in either order, and
//     at the same time.
//   - The process has one poller, a goroutine and an epoll instance that blocks no
//     operating system thread. The first Watch starts it and the last Stop ends and
//     joins it; a later Watch starts another.
//   - The function of a Watcher runs on a goroutine of that Watcher, so it may block
//     without delay to others, and may call Stop. Wait joins it.
package sock
