# Every target sets up what it needs, in a virtual environment of its own: with uv where it is
# present, else with venv and pip. PYTHON names the interpreter to use, VENV the folder.

VENV ?= .venv
RUN := $(VENV)/bin/python

# An interpreter counts only if it runs (a pyenv shim may not) and can do all that muster needs.
USABLE = import ensurepip, sqlite3, sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14,\
	$(shell $(name) -c '$(USABLE)' >/dev/null 2>&1 && echo $(name))))

# The tests start the command some two hundred times: without bytecode each start compiles it all again.
unexport PYTHONDONTWRITEBYTECODE

# What property tests draw their examples from in `make soak`.
SEED := $(if $(SEED),$(SEED),$(shell date +%s))

.PHONY: help demo test test-e2e check bench bench-e2e soak control-plane cluster docs clean

help:  ## say what there is to make
	@awk -F ':.*  ## ' '/^[a-z0-9-]+:.*  ## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.installed  ## schedule a real cluster's pod mix, replay it, explain it
	@$(VENV)/bin/muster demo --force

test: $(VENV)/.developer  ## run the tests, three at a time
	$(RUN) -m pytest -q -n 3 --dist worksteal

control-plane: $(VENV)/.developer  ## build a real control plane for the tests (needs Go; minutes the first time)
	$(RUN) -m tests.control_plane.build
	$(RUN) -m tests.programs.build

cluster: $(VENV)/.developer  ## start a real control plane with two nodes, to try things on; Ctrl-C ends it
	@$(RUN) -m tests.control_plane

test-e2e: $(VENV)/.developer  ## run the tests against a real API server, built or as MUSTER_TEST_KUBECONFIG says
	$(RUN) -m pytest -q -m "apiserver and not soak"

check: $(VENV)/.developer  ## style, types, import rules, documents, packaging
	$(VENV)/bin/ruff check --quiet
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy --no-error-summary
	$(VENV)/bin/lint-imports --no-logo
	$(RUN) -m pytest -q tests/test_house.py tests/test_documents.py \
		tests/test_packaging.py tests/deploy -m "not apiserver and not soak"

bench: $(VENV)/.developer  ## measure, print a table, write bench.json
	$(RUN) -m benchmarks

bench-e2e: control-plane  ## measure against kube-scheduler and a bare client on a real API server
	$(RUN) -m benchmarks.end_to_end

soak: $(VENV)/.developer  ## run the tests that take long, and property tests on other examples (SEED=... for the same again)
	$(RUN) -m pytest -q -m soak
	@echo "Property tests on other examples: SEED=$(SEED)"
	$(RUN) -m pytest -q --hypothesis-profile=other-examples --hypothesis-seed=$(SEED) -k "not misses and not mutation" \
		tests/events tests/projections tests/scheduling tests/features tests/simulator tests/properties

docs: $(VENV)/.developer  ## make the pages that are made from the code
	PYTHONPATH=. $(RUN) docs/generate.py
	PYTHONPATH=. $(RUN) deploy/generate.py

clean:  ## remove the environment, caches and what the targets left
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f demo.db demo.db-* demo.db.lock bench.json bench-e2e.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The command alone, which is all that a user needs.
$(VENV)/.installed: pyproject.toml
	@python='$(PYTHON)'; \
	if command -v uv >/dev/null 2>&1; then \
		echo "Setting up $(VENV) with uv"; \
		test -x $(RUN) || uv venv --quiet --python "$${python:->=3.11}" $(VENV); \
		uv pip install --quiet --python $(RUN) --editable .; \
	elif [ -n "$$python" ]; then \
		echo "Setting up $(VENV) with $$python (this takes a minute)"; \
		test -x $(RUN) || "$$python" -m venv $(VENV) && \
		$(RUN) -m ensurepip >/dev/null && \
		$(RUN) -m pip install --quiet --upgrade 'pip>=25.1' && \
		$(RUN) -m pip install --quiet --editable .; \
	else \
		echo "muster needs Python 3.11 or newer with venv; name one with PYTHON=..." >&2; exit 1; \
	fi
	@touch $@

# And what its developers need beside it.
$(VENV)/.developer: $(VENV)/.installed
	@echo "Adding the development tools to $(VENV)"
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(RUN) --group dev; \
	else \
		$(RUN) -m ensurepip >/dev/null && $(RUN) -m pip install --quiet --group dev; \
	fi
	@touch $@
