package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// page is one chapter's output: a line for each step, in aligned columns.
type page struct{ w *tabwriter.Writer }

func newPage(out io.Writer, title string) *page {
	fmt.Fprintf(out, "\n%s\n\n", title)
	return &page{tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)}
}

// on writes a step that ran on a connection of the server's, by its number there.
func (p *page) on(connection int64, call, meaning string) {
	p.line(fmt.Sprintf("connection %d", connection), call, meaning)
}

func (p *page) line(columns ...string) {
	fmt.Fprintln(p.w, "   "+strings.Join(columns, "\t"))
}

// end shows the lines.
func (p *page) end() { _ = p.w.Flush() }
