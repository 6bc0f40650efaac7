# Every target is a few lines; the work is in the tools they call.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8

HOROVOD := $(VENV)/.horovod

.PHONY: setup horovod kernel lock docs demo test test-long install-test test-pythons fmt lint type unit api e2e images cluster-up cluster-down bench gpu crds clean help

COMPILED := setup.py $(shell find operator/hyperscale -name '*.pyx' -o -name '*.pxd' -o -name '*.h')

$(VENV)/.ready: requirements/dev.lock pyproject.toml $(COMPILED)
	@test -x $(BIN)/python || { $(PYTHON) -m venv $(VENV) 2>/dev/null || python3 -m venv $(VENV); }
	@test -x $(BIN)/uv || { $(BIN)/python -m ensurepip >/dev/null; $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@echo "installing the Python packages of requirements/dev.lock (7 GB on the disk; after them the compiled modules)" >&2
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r requirements/dev.lock
	@echo "compiling the package's $(words $(filter %.pyx,$(COMPILED))) Cython modules" >&2
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

$(HOROVOD): $(VENV)/.ready images/worker/horovod.lock images/worker/build.lock images/worker/c++20 e2e/horovod.py
	@$(BIN)/python -m e2e.horovod
	@touch $@

setup: $(VENV)/.ready ## Make .venv with everything that the other targets need

horovod: $(HOROVOD) ## Open MPI where it is missing, and Horovod compiled for this torch (kept in the cache)

kernel: ## Compile the .pyx modules again
	@$(BIN)/python setup.py -q build_ext --inplace

# For every Python that the project runs on: what only one of them needs carries a marker.
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11

lock: ## Compile all lock files again: dev.lock is the resolution of everything, each other lock a part of it
	@$(LOCK) --extra dev pyproject.toml -o requirements/dev.lock
	@# uv prefers the versions that it finds in the file it writes, and drops what is not needed.
	@for group in core operator agent worker learn test; do cp requirements/dev.lock requirements/$$group.lock; \
	  $(LOCK) $$(test $$group = core || echo --extra $$group) pyproject.toml -o requirements/$$group.lock; done
	@for name in agent/agent worker/horovod worker/build worker/cuda; do cat requirements/dev.lock >> images/$$name.lock; \
	  $(LOCK) --no-annotate --no-deps images/$$name.in -o images/$$name.lock; done
	@cat requirements/dev.lock >> images/operator/build.lock
	@$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
	  | $(LOCK) --no-annotate --no-deps - -o images/operator/build.lock

	@# The site's generator has an environment of its own; it takes the versions of dev.lock where both need a package.
	@cp requirements/dev.lock requirements/docs.lock
	@$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" \
	  | $(LOCK) - -o requirements/docs.lock

DOCS := .venv-docs

$(DOCS)/.ready: requirements/docs.lock | $(VENV)/.ready
	@test -x $(DOCS)/bin/python || $(BIN)/python -m venv --without-pip $(DOCS)
	@VIRTUAL_ENV=$(CURDIR)/$(DOCS) $(BIN)/uv pip install --quiet --require-hashes -r requirements/docs.lock
	@touch $@

docs: $(DOCS)/.ready ## Build the site into build/site; every page, link and anchor is checked
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict && echo "build/site/index.html"

crds: setup ## Write crds/ and the chart's copies from the Python types
	@$(BIN)/python -m hyperscale.spec.crd

fmt: setup ## Format and sort imports
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix --quiet .

lint: setup ## ruff, the import contracts and the language of pages and code
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports --no-cache && $(BIN)/python -m tests.language

type: setup ## mypy, strict
	@$(BIN)/mypy

# Where the time of a run went.
SLOWEST := --durations=20 --durations-min=5

unit: horovod ## Tests that need no server
	@$(BIN)/pytest $(SLOWEST) -m 'not long' tests/unit tests/property tests/behaviour

api: setup ## Tests against a real kube-apiserver
	@$(BIN)/pytest $(SLOWEST) tests/api tests/fault

e2e: horovod ## Scenarios on the local cluster
	@$(BIN)/pytest $(SLOWEST) e2e

test: setup ## Everything: lint, types, all tests
	@$(MAKE) --no-print-directory lint type
	@# One computes and the other mostly waits for servers: side by side they take little longer than the longer of them.
	@$(MAKE) --no-print-directory -j2 --output-sync=target unit api
	@$(MAKE) --no-print-directory e2e

test-long: setup ## Tests that take minutes, and property tests with ROUNDS (5) further seeds; each prints its seed
	@$(BIN)/pytest -m long tests/unit
	@for round in $$(seq $(or $(ROUNDS),5)); do seed=$$RANDOM; echo "pytest tests/property --hypothesis-profile=random --hypothesis-seed=$$seed"; \
	  $(BIN)/pytest tests/property --hypothesis-profile=random --hypothesis-seed=$$seed; done

PYTHONS := 3.12 3.13

# The compiler's output of each Python has names of its own, so that the environments share this folder.
.venvs/%/.ready: requirements/test.lock pyproject.toml $(COMPILED) | $(VENV)/.ready
	@# pyenv's interpreters need not be on PATH.
	@test -x .venvs/$*/bin/python || { for python in "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$*.*/bin/python$* python$*; do \
	  "$$python" -m venv --without-pip .venvs/$* 2>/dev/null && break; done; test -x .venvs/$*/bin/python || { echo "python$* is missing" >&2; exit 1; }; }
	@VIRTUAL_ENV=$(CURDIR)/.venvs/$* $(BIN)/uv pip install --quiet --require-hashes -r requirements/test.lock
	@VIRTUAL_ENV=$(CURDIR)/.venvs/$* $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

test-pythons: $(PYTHONS:%=.venvs/%/.ready) ## Unit, property and behaviour tests on each Python of PYTHONS without torch and DGL; says what it leaves out
	@failed=""; for python in $(PYTHONS); do echo "Python $$python"; \
	  .venvs/$$python/bin/python -m pytest tests/unit tests/property tests/behaviour -q -p no:cacheprovider || failed="$$failed $$python"; \
	  done; test -z "$$failed" || { echo "failed on Python$$failed" >&2; exit 1; }

cluster-up: setup ## Start the local cluster and print the KUBECONFIG it wrote
	@$(BIN)/python -m e2e.cluster up

cluster-down: setup ## Stop the local cluster and leave nothing
	@$(BIN)/python -m e2e.cluster down

images: setup ## Build the complete images and try them (root, 30 GB for a while, half an hour; GPU=1: the worker's with CUDA and NCCL)
	@# What needs neither root nor a GPU comes first: Horovod's CUDA and NCCL half compiled, linked and loaded.
	@$(if $(GPU),$(BIN)/python -m e2e.gpuwheel)
	@$(BIN)/python -m e2e.images $(if $(GPU),--gpu)

install-test: horovod ## docs/install.md on a bare local cluster: images, chart, pods, one job, upgrade, uninstall (root, a quarter of an hour)
	@$(BIN)/python -m e2e.install

demo: setup ## Local cluster, operator, one job: the plan, its reasons, the pods
	@$(BIN)/python -m e2e.demo

bench: setup ## All benchmarks, quick; names at the end those that missed a goal
	@missed=""; for script in sizes control_plane planner_scale placement streams queue_plans partition partition_scale allreduce fusion training accuracy molhiv verify twin failures forecast intervals hardware novelty citation_impact live_forecast calibration compare score preferences; do \
	  $(BIN)/python -m benchmarks.$$script --quick || missed="$$missed $$script"; done; test -z "$$missed" || { echo "missed a goal or failed:$$missed" >&2; exit 1; }

gpu: ## The layers for GPUs on this machine's GPU, else on the processor (Python, torch and numpy are enough; ARGS="--quick --json FILE")
	@# Where Cython and a C compiler are, the passes for processors are compiled too and become a second reference.
	@python=$(if $(wildcard $(BIN)/python),$(BIN)/python,python3); export PYTHONPATH=operator; \
	$$python -c "import Cython, setuptools" 2>/dev/null && ! $$python -W ignore -c "from hyperscale.training.modelgraph import _sparse" 2>/dev/null \
	  && { timeout 120 $$python setup.py -q build_ext --inplace -j 8 >/dev/null 2>&1 || echo "not compiled: going on without" >&2; }; \
	$$python -W ignore -m benchmarks.gpu $(ARGS)

clean: ## Remove what the targets above made in this folder
	@rm -rf $(VENV) $(DOCS) .venvs .run build dist operator/*.egg-info htmlcov .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find operator -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16
