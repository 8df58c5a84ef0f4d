package main

import (
	_ "embed"
	"strings"
)

// notes say what stands behind the figures, and are written by hand.
//
//go:embed notes.md
var notes string

// table is one of Markdown.
type table struct {
	title, note string
	plot        string // its name, if there is one
	head        []string
	rows        [][]string
}

func (t table) write(b *strings.Builder) {
	if t.title != "" {
		b.WriteString("\n## " + t.title + "\n\n")
	}
	if t.note != "" {
		b.WriteString(t.note + "\n\n")
	}
	if t.plot != "" {
		b.WriteString("![" + t.title + "](" + t.plot + ".svg)\n\n")
	}
	line := func(cells []string) {
		b.WriteString("|")
		for i := range t.head {
			cell := ""
			if i < len(cells) {
				cell = cells[i]
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	line(t.head)
	b.WriteString("|---|" + strings.Repeat("---:|", len(t.head)-1) + "\n")
	for _, row := range t.rows {
		line(row)
	}
}

// document is the whole report.
func document(r results) string {
	var b strings.Builder
	b.WriteString("# What a lock costs\n\n")
	b.WriteString("Measured on " + r.setting("date") + ": " + r.setting("machine") + "; " + r.setting("system") + "; Go " + r.setting("go") +
		"; MySQL " + r.setting("mysql") + ", MariaDB " + r.setting("mariadb") + ", PostgreSQL " + r.setting("postgresql") +
		", Redis " + r.setting("redis") + ", all on the same machine as the client. Modules: " + modules(r) + ".\n\n")
	b.WriteString("Times are medians; ratios are medians over short rounds in which the contenders take turns. A network of 1 ms is a relay " +
		"that holds what passes for half a millisecond in each direction. Durable commits are on disk before they are answered, and " +
		"\"on disk\" is what the machine's disk says. Again: `make bench-report` (it took " + r.setting("took") + "); " +
		"[results.txt](results.txt) is for benchstat.\n\n")
	b.WriteString("![Turns a second by goroutines that want the same lock](crowd.svg)\n")
	t := goalTable(r)
	t.title, t.note = "Goals", "Bold: missed."
	t.write(&b)
	b.WriteString("\n" + notes)
	for _, t := range tables(r) {
		t.write(&b)
	}
	return b.String()
}

func modules(r results) string {
	var names []string
	for _, m := range r.settingsOf("module") {
		path, version, _ := strings.Cut(m, " ")
		names = append(names, strings.TrimPrefix(path, "github.com/")+" "+version)
	}
	return strings.Join(names, ", ")
}
