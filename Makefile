# make test               all tests, with the race detector, on servers of their own
# make test RUN=TestX     only these tests
# make test PKG=./conn    only these packages
# make test COUNT=1       not from the cache
# make test SERVERS="mysql mariadb postgres"    without the others
SERVERS ?= $(or $(LOCKDB_TEST_SERVERS),mysql mariadb postgres pgbouncer)
ALL := ./... ./itest/... ./examples/...
PKG ?= $(ALL)
RUN ?=
COUNT ?= $(if $(CI),1)
TIMEOUT ?= 45m
TESTFLAGS ?=

FUZZTIME ?= 10s
BENCH ?= .

GO ?= go
NEXT_GO := go1.27.3

GOFUMPT := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ERRORLINT := github.com/polyfloyd/go-errorlint@v1.8.0

export SERVERS
export LOCKDB_TEST_SERVERS := $(SERVERS)

.PHONY: all
all: lint vet-all test

.PHONY: servers
servers:
	@scripts/install-servers

# One set of servers serves all packages.
WITH_SERVERS = bin/withservers --

.PHONY: withservers
withservers: servers
	@$(GO) build -o bin/withservers ./internal/dbtest/cmd/withservers

.PHONY: test
test: withservers
	$(WITH_SERVERS) $(GO) test -race -timeout $(TIMEOUT) \
		$(if $(RUN),-run '$(value RUN)') $(if $(COUNT),-count $(COUNT)) $(TESTFLAGS) $(PKG)

# What depends on the Go version is in conn: the next one's database/sql scans rows another way.
.PHONY: test-next
test-next: withservers
	GOTOOLCHAIN=$(NEXT_GO) $(WITH_SERVERS) $(GO) test -race -timeout $(TIMEOUT) ./conn

.PHONY: lint
lint:
	@echo gofumpt
	@unformatted=$$($(GO) run $(GOFUMPT) -l .); test -z "$$unformatted" || \
		{ echo "run make fmt for:"; echo "$$unformatted"; exit 1; }
	$(GO) vet $(ALL) ./bench/...
	$(GO) run $(STATICCHECK) $(ALL) ./bench/...
	$(GO) run $(ERRORLINT) $(ALL) ./bench/...

.PHONY: fmt
fmt:
	$(GO) run $(GOFUMPT) -l -w .

.PHONY: vet-all
vet-all:
	GOOS=linux $(GO) vet $(ALL) ./bench/...
	GOOS=darwin $(GO) vet $(ALL) ./bench/...
	GOOS=windows $(GO) vet $(ALL) ./bench/...
	GOTOOLCHAIN=$(NEXT_GO) $(GO) vet $(ALL) ./bench/...

.PHONY: build
build:
	$(GO) build $(ALL) ./bench/...

.PHONY: fuzz
fuzz:
	FUZZTIME=$(FUZZTIME) scripts/fuzz $(filter-out ./itest/... ./examples/...,$(PKG))

.PHONY: bench
bench: withservers bench-servers
	$(WITH_SERVERS) $(GO) test -run '^$$' -bench '$(value BENCH)' -benchmem $(if $(COUNT),-count $(COUNT)) \
		$(TESTFLAGS) $(if $(filter-out $(ALL),$(PKG)),$(PKG),./bench/...)

# Runs a few of them once, to see whether they still run.
.PHONY: bench-check
bench-check: withservers
	$(WITH_SERVERS) $(GO) test -timeout $(TIMEOUT) -benchtime 1x \
		-bench 'PassThrough$$//ratio|AcquireClose$$////ratio|InTx$$///ratio|Processes|Loss' ./bench/...

# Writes bench/report, in less than ten minutes. Best on a machine that does nothing else.
.PHONY: bench-report
bench-report: bench-servers
	cd bench && $(GO) run ./report

.PHONY: bench-servers
bench-servers:
	@SERVERS="$(SERVERS) redis" scripts/install-servers

.PHONY: quickstart
quickstart:
	$(GO) run ./examples/quickstart

.PHONY: clean
clean:
	rm -rf bin
	$(GO) clean -testcache
