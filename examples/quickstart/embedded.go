package main

import (
	"fmt"
	"io"
	"net"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	gms "github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/sirupsen/logrus"
)

// startEmbedded starts a server that speaks MySQL's protocol and keeps its data
// in memory, on a free port of this machine. It is enough to try locks on, not
// more: it has no row locks, and its tables stand one statement at a time.
func startEmbedded() (dsn string, stop func(), err error) {
	logrus.SetOutput(io.Discard) // the engine's log
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	databases := memory.NewDBProvider(memory.NewDatabase("quickstart"))
	engine := sqle.NewDefault(databases)
	config := gms.Config{Protocol: "tcp", Address: listener.Addr().String(), Listener: listener}
	s, err := gms.NewServer(config, engine, sql.NewContext, memory.NewSessionBuilder(databases), nil)
	if err != nil {
		_ = listener.Close()
		return "", nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Start()
	}()
	stop = func() {
		_ = s.Close()
		<-ended
		_ = engine.Close()
	}
	return fmt.Sprintf("root@tcp(%s)/quickstart", listener.Addr()), stop, nil
}
