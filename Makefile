# Spool. Needs Go 1.26 or newer and make; `make help` lists the targets.

GO      ?= go
PREFIX  ?= $(shell $(GO) env GOPATH)
TIMEOUT ?= 60m

# What a program is made of: a program is built anew only if one of these changed.
source = $(shell find $(1) -type f ! -name '*_test.go' ! -path '*/testdata/*' 2>/dev/null)
APP    := $(call source,$(wildcard *.go) go.mod go.sum agent activities internal memory replay starter web worker workflows)
# Temporal's own program is built only if the PATH has none, or one older than 1.1.
TEMPORAL := $(shell temporal server start-dev --help 2>/dev/null | grep -q -e --search-attribute || echo bin/temporal)
TOOLS  := bin/tools/golangci-lint bin/tools/workflowcheck bin/tools/deadcode bin/tools/govulncheck

.PHONY: help build demo test test-all race lint bench soak chaos readme up down deps tools install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1  /p' Makefile | awk '{ n = $$1; $$1 = ""; printf "  make %-8s%s\n", n, $$0 }'

build: bin/starter bin/worker $(TEMPORAL) ## build bin/starter, bin/worker and, unless temporal is on the PATH, bin/temporal

# Built with the flags of the tests, so that dependencies are compiled once for both.
bin/starter: $(APP)
	@echo "build: bin/starter, the command line, and bin/worker, which is the same file (about 1 minute on 2 cores the first time)"
	@$(GO) build -ldflags "-s -w" -o $@ ./starter

bin/worker: bin/starter
	@ln -f $< $@

# osusergo: it also works for a user that the system does not know.
bin/temporal: .ci/temporal/go.mod .ci/temporal/go.sum
	@echo "build: bin/temporal, Temporal's own program with server and web UI (4 to 6 minutes on 2 cores, the first time only)"
	@$(GO) -C .ci/temporal build -tags osusergo -trimpath -ldflags '-s -w -X github.com/temporalio/cli/temporalcli.Version=1.5.1' -o ../../$@ github.com/temporalio/cli/cmd/temporal
	@touch $@

demo: ## build, then show a turn that survives the death of its worker
	@. .ci/clock; $(MAKE) --no-print-directory build && bin/starter demo && echo "demo: done in $$(took)"

test: build ## install what tests need (as root), build, run the tests
	@GO='$(GO)' TIMEOUT='$(TIMEOUT)' sh .ci/test

test-all: test ## run the tests, then the rest of what they take a sample of, a minute of each fuzz target, and what needs npm
	@GO='$(GO)' TIMEOUT='$(TIMEOUT)' sh .ci/test rest

race: ## run the fast packages' tests with the race detector (needs a C compiler)
	@GO='$(GO)' sh .ci/race

lint: tools ## format, vet, lint, determinism, dead code, tidy modules, holes of dependencies
	@GO='$(GO)' sh .ci/lint

bench: build ## measure and print the figures; takes minutes; flags in ARGS
	@$(GO) run ./internal/bench $(ARGS)

soak: build ## keep a worker busy for an hour (ARGS='--soak MINUTES') and tell what grows
	@$(GO) run ./internal/bench --soak 60 $(ARGS)

chaos: build ## the long forms of the tests that kill things; takes long, needs PostgreSQL
	@SPOOL_TEST_BIN='$(CURDIR)/bin' SPOOL_LONG=1 $(GO) test -tags postgres,npm,mount,pgbouncer -count=1 -timeout 180m ./internal/e2e/... ./internal/mcp/... ./memory/...

readme: ## run demo and tests, and write what they printed into README.md
	@sh .ci/readme demo
	@sh .ci/readme test

up: ## start docker-compose.yml, with a .env of random passwords, and wait until it answers
	@sh .ci/up

down: ## stop what up started; the data stay
	@docker compose down

deps: ## install the Debian packages that tests need; needs root
	@sh .ci/deps

tools: $(TOOLS)

$(TOOLS) &: .ci/tools/go.mod .ci/tools/go.sum
	@echo "build: the lint tools of .ci/tools/go.mod (about 3 minutes on 2 cores, the first time only)"
	@mkdir -p bin/tools
	@$(GO) -C .ci/tools build -trimpath -ldflags '-s -w' -o ../../bin/tools/ tool
	@touch $(TOOLS)

install: build ## install spool and spool-worker into PREFIX/bin, and temporal if it was built
	@mkdir -p '$(PREFIX)/bin'
	@install -m 755 bin/starter '$(PREFIX)/bin/spool'
	@ln -f '$(PREFIX)/bin/spool' '$(PREFIX)/bin/spool-worker'
	@if [ -n '$(TEMPORAL)' ]; then install -m 755 bin/temporal '$(PREFIX)/bin/temporal'; fi
	@echo "installed spool and spool-worker into $(PREFIX)/bin"

clean: ## remove bin
	@rm -rf bin
