module github.com/lockdb/lockdb/examples

go 1.26.0
