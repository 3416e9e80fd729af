# What you can do here: `make help`. Needs GNU make, Rust, Python 3.10 or newer and a C++ compiler; the rest is
# installed by apt (as root; else the command to type is shown) and into the virtual environment .venv.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

# The interpreter the virtual environment is made from. After a change: make clean-venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What runs in front of the build in `make run-mongrel2`; see proxy-configs/mongrel2.
CONFIG ?= proxy-configs/mongrel2/lurcher.conf
APP ?= hello:application
# More words for lurcher in `make run`, such as ARGS='--workers 4'.
ARGS ?=
# `make run ONCE=--once` ends by itself after the first answer.
ONCE ?=
# Tests at the same time. Each has its own processes, ports and directory, and mostly waits.
PYTEST_JOBS ?= 4
# More words for pytest in `make test-python`, such as PYTEST_ARGS='-k restart'.
PYTEST_ARGS ?=
# Seconds for each fuzz target, and for each load of `make load`.
FUZZ_SECONDS ?= 30
LOAD_SECONDS ?= 10
# How long `make chaos` lasts, and the seed that it draws from (one of its own if empty). make chaos SECONDS=600 SEED=7
SECONDS ?= 60
SEED ?=

# One interpreter for cargo and maturin: when it changes, PyO3 and all above it are built again.
export PYO3_PYTHON := $(abspath $(BIN)/python)
# Set for a build of ours, it would leave test binaries without libpython.
unexport PYO3_BUILD_EXTENSION_MODULE
export PYTHON

# The extension has a target directory of its own: in one shared with `cargo test` each would undo the other's PyO3.
MATURIN := PATH="$(abspath $(BIN)):$$PATH" CARGO_TARGET_DIR=target/maturin $(BIN)/maturin
VENV_READY := $(VENV)/.ready
SUITES_READY := $(VENV)/.suites-ready
PYTHON_SOURCES := $(wildcard python) tests/python examples scripts benches

.PHONY: help
help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | \
		awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: run
run: build-tools run-tools dev ## Build, start `lurcher serve` with an example, send a first request, stay until Ctrl-C
	@printf '\n== %s\n' 'make run: lurcher serve with $(APP) from examples/'
	@exec $(BIN)/python scripts/run_serve.py $(ONCE) --wsgi-app $(APP) -- $(ARGS)

.PHONY: run-mongrel2
run-mongrel2: build-tools run-tools dev ## The same behind Mongrel2 with CONFIG
	@printf '\n== %s\n' 'make run-mongrel2: Mongrel2 with $(CONFIG), Lurcher with $(APP) from examples/'
	@exec $(BIN)/python scripts/run_example.py $(ONCE) --config $(CONFIG) --wsgi-app $(APP) -- $(ARGS)

# More words for it, such as SCREENSHOT='--app guestbook:application'.
SCREENSHOT ?=

.PHONY: screenshot
screenshot: build-tools screenshot-tools dev ## What a browser shows of an example under `lurcher serve`: build/screenshot.png
	$(BIN)/python scripts/screenshot.py $(SCREENSHOT)

.PHONY: test
test: test-rust test-python ## Run every test: Rust (unit, property, fixtures, layers), then pytest through real Mongrel2

.PHONY: test-rust
test-rust: build-tools $(VENV_READY) ## Run the Rust tests only
	@printf '\n== %s\n' 'cargo test: unit and property tests, fixtures, layers, doc examples'
	cargo test --locked

.PHONY: test-python
test-python: build-tools run-tools test-tools dev ## Run the pytest tests only (PYTEST_ARGS='-k word')
	@printf '\n== %s\n' 'pytest: the installed command end to end, behind the real Mongrel2'
	$(BIN)/pytest -n $(PYTEST_JOBS) $(PYTEST_ARGS)

# Which of the versions found, and words for pytest: make test-versions VERSIONS=--ends PYTEST_ARGS='-k input'.
VERSIONS ?=

.PHONY: test-versions
test-versions: build-tools run-tools test-tools ## Run the tests that Python can make a difference to with each CPython found, from 3.10 on
	PYTEST_ADDOPTS='-n $(PYTEST_JOBS)' $(PYTHON) scripts/test_versions.py $(VERSIONS) $(PYTEST_ARGS)

.PHONY: test-suites
test-suites: build-tools run-tools suites-tools dev $(SUITES_READY) ## Run real applications and the suites others wrote: Flask, httpbin, WsgiDAV with litmus, WebTest, Django, Werkzeug, gunicorn, waitress
	@printf '\n== %s\n' 'test-suites: real applications through the real Mongrel2 and lurcher serve'
	$(BIN)/pytest -W default tests/python/suites/suite_*.py $(PYTEST_ARGS)

.PHONY: dev
dev: build-tools $(VENV_READY) ## Build the extension (release) and install it into .venv
	@printf '\n== %s\n' 'maturin develop: building the extension into $(VENV)'
	$(MATURIN) develop --release --locked

.PHONY: lint
lint: build-tools dev ## Check format, clippy, ruff, types, and that the stub tells the truth
	@printf '\n== %s\n' 'cargo fmt --check'
	cargo fmt --check
	@printf '\n== %s\n' 'cargo clippy -D warnings'
	cargo clippy --locked --all-targets -- -D warnings
	@printf '\n== %s\n' 'clippy of the parts alone: the front end, the instance with Python and without'
	cargo clippy --locked --lib --bins --no-default-features --features front -- -D warnings
	cargo clippy --locked --lib --no-default-features --features python -- -D warnings
	cargo clippy --locked --lib --no-default-features --features instance -- -D warnings
	@printf '\n== %s\n' 'cargo doc -D warnings'
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items --quiet
	@printf '\n== %s\n' 'ruff: style and format'
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	@printf '\n== %s\n' 'mypy --strict'
	$(BIN)/mypy
	@printf '\n== %s\n' 'stubtest: the stub against the built extension'
	$(BIN)/python -m mypy.stubtest lurcher._native

.PHONY: fmt
fmt: build-tools $(VENV_READY) ## Format Rust and Python
	cargo fmt
	$(BIN)/ruff check --fix-only --quiet $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)

.PHONY: load
load: build-tools run-tools test-tools dev ## wrk -c 32 for LOAD_SECONDS behind Mongrel2, with 1 and 4 workers; prints what wrk says
	@printf '\n== %s\n' 'load: wrk -c 32 -d $(LOAD_SECONDS)s'
	LOAD_SECONDS=$(LOAD_SECONDS) $(BIN)/pytest -s -k wrk tests/python/test_load.py

.PHONY: reload
reload: build-tools run-tools test-tools dev ## 20 reloads, one with a syntax error, and 20 recyclings under wrk -c 32; fails if one request does
	@printf '\n== %s\n' 'reload: nothing may fail'
	PYTHONPATH=scripts:tests/python $(BIN)/python benches/reload.py

.PHONY: preload
preload: build-tools run-tools suites-tools dev $(SUITES_READY) ## Memory of 8 workers of a Django application, with and without --preload
	@printf '\n== %s\n' 'preload: what shared pages save'
	PYTHONPATH=scripts:tests/python $(BIN)/python benches/preload.py

.PHONY: leaving
leaving: build-tools run-tools test-tools dev ## Count what is lost when one of two instances leaves 20 times under 2,000 requests a second
	@printf '\n== %s\n' 'leaving: behind a libzmq PUSH, then behind Mongrel2'
	PYTHONPATH=scripts:tests/python $(BIN)/python benches/leaving.py

.PHONY: chaos
chaos: build-tools run-tools test-tools dev ## Faults under load for SECONDS, then the books must balance; SEED repeats the actions of a run
	@printf '\n== %s\n' 'chaos: $(SECONDS) s'
	CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) $(BIN)/pytest -s tests/python/test_chaos.py

.PHONY: memory
memory: build-tools dev ## Send 200,000 requests of mixed kinds; print what a worker's memory does meanwhile
	@printf '\n== %s\n' 'memory: a worker after 20, 60 and 100 % of the requests'
	PYTHONPATH=scripts:tests/python $(BIN)/python benches/memory.py

.PHONY: uploads
uploads: build-tools dev ## 1 GiB by upload file and by stream, and ten cut uploads; fails if memory grows or a file stays
	@printf '\n== %s\n' 'uploads: 1 GiB through the real Mongrel2, both ways'
	PYTHONPATH=scripts:tests/python $(BIN)/python benches/uploads.py

# More words for `make compare`, such as COMPARE='--connections 256 --seconds 10'.
COMPARE ?=

.PHONY: compare
compare: build-tools run-tools test-tools compare-tools dev ## Requests a second of lurcher serve beside nginx+gunicorn, nginx+uWSGI, waitress and granian: a table
	PYTHONPATH=scripts $(BIN)/python benches/compare.py $(COMPARE)

.PHONY: endure
endure: build-tools run-tools test-tools compare-tools dev ## What lurcher serve endures: ab, h2load, wrk, curl; slowhttptest's four modes; 10,000 idle connections
	$(BIN)/python benches/endure.py

.PHONY: bench-bodies
# Which of its rows: make bench-bodies ROWS='blob slow-clients'.
ROWS ?=
bench-bodies: build-tools run-tools test-tools dev ## Large, slow and broken downloads in full size through the real Mongrel2 (some 8 minutes)
	PYTHONPATH=scripts:tests/python:tests/python/apps $(BIN)/python benches/bulk.py $(ROWS)

.PHONY: bench
bench: build-tools dev ## Requests a second, beside a bare libzmq echo in the same run (benches/README.md)
	cargo bench --locked --no-default-features --bench throughput -- $(BIN)/lurcher

.PHONY: bench-front
bench-front: build-tools run-tools test-tools $(VENV_READY) ## Our own front end beside Mongrel2, with the same bare handler, by wrk
	@printf '\n== %s\n' 'bench-front: wrk -c 32 and -c 256, alternating rounds'
	cargo build --locked --release --no-default-features --features front --bin lurcher-front --example echo
	PYTHONPATH=scripts:tests/python $(BIN)/python benches/front.py target/release/lurcher-front target/release/examples/echo

.PHONY: leaving-front
leaving-front: build-tools dev ## The same behind our own front end, which loses none
	@printf '\n== %s\n' 'leaving-front: 100,000 requests, 20 stops of one of two instances'
	$(BIN)/python benches/front_leaving.py

.PHONY: fuzz
fuzz: ## Fuzz the parsers, FUZZ_SECONDS for each target (needs cargo-fuzz and a nightly toolchain)
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
		echo 'make fuzz needs: rustup toolchain install nightly && cargo install cargo-fuzz' >&2; exit 1; }
	python3 tests/fuzz/seed.py
	@targets=$$(cargo +nightly fuzz list --fuzz-dir tests/fuzz); for target in $$targets; do \
		printf '\n== fuzzing %s for %s s\n' "$$target" '$(FUZZ_SECONDS)'; \
		cargo +nightly fuzz run --fuzz-dir tests/fuzz "$$target" -- -max_total_time=$(FUZZ_SECONDS) \
			-max_len=4096 -timeout=5 -malloc_limit_mb=16 || exit 1; \
	done

.PHONY: sdist-check
sdist-check: build-tools run-tools $(VENV_READY) ## sdist -> fresh environment -> pip install -> one request through Mongrel2
	@printf '\n== %s\n' 'sdist-check: building the source distribution'
	rm -rf build/sdist build/sdist-venv
	$(BIN)/maturin sdist --out build/sdist
	@printf '\n== %s\n' 'sdist-check: installing it into a fresh environment'
	$(BIN)/python -m venv build/sdist-venv
	CARGO_TARGET_DIR=$(abspath target/maturin) build/sdist-venv/bin/pip install \
		--quiet --disable-pip-version-check build/sdist/lurcher-*.tar.gz
	build/sdist-venv/bin/lurcher --version
	build/sdist-venv/bin/python -m lurcher --version
	$(BIN)/python scripts/run_example.py --once --lurcher $(abspath build/sdist-venv/bin/lurcher)

.PHONY: versions
versions: $(VENV_READY) ## Print the tools in use
	@rustc --version; cargo --version; $(BIN)/python --version; $(BIN)/maturin --version; $(BIN)/pytest --version
	@$(BIN)/ruff --version; $(BIN)/mypy --version; $(BIN)/python -c 'import zmq; print("pyzmq", zmq.__version__)'
	@{ command -v mongrel2 m2sh wrk ab curl || true; }
	@{ dpkg-query -W -f '$${Package} $${Version}\n' mongrel2-core wrk apache2-utils 2>/dev/null || true; }

.PHONY: clean
clean: ## Remove what was built and run here, but not .venv
	rm -rf target build dist run .pytest_cache .mypy_cache .ruff_cache python/lurcher/*.so

.PHONY: clean-venv
clean-venv: ## Remove .venv; the next command makes it again
	rm -rf $(VENV)

.PHONY: build-tools run-tools test-tools suites-tools compare-tools screenshot-tools
build-tools run-tools test-tools suites-tools compare-tools screenshot-tools: %-tools:
	@scripts/install-missing $*

$(VENV_READY): requirements-dev.txt scripts/install-missing
	@scripts/install-missing build
	@printf '\n== %s\n' 'making $(VENV) with $(PYTHON), installing requirements-dev.txt into it'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "$(PYTHON) is older than Python 3.10; say which one to use: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(SUITES_READY): requirements-suites.txt $(VENV_READY)
	@printf '\n== %s\n' 'installing requirements-suites.txt into $(VENV)'
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-suites.txt
	@touch $@
