# What can be done here: `make` lists it. Every target sets up what it needs, once.
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.dynident-ready
READY_DOCS := $(VENV)/.dynident-docs-ready
PIP    := -m pip install --disable-pip-version-check --quiet
PEERS  ?= .venv-peers
READY_PEERS := $(PEERS)/.dynident-ready
LOWEST ?= .venv-lowest
ALONE  := build/wheel-alone

ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PORTABLE ?= -march=x86-64 -ffp-contract=off
NUMERICAL := tests/test_every_method.py $(addprefix tests/,linalg integrators transcription solvers statistics methods kalman boundary)

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test test-all test-lowest test-portable check bench bench-smoke docs figure pictures papers wheel clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(READY)  ## a virtual environment in .venv with dynident and the tools of a developer

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dynident needs Python 3.11 or later; say which: make setup PYTHON=python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV): a minute or two, and only once."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	@touch $@

lock:  ## write the newest versions of everything into constraints.txt, from which setup installs
	$(PYTHON) tools/lock.py constraints.txt

demo: $(READY)  ## fit the embedded example; the report is demo/results/report.html
	$(BIN)/dynident demo --out demo

test: $(READY)  ## the tests that take a few seconds at most, smoke runs of the benchmarks included
	$(BIN)/python -m pytest -n 2 -m 'not slow'

test-all: $(READY)  ## all tests
	$(BIN)/python -m pytest -n 2

test-portable: $(READY)  ## the numerical tests with kernels for any x86-64: no verdict may turn on the last bit
	@if $(BIN)/python -c 'import platform, sys; from dynident.codegen.compiler import compiler; \
		sys.exit(platform.machine() not in ("x86_64", "AMD64") or not compiler())'; \
	then DYNIDENT_CFLAGS="$(PORTABLE)" $(BIN)/python -m pytest -n 2 -m 'not slow' $(NUMERICAL); \
	else echo "No x86-64 processor, or no C compiler: there are no kernels to compile for another processor."; fi

test-lowest:  ## the quick tests with the lowest versions that pyproject.toml declares, in .venv-lowest
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tools/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python $(PIP) -r $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python $(PIP) --no-deps -e .
	$(LOWEST)/bin/python -m pytest -n 2 -m 'not slow'

check: $(READY)  ## style, types and layers
	$(BIN)/ruff check src tests benchmarks examples docs tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(READY) $(READY_PEERS)  ## side by side with peers, as ratios; writes benchmarks/RESULTS.md (some: make bench ONLY="growth fleet")
	DYNIDENT_PEERS=$(abspath $(PEERS))/bin/python $(BIN)/python benchmarks/run.py --write $(ONLY)

bench-smoke: $(READY)  ## does every benchmark still run? The smallest size of each; part of make test
	$(BIN)/python -m pytest -n 2 tests/test_benchmarks.py

$(READY_PEERS): benchmarks/install_peers.py
	$(PYTHON) benchmarks/install_peers.py $(PEERS)
	@touch $@

docs: $(READY_DOCS)  ## the manual, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

$(READY_DOCS): $(READY)
	$(BIN)/python $(PIP) -c constraints.txt -e '.[docs]'
	@touch $@

papers: $(READY)  ## every item of the papers in its quick form: docs/papers.md and the record in the package
	$(ONE_THREAD) $(BIN)/python -m dynident papers run all --quick --again --out build/papers
	$(BIN)/python -m dynident papers page --out build/papers --markdown docs/papers.md --record src/dynident/papers/recorded.csv

figure: $(READY)  ## the architecture figure of CONTRIBUTING, from the layers in pyproject.toml
	$(BIN)/python tools/architecture_figure.py docs/_static

pictures: $(READY)  ## the pictures of README and manual: a fit, a profile, the report page (which needs Chromium)
	$(BIN)/python tools/pictures.py docs/_static/report

wheel:  ## dist/dynident-*.whl, installed alone in a fresh environment and tried there: fit, report, FMU
	rm -rf dist $(ALONE)
	$(PYTHON) -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv $(ALONE)
	$(ALONE)/bin/python $(PIP) -c constraints.txt dist/dynident-*.whl
	cd $(ALONE) && env -u PYTHONPATH bin/python $(abspath tools/wheel_smoke.py)
	$(ALONE)/bin/python $(PIP) -c constraints.txt "$$(echo dist/dynident-*.whl)[fmu]"
	cd $(ALONE) && env -u PYTHONPATH bin/python $(abspath tools/wheel_smoke.py)

clean:  ## remove what was made here, except the virtual environment
	rm -rf build dist demo docs/_build .pytest_cache .ruff_cache .mypy_cache src/*.egg-info
	rm -f $(READY) $(READY_DOCS)
	find src tests examples benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
