# Everything a contributor does, one target each. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# -- what the other targets need ----------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ragstore needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/run.txt pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) --require-hashes -r requirements/run.txt
	$(PIP_INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/run.stamp clients/python/pyproject.toml
	$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	$(PIP_INSTALL) --no-build-isolation --no-deps -e clients/python
	@touch $@

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@

.PHONY: lock
lock: ## pin every dependency again, with hashes (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
		pyproject.toml --group build -o requirements/run.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
		pyproject.toml clients/python/pyproject.toml --extra langgraph --group dev -c requirements/run.txt -o requirements/dev.txt

# -- use ----------------------------------------------------------------------------------------

.PHONY: run
run: $(VENV)/run.stamp ## serve on 127.0.0.1:8080 with embedded Chroma under ./data
	$(BIN)/ragstore serve

.PHONY: demo
demo: $(VENV)/dev.stamp ## ingest the example handbook into a running service and ask it questions
	$(BIN)/python examples/demo.py

# -- work on it ---------------------------------------------------------------------------------

.PHONY: test
test: $(VENV)/dev.stamp ## run every test
	$(BIN)/pytest $(TESTS)

.PHONY: fuzz
fuzz: $(VENV)/dev.stamp ## run schemathesis over both stores: make fuzz FUZZ="--seconds 600 --store remote"
	$(BIN)/python tests/fuzz/campaign.py $(FUZZ)

.PHONY: openapi
openapi: $(VENV)/run.stamp ## write openapi/openapi.json anew
	$(BIN)/ragstore openapi > openapi/openapi.json

.PHONY: format
format: $(VENV)/dev.stamp ## bring the code into form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: check
check: $(VENV)/dev.stamp node_modules/.package-lock.json ## formatting, lint, types, imports, the OpenAPI document
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/ragstore openapi | diff -u openapi/openapi.json - || { echo "openapi/openapi.json is out of date: make openapi"; exit 1; }
	REDOCLY_TELEMETRY=off npx --no-install redocly lint openapi/openapi.json

.PHONY: clean
clean: ## remove what the other targets made; ./data stays
	rm -rf $(VENV) node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis
