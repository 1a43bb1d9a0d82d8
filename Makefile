# Two commands do everything: `make run` and `make test`.
#   make run                 the daemon on its built-in demo: http://localhost:9401
#   make run SOURCE=auto     the daemon on this node's GPUs
#   make test                the tests in the process, and a few of the whole program (4 min on two cores)
#   make lint                format, lint and types
#   make test-all            every test: packages, boots, images, attacks, Kubernetes, browsers, Slurm (20 min)
#   make nightly             what takes longer: releases, boots but that of the packages, permutations of cases, all examples
#                            of property tests, each fuzz target, advisories, the two commands on Debian 13
#   make bench               the bars, met or not (10 min); ARGS="parse tick" only these figures
#   make release VERSION=x.y.z   version, changelog, dist/ with wheel, deb, rpm, chart, images, SBOM and checksums, tag
#   make kubernetes          servers of Kubernetes for the tests that use them, built once for this user (5 to 10 min)
#   make hardware            known work by PyTorch on this node's GPU (4 min): classes and readings against what they must be
#   make dcgm PROFILE=h100   pulsed on NVIDIA's own programs and their mock of a board (docs/architecture.md)
#   make fuzz                every reader of outside bytes, ten minutes each: FUZZ_SECONDS=60 ARGS="--jobs 2 dmon record"
#   make invariants COMMIT=...   what a change must not change: pages, documents, CSV, messages of both, byte for byte
#   make mutants             100 changes of compute, translate and host that the unit tests must notice
#   make trace               each function that a warm page of an exporter, and a row of dmon, run through to /metrics
PYTHON ?= python3
VENV   ?= .venv
SOURCE ?= demo
ARGS   ?=
# Tests wait for a part of their time, those of the whole program for half of it: more workers than cores pay.
TEST_WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
WORKERS ?= $(shell $(PYTHON) -c 'import os; cores = os.cpu_count() or 1; print(cores + min(cores, 4))')
PYTEST ?= $(VENV)/bin/python -m pytest

FUZZ_SECONDS ?= 600

.PHONY: run dcgm test test-all nightly lint format bench hardware kubernetes stubs fuzz mutants invariants trace docs mixin vendor dist release release-files constraints audit pins clean

$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "pulsed needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: apt-get install python3-venv"; exit 1; }
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.test

$(VENV)/.fuzz: $(VENV)/.dev
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

run: $(VENV)/.run
	@echo "pulsed: http://localhost:9401/, for Prometheus http://localhost:9401/metrics, JSON http://localhost:9401/gpus"
	$(VENV)/bin/pulsed serve --source $(SOURCE) $(ARGS)

PROFILE ?= h100
dcgm: $(VENV)/.test
	$(VENV)/bin/python -m tests.support.dcgm $(PROFILE) $(ARGS)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

test: $(VENV)/.test
	$(PYTEST) --numprocesses=$(TEST_WORKERS) --dist=worksteal --ignore=tests/system -m "not slow and not nightly" $(ARGS)

test-all: $(VENV)/.dev
	$(PYTEST) --numprocesses=$(WORKERS) --dist=worksteal -m "not nightly" $(ARGS)

nightly: $(VENV)/.dev fuzz audit
	$(PYTEST) --numprocesses=$(WORKERS) --dist=worksteal -m nightly
	TEST_EXAMPLES=all $(PYTEST) --numprocesses=$(WORKERS) --dist=worksteal --ignore=tests/system
	.ci/debian trixie

bench: $(VENV)/.dev
	$(VENV)/bin/python -m tools.bench $(ARGS)

kubernetes:
	$(PYTHON) -m tests.support.kubernetes.build_servers

hardware: $(VENV)/.dev
	$(VENV)/bin/python -m tools.hardware $(ARGS)

# What is found is in build/fuzz/findings.
fuzz: $(VENV)/.fuzz
	$(VENV)/bin/python -m tools.fuzz --seconds $(FUZZ_SECONDS) $(ARGS)

mutants: $(VENV)/.dev
	$(VENV)/bin/python -m tools.mutate $(ARGS)

invariants: $(VENV)/.dev
	$(VENV)/bin/python -m tools.invariants $(COMMIT)

trace: $(VENV)/.dev
	$(VENV)/bin/python -m tools.trace_path

docs: $(VENV)/.dev
	$(VENV)/bin/python -m tools.references
	$(VENV)/bin/python -m tools.generate_docs
	$(VENV)/bin/python -m tools.generate_dashboards
	$(VENV)/bin/python -m tools.generate_counters
	$(VENV)/bin/python -m tools.generate_chart_schema
	$(VENV)/bin/python -m tools.draw_terminal

# The page's libraries, at the versions of vendor.yaml; needs npm.
vendor: $(VENV)/.dev
	$(VENV)/bin/python -m tools.vendor

# Needs the build tool alone, not what the tests need.
DIST ?= dist
BUILD = build/build-tool
$(BUILD)/.made:
	$(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/pip install --quiet --disable-pip-version-check build
	@touch $@

dist: $(BUILD)/.made
	$(BUILD)/bin/python -m build --outdir $(DIST)
	cp deploy/constraints.txt $(DIST)

release: $(VENV)/.dev
	@test -n "$(VERSION)" || { echo "usage: make release VERSION=x.y.z"; exit 1; }
	$(VENV)/bin/python -m tools.release $(VERSION) $(ARGS)

# The Prometheus mixin, for jsonnet, into build/mixin.
mixin: $(VENV)/.dev
	$(VENV)/bin/python -m tools.build_mixin build/mixin

# Into an environment of its own, of files with known hashes only.
RELEASE = build/release-tools
$(RELEASE)/.made: deploy/dev-constraints.txt deploy/build-constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check --require-hashes \
	    --requirement deploy/dev-constraints.txt --requirement deploy/build-constraints.txt
	@touch $@

release-files: $(RELEASE)/.made
	$(RELEASE)/bin/python -m tools.release $(ARGS)

# The newest versions that fit, for all Pythons and machines, with the hashes of their files; run the tests with them
# before they are committed.
COMPILE = $(VENV)/bin/uv --quiet pip compile --universal --python-version 3.11 --upgrade --generate-hashes \
    --no-annotate --no-header
constraints: $(VENV)/.dev
	mkdir -p build
	$(COMPILE) --extra kubernetes --extra nvml --extra otlp pyproject.toml >build/constraints.txt
	echo hatchling | $(COMPILE) - >build/build-constraints.txt
	$(COMPILE) --extra dev pyproject.toml >build/dev-constraints.txt
	for name in constraints build-constraints dev-constraints; do \
	    { sed -n '/^#/p' deploy/$$name.txt; cat build/$$name.txt; } >build/new.txt && mv build/new.txt deploy/$$name.txt; \
	done

# Known holes of the pinned packages; needs PyPI's advisories.
audit: $(VENV)/.dev
	$(VENV)/bin/python -m tools.audit

# What the tags of images and GitHub Actions stand for now.
pins: $(VENV)/.dev
	$(VENV)/bin/python -m tools.pin

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The messages of the kubelet's pod-resources API.
stubs: $(VENV)/.dev
	$(VENV)/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. pulsed/owners/attribution/pod_resources.proto
