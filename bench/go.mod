module github.com/lockdb/lockdb/bench

go 1.26.0

replace github.com/lockdb/lockdb => ../

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/lockdb/lockdb v0.0.0
	github.com/ngrok/sqlmw v0.0.0-20220520173518-97c9c04efc79
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.13.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)
