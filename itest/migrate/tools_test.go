package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// tool brings a schema up to date, as its documentation says, on a *sql.DB that
// it does not close.
type tool func(ctx context.Context, db *sql.DB, migrations fs.FS) error

var tools = map[string]tool{
	"goose":                    goosePostgres,
	"golang-migrate for MySQL": golangMigrateMySQL,
	"golang-migrate for pgx":   golangMigratePgx,
}

func goosePostgres(ctx context.Context, db *sql.DB, migrations fs.FS) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 50))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

func golangMigrateMySQL(_ context.Context, db *sql.DB, migrations fs.FS) error {
	d, err := mysql.WithInstance(db, &mysql.Config{})
	if err != nil {
		return err
	}
	return golangMigrate(d, migrations)
}

func golangMigratePgx(_ context.Context, db *sql.DB, migrations fs.FS) error {
	d, err := pgx.WithInstance(db, &pgx.Config{})
	if err != nil {
		return err
	}
	return golangMigrate(d, migrations)
}

func golangMigrate(d database.Driver, migrations fs.FS) error {
	source, err := iofs.New(migrations, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "lockdb", d)
	if err != nil {
		return err
	}
	if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return nil
}
