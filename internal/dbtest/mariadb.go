package dbtest

// findMariaDB looks for mariadbd and the script that initialises its data.
func findMariaDB() (p mysqlProgram, err error) {
	server, ok := findProgram("mariadbd")
	if !ok {
		return p, MariaDB.missing("mariadbd")
	}
	install, ok := findProgram("mariadb-install-db")
	if !ok {
		return p, MariaDB.missing("mariadb-install-db")
	}
	unsafe := []string{"--innodb-log-file-size=4M", "--skip-innodb-doublewrite", "--innodb-flush-method=nosync"}
	return mysqlProgram{
		server: server,
		argv:   []string{server, "--no-defaults"},
		initialise: append([]string{
			install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
		}, unsafe...),
		options: unsafe,
	}, nil
}
