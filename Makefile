# Everything a developer runs. Needs make and a Python 3.11 to 3.13 with pip and venv; the rest goes into .venv.

PYTHON ?= python3
BIN    := .venv/bin
TORCH  := 2.13.0
# The service, and the library on which it stands.
PROJECTS := pyproject.toml tracehouse/pyproject.toml
# Suites that start whole services or containers; `make test` leaves them out.
SLOW   := tests/acceptance tests/containers
# What another release of torch could break, and where it is tested: each release has an environment of its own.
ABOUT_TORCH := tests/tracehouse tests/workers tests/service/serving tests/service/sandbox/test_torch.py
OTHER       := .venv-torch-$(TORCH)-$(notdir $(PYTHON))

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-all test-torch check docs fix openapi proto lock bench quality image clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.service ## Make .venv with the tracehouse command, from the lock

demo: .venv/.models ## Trace and serve three well-known models, and leave the service serving
	$(BIN)/python examples/demo.py

serve: .venv/.service ## Run the service on http://127.0.0.1:8000
	$(BIN)/tracehouse serve

# A file at a time: what the tests of a file share is made once. On two processors a third process fills the waits.
test: .venv/.dev ## Run the tests that need nothing but this machine's Python
	$(BIN)/pytest -q -m 'not slow' --numprocesses 3 --max-worker-restart 0 --dist loadfile $(SLOW:%=--ignore=%)

test-all: .venv/.dev ## Run all tests, the slow ones too
	$(BIN)/pytest -q

test-torch: $(OTHER)/.dev ## Run the tests about torch with another release: TORCH=2.7
	$(OTHER)/bin/pytest -q -m 'not slow' $(ABOUT_TORCH)

check: .venv/.dev ## Check format, lint, types, floors, and that the migrations make the tables
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m migrations.check

docs: .venv/.dev ## Build the documentation into build/docs; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

fix: .venv/.dev ## Format, and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: .venv/.dev ## Write tests/service/api/openapi.json, the reviewed API document, anew
	$(BIN)/python -m tests.service.api.test_openapi

proto: .venv/.dev ## Write the code of the gRPC messages, service/api/grpc/open_inference_pb2.py, anew
	$(BIN)/python -m tests.service.api.open_inference

bench: .venv/.models ## Measure trace latency beside plain torch, and what the sandbox costs
	$(BIN)/python benchmarks/trace_latency.py
	$(BIN)/python benchmarks/sandbox.py

quality: .venv/.models ## Measure the check on the corpus at 15 s and at 120 s, beside torch's own and torch.export, and on real models
	$(BIN)/python benchmarks/check_quality.py --jobs 2
	$(BIN)/python benchmarks/real_models.py

image: ## Build the container image tracehouse
	docker build --tag tracehouse .

# torch stays at the release that the tests know. Its pins on CUDA packages are left out, because which build of it is
# installed, and with which of them, is the installing machine's choice.
lock: .venv/.dev ## Resolve requirements.lock anew
	echo torch==$(TORCH) > .venv/torch.txt
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir .venv/library ./tracehouse
	$(BIN)/pip-compile --quiet --upgrade --all-extras --strip-extras --find-links=.venv/library \
		--allow-unsafe --annotation-style=line --no-header --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --constraint=.venv/torch.txt --output-file=.venv/resolved.txt pyproject.toml
	echo '# Every package of the service and of its extras, at the version it is tested with. Made by `make lock`.' > requirements.lock
	sed -E '/^(nvidia|cuda|triton=|pip=|tracehouse=|#|$$)/d; s/\+[a-z0-9]+//; s/ -c [^ ,]*torch.txt,//; s/ \(pyproject.toml\)//' \
		.venv/resolved.txt | LC_ALL=C sort >> requirements.lock

clean: ## Remove every environment and cache
	rm -rf .venv .venv-torch-* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/bin/python $(OTHER)/bin/python:
	$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("Python 3.11 to 3.13, please: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(@:/bin/python=) >/dev/null || { $(PYTHON) -m venv --clear --without-pip $(@:/bin/python=) && \
		$(PYTHON) -m pip --python $(@:/bin/python=) install --quiet pip; }

# Written once the packages are in, so that a second run is instant. Of what pip takes for that, two thirds are spent on
# compiling one file after another: compileall does it on all processors. It fails where a package has files that are no
# Python of this release, as templates are. The service's own files are compiled too, for what a sandboxed process imports
# it could not keep, and compile anew at each start. Whatever else is asked for, the service is in too.
.venv/.service: extra :=
.venv/.dev:     extra := [dev]
.venv/.models:  extra := [models]
.venv/.service .venv/.dev .venv/.models: $(PROJECTS) requirements.lock | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint requirements.lock \
		--editable './tracehouse[check]' --editable '.$(extra)'
	$(BIN)/python -m compileall -qq -j 0 .venv/lib tracehouse service workers migrations || true
	touch .venv/.service $@

# The lock but for torch, of which pip takes the build that it finds: on Linux that is one with gigabytes of CUDA, unless
# pip's settings, such as PIP_INDEX_URL or PIP_FIND_LINKS, name a place that has it for the CPU.
$(OTHER)/.dev: $(PROJECTS) requirements.lock | $(OTHER)/bin/python
	grep -v '^torch' requirements.lock > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(@D)/constraints.txt \
		--editable './tracehouse[check]' --editable '.[dev]' 'torch==$(TORCH).*'
	touch $@
