package migrate_test

import (
	"fmt"
	"io/fs"
	"testing/fstest"
)

// migrations are three, each of which notes its number in the table applied.
// They take a while, so that the processes meet, and fail if they are made again.
func migrations(toolName string) fs.FS {
	pause := "SELECT SLEEP(0.15)"
	if toolName != "golang-migrate for MySQL" {
		pause = "SELECT pg_sleep(0.15)"
	}
	files := fstest.MapFS{}
	for i := 1; i <= 3; i++ {
		up := fmt.Sprintf("INSERT INTO applied (version) VALUES (%d);\n%s;\nCREATE TABLE made_%d (id INT);\n", i, pause, i)
		name := fmt.Sprintf("%05d_make.up.sql", i)
		if toolName == "goose" {
			name = fmt.Sprintf("%05d_make.sql", i)
			up = "-- +goose Up\n" + up
		}
		files[name] = &fstest.MapFile{Data: []byte(up)}
	}
	return files
}
