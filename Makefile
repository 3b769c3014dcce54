# The verbs of this project. Each does all its own set-up, on a fresh Debian machine, too, also as root.
# The logic is in scripts/, one file a verb, so that it can be read, linted and run without make.
# (No linker is configured: current Rust links with lld on Linux by default.)
.DEFAULT_GOAL := help
.PHONY: help run test check build setup setup-test sqlx sqlx-check clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Everything on this machine: PostgreSQL, API, workers, a demo. make run ARGS="--port 8000"
	@scripts/run.sh $(ARGS)

test: ## All tests, over a real PostgreSQL. make test ARGS="-- name_of_a_test"
	@scripts/test.sh $(ARGS)

check: ## What needs no database: format, lints, supply chain, freshness of the lock file
	@scripts/check.sh

build: ## The binary for a release: target/release/rejoin
	@scripts/build.sh --release

setup: ## Only what building and running need: compiler, PostgreSQL
	@scripts/setup.sh

setup-test: ## Also what some tests need: a browser
	@scripts/setup-test.sh

sqlx: ## Refresh .sqlx, the cache that lets queries compile without a database
	@scripts/sqlx.sh write

sqlx-check: ## Fail if .sqlx is not what `make sqlx` would write
	@scripts/sqlx.sh check

clean: ## Remove what was built (not the data of `make run`)
	@cargo clean
	@rm -rf .cache/postgres .cache/sqlx
