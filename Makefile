# `make demo` and `make test` set everything up themselves: they need Python 3.11 or newer and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH ?= torch==2.13.0
EXTRAS ?= server,dev

.PHONY: setup demo test check format lint types mutants reader extractor sim clean

setup: $(STAMP)

# torch comes first and pinned: asked for by another package, pip would take a build with
# gigabytes of CUDA libraries.
$(STAMP): pyproject.toml constraints.txt models/reader/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	rm -rf models/reader/build  # an earlier build's weights would be packed, too
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt -e ".[$(EXTRAS)]" ./models/reader
	touch $(STAMP)

demo: setup
	$(BIN)/heddle demo

test: setup
	$(BIN)/python -m pytest -q

check: setup format lint types test

format: setup
	$(BIN)/ruff format --check heddle tests benchmarks tools

lint: setup
	$(BIN)/ruff check heddle tests benchmarks tools

types: setup
	$(BIN)/mypy

sim: setup
	$(BIN)/python -m heddle.simulator --seed $(or $(SEED),0)

# Break KV fusion on purpose, one mutation at a time, and see a test turn red (10 to 20 minutes).
mutants: setup
	$(BIN)/python -m tools.mutants --json docs/results/mutants.json

# Retrain the reader from nothing; PROFILE=gpu on a machine with one. Resumable.
reader: setup
	cd models/reader && ../../$(BIN)/python -m training.train \
		--profile $(or $(PROFILE),cpu) --export heddle_reader/model

# Train the extractor from the packaged MiniLM, on one core and behind everything else. Resumable.
extractor: setup
	cd models/extractor && ../../$(BIN)/python -m extractor_training.train \
		--export heddle_extractor/model

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build *.egg-info
