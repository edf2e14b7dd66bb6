# `make demo` runs the main job, `make test` checks everything; both set themselves up.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
INSTALL := -m pip install --quiet --disable-pip-version-check
TORCH := torch==$(shell sed -n 's/^torch==//p' constraints.txt)
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-lowest test-newest fuzz audit browser lint format map theory \
	reproduce bench-operator bench-training bench-zoo bench-retail clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# torch goes in first and by itself: the pin decides which build everything else sees.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Fighter needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) $(TORCH)
	$(BIN)/python $(INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(READY)  ## make the environment in .venv (the other targets do it by themselves)

demo: $(READY)  ## train on a generated grid, compare with three baselines, draw forecasts
	$(BIN)/fighter demo

test: lint  ## lint, then every test
	$(BIN)/python -m pytest -n auto

test-fast: $(READY)  ## the tests that are not slow: about ten minutes on two cores
	$(BIN)/python -m pytest -n auto -m "not slow"

# The lowest torch brings gigabytes of CUDA on Linux, so this is no part of `make test`.
.lowest-venv/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .lowest-venv
	.lowest-venv/bin/python $(INSTALL) -c constraints-lowest.txt -e '.[dev]'
	@touch $@

test-lowest: .lowest-venv/.ready  ## every test with the lowest versions that pyproject.toml allows
	.lowest-venv/bin/python -m pytest -n auto

test-newest:  ## every test with the newest version of every package but torch
	$(PYTHON) -m venv .newest-venv
	.newest-venv/bin/python $(INSTALL) $(TORCH)
	.newest-venv/bin/python $(INSTALL) --upgrade --upgrade-strategy eager $(TORCH) -e '.[dev]'
	.newest-venv/bin/python -m pytest -n auto

.audit-venv/.ready: constraints.txt
	$(PYTHON) -m venv .audit-venv
	.audit-venv/bin/python $(INSTALL) -c constraints.txt pip-audit
	@touch $@

# --strict: otherwise a package that the service does not answer for would pass.
audit: $(READY) .audit-venv/.ready  ## licences and known vulnerabilities of the packages a user gets
	$(BIN)/python -m tests.test_packages
	@$(BIN)/python -m tests.test_packages --versions | .audit-venv/bin/pip-audit --strict --no-deps --disable-pip \
	--progress-spinner off -r /dev/stdin || { echo "The audit failed: a package has a known vulnerability," \
	"or the service that knows them did not answer for one (it needs the network). See above."; exit 1; }

browser:  ## install a browser for the tests of the pages, if there is none and apt can
	@command -v chromium || command -v chromium-browser || { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium > /dev/null; } || \
	echo "There is no chromium and it cannot be installed here: the browser tests will be skipped."

fuzz: $(READY)  ## many thousand odd tables, damaged models, kills and threads; FUZZ="tables --cases 100" runs fewer
	$(BIN)/python -m tests.fuzz $(or $(FUZZ),--write)

lint: $(READY)  ## style, types and imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(READY)  ## let ruff fix what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

map: $(READY)  ## write the map in CONTRIBUTING.md from the module docstrings
	$(BIN)/python -m tests.test_contributing

theory: $(READY)  ## check every identity of the paper on fresh numbers
	$(BIN)/python -m paper theory

# Under CUDA's multi-process service several runs share a GPU well: nvidia-cuda-mps-control -d
reproduce: $(READY)  ## the paper's tables and figures, in full (wants a GPU and the data, see docs)
	$(BIN)/python -m paper reproduce all --results results/reproduction --page docs/reproduction.md

bench-operator: $(READY)  ## time and memory of the multi-hop operator, as ratios
	$(BIN)/python -m benchmarks.operator

# The competitor lives by itself: what it needs must not decide what Fighter is tested with.
.bench-venv/.ready: constraints.txt
	$(PYTHON) -m venv .bench-venv
	.bench-venv/bin/python $(INSTALL) $(TORCH)
	.bench-venv/bin/python $(INSTALL) -c constraints.txt neuralforecast pyarrow
	@touch $@

bench-training: $(READY) .bench-venv/.ready  ## training windows per second beside neuralforecast, on CPU
	$(BIN)/python -m benchmarks.training

.graph-venv/.ready:
	$(PYTHON) -m venv .graph-venv
	.graph-venv/bin/python $(INSTALL) tigramite lingam
	@touch $@

bench-graphs: $(READY) .graph-venv/.ready  ## links between series against known graphs: an hour; the models are kept
	$(BIN)/python -m benchmarks.graphs --rows 1000 --seeds 2 --sets finance netsim lorenz96 var it --keep .graphs --out results/network.json --models fighter share correlation var ols "integrated gradients" attention pcmci varlingam
	$(BIN)/python -m benchmarks.graph_forecasts --keep .graphs
	$(BIN)/python -m benchmarks.graph_page

.zoo-venv/.ready: constraints.txt
	$(PYTHON) -m venv .zoo-venv
	.zoo-venv/bin/python $(INSTALL) $(TORCH)
	.zoo-venv/bin/python $(INSTALL) -c constraints.txt statsforecast mlforecast lightgbm flaircast neuralforecast pyarrow
	@touch $@

bench-zoo: $(READY) .zoo-venv/.ready  ## Fighter and its peers on the development tables: hours; resumes
	$(BIN)/python -m benchmarks.zoo --page --models seasonal_naive autotheta autoets autoces flair lightgbm fighter \
	fighter+future pretrained
	$(BIN)/python -m benchmarks.zoo --page --models nhits patchtst --windows 0

bench-retail: $(READY) .zoo-venv/.ready  ## the same for many series and demand: docs/retail.md; resumes
	$(BIN)/python -m benchmarks.retail --windows 0 --page

clean:  ## remove the environment and caches
	rm -rf .venv .bench-venv .graph-venv .zoo-venv .lowest-venv .newest-venv .audit-venv .ruff_cache .pytest_cache .hypothesis .import_linter_cache .fuzz build dist
