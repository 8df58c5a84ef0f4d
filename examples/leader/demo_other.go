//go:build !unix

package main

import (
	"context"
	"errors"
	"io"
)

func runDemo(context.Context, io.Writer, config) error {
	return errors.New("-demo stops and continues processes with signals that this system does not have: start brokers by hand")
}
