package dbtest

// ServerAt is a server that is nothing but an address, for a relay.
func ServerAt(addr string) *Server {
	return &Server{kind: MySQL, dsn: "root@tcp(" + addr + ")/"}
}

// Dir is the folder of a server that dbtest started.
func (s *Server) Dir() string { return s.daemon.dir }

// Pid is the process of a server that dbtest started.
func (s *Server) Pid() int { return s.daemon.pid }
