# What can be done here: `make` lists it. Every target sets up what it needs, once.
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.dynident-ready
READY_DOCS := $(VENV)/.dynident-docs-ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check bench docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: $(READY)  ## a virtual environment in .venv with dynident and the tools of a developer

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dynident needs Python 3.11 or later; say which: make setup PYTHON=python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV): a minute or two, and only once."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[dev]'
	@touch $@

demo: $(READY)  ## fit the embedded example; the report is demo/results/report.html
	$(BIN)/dynident demo --out demo

test: $(READY)  ## the tests that take a few seconds at most
	$(BIN)/python -m pytest -n 2 -m 'not slow'

test-all: $(READY)  ## all tests
	$(BIN)/python -m pytest -n 2

check: $(READY)  ## style, types and layers
	$(BIN)/ruff check src tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(READY)  ## side by side with peers, as ratios
	$(BIN)/python benchmarks/run.py

docs: $(READY_DOCS)  ## the manual, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

$(READY_DOCS): $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[docs]'
	@touch $@

clean:  ## remove what was made here, except the virtual environment
	rm -rf build dist demo docs/_build .pytest_cache .ruff_cache .mypy_cache src/*.egg-info
	rm -f $(READY) $(READY_DOCS)
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
