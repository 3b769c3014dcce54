# The verbs of this project. Each does all its own set-up, on a fresh Debian machine, too, also as root.
# The logic is in scripts/, one file a verb, so that it can be read, linted and run without make.
# (No linker is configured: current Rust links with lld on Linux by default.)
.DEFAULT_GOAL := help
.PHONY: help run web test test-model mutants check build fuzz schemathesis sbom release dist image test-image test-compose bench bench-scale bench-compare flame bench-web chaos chaos-broken chaos-dags conformance conformance-broken test-ha test-kubernetes test-cells test-pooler test-upgrade eval-routing example-dag soak setup setup-search setup-test probe-providers models sqlx sqlx-check clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Everything on this machine: PostgreSQL, API, workers, a demo. make run ARGS="--port 8000"
	@scripts/run.sh $(ARGS)

web: ## The web app into web/dist, where the server's build finds it
	@scripts/setup-web.sh

test: ## All tests, over a real PostgreSQL. make test ARGS="-- name_of_a_test"
	@scripts/test.sh $(ARGS)

test-model: ## A real model, on this machine, calls a real tool and answers: docs/operations/real-model.md
	@scripts/test-model.sh

mutants: ## Mutation tests of rights, leases and guards: docs/reports/mutants.md. make mutants FILES="shared/queue/src/*"
	@scripts/mutants.sh $(FILES)

check: ## What needs no database: format, lints, supply chain, freshness of the lock file
	@scripts/check.sh

build: ## The binary for a release: target/release/rejoin
	@scripts/build.sh --release

schemathesis: ## Every operation of the OpenAPI document, with whatever fits it and does not: docs/reports/reliability/schemathesis.md
	@MAX_EXAMPLES="$(MAX_EXAMPLES)" SEED="$(SEED)" scripts/schemathesis.sh

fuzz: ## The parsers, with any bytes. make fuzz SECONDS=60 TARGET=sse
	@FUZZ_SECONDS="$(SECONDS)" scripts/fuzz.sh $(TARGET)

image: ## The container image, rejoin:latest, by docker, podman or buildah
	@scripts/image.sh

test-image: ## Build the image and try it: size, user, the first question, a drain. As root on Debian. ARGS=--no-build: the last one
	@scripts/test-image.sh $(ARGS)

test-compose: ## Bring the fleet of docker-compose.yml up with that image, kill a worker at a question, stop it, start it again
	@scripts/test-compose.sh

release: ## The release binary, the same bytes from any place. make release ARGS=--verify builds it twice
	@scripts/release.sh $(ARGS)

dist: ## What is published: packages for pip, npm and apt, a tarball, sums. ARGS=--verify packs twice. packaging/README.md
	@scripts/dist.sh $(ARGS)

sbom: ## What is in the binary, as CycloneDX: target/rejoin.cdx.json
	@scripts/sbom.sh

bench: ## How fast it is: docs/reports/performance.md. make bench SCENARIO=queue REPS=5 SIZE=smoke
	@REPS="$(REPS)" SIZE="$(SIZE)" scripts/bench.sh $(SCENARIO)

bench-scale: ## The same with what takes an hour: millions of rows, days of history
	@REPS="$(REPS)" SIZE="$(or $(SIZE),large)" scripts/bench.sh $(or $(SCENARIO),scale)

bench-compare: ## Whether it got slower since a revision. make bench-compare BASE=main SCENARIO=ttft
	@REPS="$(REPS)" SIZE="$(SIZE)" FAIL_ABOVE="$(FAIL_ABOVE)" scripts/bench-compare.sh "$(BASE)" $(SCENARIO)

eval-routing: ## How often the right agent is chosen for a first message, and how fast: docs/guide/routing.md
	@scripts/eval-routing.sh $(ARGS)

flame: ## Flame graphs of a benchmark, by perf: docs/reports/performance.md. make flame SCENARIO=turn
	@SIZE="$(SIZE)" scripts/flame.sh $(SCENARIO)

bench-web: ## How the chat feels in a browser: first load, streaming, search, lists. Writes docs/reports/web-performance.md
	@SIZE="$(SIZE)" PARTS="$(PARTS)" scripts/bench-web.sh

example-dag: ## A coordinator splits a question into five tasks, three workers do them. MODEL=scripted make example-dag
	@scripts/example-dag.sh

chaos-dags: ## DAGs of 200 tasks while workers are killed, 20 seeds. make chaos-dags ARGS="--seeds 5"
	@scripts/chaos-dags.sh $(ARGS)

chaos: ## Load while everything fails that can fail. make chaos SEED=3 MINUTES=10 REPORT=docs/reports/reliability/chaos-3.md
	@SEED="$(SEED)" MINUTES="$(MINUTES)" REPORT="$(REPORT)" scripts/chaos.sh $(ARGS)

soak: ## 2,000 conversations for an hour: are memory and tables as large at its end as before? make soak MINUTES=60
	@MINUTES="$(MINUTES)" scripts/soak.sh $(ARGS)

chaos-broken: ## Builds that break one promise each: the checker must notice. make chaos-broken NAMES=no-fence
	@scripts/chaos-broken.sh $(NAMES)

conformance: ## The kill-and-resume suite, over Rejoin and others: conformance/README.md. make conformance TARGET=all SEEDS=50
	@TARGET="$(TARGET)" SEEDS="$(SEEDS)" FAMILY="$(FAMILY)" REPORT="$(REPORT)" scripts/conformance.sh $(ARGS)

conformance-broken: ## Builds that break one promise each: a case of that suite must notice. make conformance-broken NAMES=no-fence
	@scripts/conformance-broken.sh $(NAMES)

test-ha: ## Failovers of a Patroni cluster under load: docs/operations/ha.md. make test-ha SEEDS=1..10 SECONDS=600 REPORT=FILE
	@SEEDS="$(SEEDS)" HA_SECONDS="$(SECONDS)" REPORT="$(REPORT)" scripts/test-ha.sh $(ARGS)

test-kubernetes: ## The commands of docs/operations/kubernetes.md, over a control plane: make test-kubernetes KUBERNETES_BIN=/opt/kubernetes/server/bin
	@KUBERNETES_BIN="$(KUBERNETES_BIN)" scripts/test-kubernetes.sh

test-cells: ## Projects that move between two databases under load and faults: docs/operations/cells.md. make test-cells SEEDS=1..3 SECONDS=120 REPORT=FILE
	@SEEDS="$(SEEDS)" CELLS_SECONDS="$(SECONDS)" REPORT="$(REPORT)" scripts/test-cells.sh $(ARGS)

test-pooler: ## A short selection of the tests through PgBouncer in transaction mode: docs/operations/poolers.md. ARGS="chat::turns"
	@scripts/test-pooler.sh $(ARGS)

test-upgrade: ## Rolling upgrade from a revision to this tree and back, under load: docs/operations/fleet.md. make test-upgrade BASE=v0.1.0
	@SEED="$(SEED)" SECONDS_OF_FAULTS="$(SECONDS)" scripts/test-upgrade.sh "$(BASE)" $(ARGS)

setup: ## Only what building and running need: compiler, PostgreSQL
	@scripts/setup.sh

setup-search: ## The local embedding model (84 MB), for search by meaning without a key
	@scripts/setup-search.sh

setup-test: ## Also what some tests need: a browser, the local embedding model
	@scripts/setup-test.sh

probe-providers: ## Ask the provider of each key that is set: a tool, an image, data, a cached repeat. MODELS="openai:NAME" make probe-providers
	@MODELS="$(MODELS)" scripts/probe-providers.sh $(ARGS)

models: ## Refresh data/models.json, the catalogue of models: docs/guide/models.md
	@scripts/models.sh

sqlx: ## Refresh .sqlx, the cache that lets queries compile without a database
	@scripts/sqlx.sh write

sqlx-check: ## Fail if .sqlx is not what `make sqlx` would write
	@scripts/sqlx.sh check

clean: ## Remove what was built (not the data of `make run`)
	@cargo clean
	@rm -rf .cache/postgres .cache/sqlx .cache/bench
	@git worktree prune 2>/dev/null || true
