package main

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// results are what benchmarks printed.
type results struct {
	settings []setting                     // in their order
	values   map[string]map[string]float64 // by benchmark, without the prefix Benchmark, and unit
}

var (
	procs       = regexp.MustCompile(`-\d+$`)
	settingLine = regexp.MustCompile(`^([a-z]+): +(.+)$`)
)

// parse reads the format that go test prints and benchstat reads.
func parse(text string) results {
	r := results{values: make(map[string]map[string]float64)}
	seen := make(map[setting]bool)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if m := settingLine.FindStringSubmatch(line); m != nil {
			if s := (setting{m[1], m[2]}); !seen[s] { // each run of the program repeats some
				seen[s] = true
				r.settings = append(r.settings, s)
			}
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		name := procs.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		values := make(map[string]float64)
		for i := 2; i < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				values[fields[i+1]] = v
			}
		}
		r.values[name] = values
	}
	return r
}

// at is NaN if there is no such value. The path's parts are joined by slashes.
func (r results) at(unit string, path ...string) float64 {
	if v, ok := r.values[strings.Join(path, "/")][unit]; ok {
		return v
	}
	return math.NaN()
}

func (r results) settingsOf(key string) (values []string) {
	for _, s := range r.settings {
		if s.key == key {
			values = append(values, s.value)
		}
	}
	return values
}

func (r results) setting(key string) string {
	if values := r.settingsOf(key); len(values) > 0 {
		return values[0]
	}
	return "unknown"
}
