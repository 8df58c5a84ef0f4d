package dbtest

// mariadbProgram is the MariaDB counterpart of mysqlProgram.
func mariadbProgram() (argv, initialise, options []string, err error) {
	server, ok := findProgram("mariadbd")
	if !ok {
		return nil, nil, nil, MariaDB.missing("mariadbd")
	}
	install, ok := findProgram("mariadb-install-db")
	if !ok {
		return nil, nil, nil, MariaDB.missing("mariadb-install-db")
	}
	unsafe := []string{"--innodb-log-file-size=4M", "--skip-innodb-doublewrite", "--innodb-flush-method=nosync"}
	initialise = append([]string{
		install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
	}, unsafe...)
	return []string{server, "--no-defaults"}, initialise, unsafe, nil
}
