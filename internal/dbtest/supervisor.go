package dbtest

const supervisorEnv = "LOCKDB_DBTEST_SUPERVISE"

// supervisorSpec tells a supervisor what it looks after.
type supervisorSpec struct {
	Dir string   // removed at the end
	Who *account // runs the programs; nil: the same as the supervisor
}

// supervisorAnswer says that a program started, did not start, or ended.
type supervisorAnswer struct {
	Pid    int
	Err    string
	Exited bool
	Status int // exit status, or -1 after a signal
}
