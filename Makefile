# `make` lists the targets. Everything is installed into .venv, everything is kept in .data.
SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first of these that is Python 3.11 makes the virtual environment.
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.9
PIP_AUDIT_VERSION := 2.10.1
# Where the home directory cannot be written, the checkout can.
export UV_CACHE_DIR ?= $(shell test -w "$$HOME" && echo "$$HOME/.cache/uv" || echo "$(CURDIR)/.cache/uv")
export UV_LINK_MODE ?= copy
# Images for containers often set it; here every process would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE
FAST := not (served or programs or browser or spark or acceptance or crash or plans or deep or waits or checker)
# They have both processors for themselves: Spark, which starts once, beside the rest.
WHOLE := spark or acceptance
# Where they stand (tests/test_makefile.py): to collect all the others too took half a minute.
WHOLE_IN := tests/acceptance tests/local tests/pipeline
# Spark fails a query whose Python worker has not started within ten seconds (docs/decisions/0045): of nothing else a test is run again.
GROUPED := -n 2 --dist loadgroup --reruns 2 --only-rerun "Python worker failed to connect back"
# A module's tests stay together, which share what it starts; who has none left takes from another.
# Three on two processors: much of a test is waiting for servers.
SHARED := -n 3 --dist worksteal

.PHONY: help setup lock audit-dependencies run serve test test-fast soak kills chromium lint types imports format bench \
	bench-engine bench-http bench-archive bench-console bench-browser bench-live bench-pipeline docs screenshots clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | \
		while IFS="$$(printf '\t')" read -r name text; do printf '  %-18s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## Install everything into .venv (again only when the lock has changed)

$(STAMP): requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 is needed and was not found (set PYTHON to it)."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv module: install it (Debian: apt-get install python3-venv)."; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/uv --version 2>/dev/null | grep -q '^uv $(UV_VERSION)' || \
		$(PY) -m pip install -qq --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(VENV)/bin/uv pip sync --quiet --require-hashes requirements.lock
	@echo "$(CURDIR)" > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/txnconsole.pth"
	@printf '#!/bin/sh\nexec "%s/$(PY)" -m txnconsole.txnctl "$$@"\n' \
		"$(CURDIR)" > $(VENV)/bin/txnctl && chmod +x $(VENV)/bin/txnctl
	@touch $(STAMP)

lock: $(STAMP) ## Resolve the dependencies of pyproject.toml anew
	@$(VENV)/bin/uv pip compile --quiet --upgrade --generate-hashes --no-annotate --no-header \
		--universal --group dev pyproject.toml -o requirements.lock

audit-dependencies: setup ## Compare what is installed with the lock, and the lock with known vulnerabilities (osv.dev)
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(VENV)/bin/uv pip sync --dry-run --require-hashes requirements.lock 2>&1 | \
		grep -q 'no changes' || { echo "Something else is installed than is locked: run make setup."; exit 1; }
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(VENV)/bin/uv pip check --quiet
	@$(VENV)/bin/uv tool run --quiet --from pip-audit==$(PIP_AUDIT_VERSION) pip-audit --progress-spinner off \
		--vulnerability-service osv --disable-pip --require-hashes -r requirements.lock || { \
		echo "Above: what is vulnerable, or that osv.dev could not be asked (docs/operations.md)."; exit 1; }

run: setup ## Run the console with its demo on http://127.0.0.1:$PORT (8000), data in $TXNCONSOLE_DATA (.data)
	@exec $(PY) -m txnconsole.local run

serve: setup ## Run the console without the demo
	@exec $(PY) -m txnconsole.local serve

test: setup chromium lint types imports ## Run all checks and all tests
	@$(PY) -m pytest -q $(SHARED) -m "not ($(WHOLE))"; others=$$?; \
	$(PY) -m pytest -q $(GROUPED) -m "$(WHOLE)" $(WHOLE_IN) && exit $$others

test-fast: setup ## Run the tests that start no program, fill no large table and do not look at very many cases or wait for seconds, but tests/pipeline
	@exec $(PY) -m pytest -q $(SHARED) -m "$(FAST)" --ignore=tests/pipeline

# Browser tests drive Debian's Chromium, best its headless shell. Outside CI they are skipped where it cannot be installed.
chromium:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=; elif sudo -n true 2>/dev/null; then as="sudo -n"; \
	else echo "Chromium is missing and only root may install it: browser tests are skipped."; \
		test "$$CI" != true; exit; fi; \
	echo "Installing Chromium for the browser tests…"; \
	install="$$as env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends"; \
	{ $$as apt-get update -qq && { $$install chromium-headless-shell || $$install chromium; }; } >/dev/null || \
	{ echo "Chromium could not be installed: browser tests are skipped."; test "$$CI" != true; }

lint: setup ## Check style with ruff
	@$(VENV)/bin/ruff check --quiet . && $(VENV)/bin/ruff format --quiet --check .

types: setup ## Check types with mypy
	@$(VENV)/bin/mypy --no-error-summary

imports: setup ## Check the layers with import-linter
	@$(VENV)/bin/lint-imports --no-logo >$(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }

format: setup ## Format the code
	@$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .

soak: setup ## Run clients and faults for MINUTES (10), and check every answer
	@$(PY) -m tests.checker.soak $(or $(MINUTES),10) $(SEED)

kills: setup ## Kill PostgreSQL KILLS (200) times under load; what is rebuilt is what the log says
	@TXNCONSOLE_KILLS=$(or $(KILLS),200) $(PY) -m pytest -q $(SHARED) -rA -o faulthandler_timeout=0 tests/engine/crash/test_kill.py

bench: bench-engine bench-http bench-archive bench-console bench-browser bench-live bench-pipeline ## Run all benchmarks (minutes)

bench-engine: setup ## The engine beside pgmq, INSERT and COPY
	@$(PY) -m benchmarks.engine

bench-http: setup ## The programs' side over HTTP beside bare views
	@$(PY) -m benchmarks.http

bench-archive: setup ## The archive of ended transactions at 10^6 of each kind
	@$(PY) -m benchmarks.archive

bench-console: setup ## Each page of the console over 10^6 transactions and 10^4 partitions
	@$(PY) -m benchmarks.console

bench-browser: setup chromium ## The same pages in Chromium: first paint, long tasks, bytes, layout shift
	@$(PY) -m benchmarks.console --browser

bench-live: setup chromium ## Open pages while the demo runs: long tasks, main thread, frames; 400 streams
	@$(PY) -m benchmarks.live

bench-pipeline: setup ## Spark beside COPY out of PostgreSQL and the engine's own produce
	@$(PY) -m benchmarks.pipeline

docs: setup screenshots ## Write the REST contract to build/openapi.json, take the screenshots anew
	@mkdir -p build
	@SECRET_KEY=documentation-only $(PY) manage.py spectacular --format openapi-json --file build/openapi.json

screenshots: setup ## Take the documentation's screenshots from a product of its own with the demo
	@$(PY) -m docs.screenshots

clean: ## Remove what can be made again; data (.data) and .venv stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage build *.egg-info
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
