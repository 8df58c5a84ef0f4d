module github.com/lockdb/lockdb/bench

go 1.26.0
