package dialect

import (
	"database/sql/driver"
	"errors"
	"fmt"
)

// fenceText stands in the error of a fence that found a lease moved on, for FenceAndCommit to know it.
const fenceText = "lockdb: the lease has moved on"

// fenced reads how many of the leases a fence found.
func fenced(row []driver.Value, err error, want int) error {
	if err != nil {
		return err
	}
	if len(row) != 1 {
		return errors.New("the fence's query gave no row")
	}
	found, err := integer(row[0])
	if err != nil { // MariaDB gives NULL where KILL QUERY met a subquery
		return fmt.Errorf("the fence's query was cut short: %w", err)
	}
	if found != int64(want) {
		return ErrMoved
	}
	return nil
}

func leaseRow(row []driver.Value, err error) (LeaseRow, bool, error) {
	if err != nil || len(row) != 3 {
		return LeaseRow{}, false, err
	}
	token, err1 := integer(row[1])
	left, err2 := integer(row[2])
	return LeaseRow{Owner: text(row[0]), Token: token, Left: ofMicros(left)}, true, errors.Join(err1, err2)
}

func integers(values []driver.Value, err error) ([]int, error) {
	var all []int
	for _, v := range values {
		n, e := integer(v)
		all, err = append(all, int(n)), errors.Join(err, e)
	}
	return all, err
}
