module github.com/lockdb/lockdb/itest

go 1.26.0
