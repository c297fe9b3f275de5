# `make help` lists the targets. Nothing is needed but make and Python 3.11 or newer:
# each target builds .venv and installs the extras it needs, once per change of pyproject.toml.

VENV ?= .venv
PYTHON ?=
PYTEST_WORKERS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
LOWEST := $(VENV)/lowest
CANDIDATES = $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3)
# One BLAS thread per process: the tests are parallel already.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 BLIS_NUM_THREADS=1 \
	VECLIB_MAXIMUM_THREADS=1
PYTEST := $(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m pytest -n $(PYTEST_WORKERS)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all test-lowest campaign bench reproduce docs lint format release-check clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(STAMPS)/cli ## run the demonstration; it writes into ./demo-output
	@$(BIN)/manykernels demo

test: lint ## lint, types and the quick tests: what every change must pass
	@$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: lint ## the same with the slow tests
	@$(PYTEST) --timeout=1800 $(PYTEST_ARGS)

# scikit-learn 1.6 leaves out checks of estimators where array-api-compat is installed, as it is among the lowest
# versions, and SciPy's array API is off.
test-lowest: $(STAMPS)/venv ## the quick tests with the lowest versions of all dependencies, in a place of their own
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet uv
	@$(BIN)/uv pip compile --quiet --python $(BIN)/python --resolution lowest-direct --extra all --extra test \
		--output-file $(LOWEST).txt pyproject.toml
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --requirement $(LOWEST).txt
	@$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --editable .
	@SCIPY_ARRAY_API=1 $(ONE_THREAD) MPLBACKEND=Agg $(LOWEST)/bin/python -m pytest -n $(PYTEST_WORKERS) -m "not slow" $(PYTEST_ARGS)

campaign: $(STAMPS)/test ## the campaigns of docs/reliability.md, under an hour; others with PYTEST_ARGS="--campaign-seed 1000000"
	@$(ONE_THREAD) NUMBA_NUM_THREADS=1 MPLBACKEND=Agg $(BIN)/python -m pytest tests/campaigns --tries 1 -q \
		-n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

bench: $(STAMPS)/test ## run all benchmarks; options in BENCH_ARGS="..."
	@$(ONE_THREAD) $(BIN)/python benchmarks/run_all.py $(BENCH_ARGS)

reproduce: $(STAMPS)/test ## run the papers' experiments again (docs/reproduction.md); BENCH_ARGS="--quick" in ten minutes
	@$(ONE_THREAD) $(BIN)/python benchmarks/run_all.py --papers $(BENCH_ARGS)

docs: $(STAMPS)/docs ## build the documentation, warnings being errors
	@$(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

release-check: $(STAMPS)/release ## build wheel and sdist and try them in fresh environments, newest and lowest versions
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/release_check.py

lint: $(STAMPS)/test $(STAMPS)/lint ## ruff (rules and format), import-linter (the rooms) and mypy (types)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy

format: $(STAMPS)/lint ## apply ruff's fixes and format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

clean: ## remove what the targets wrote, except .venv
	@rm -rf demo-output docs/_build docs/generated docs/gallery docs/sg_execution_times.rst \
		build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@for d in src tests benchmarks examples docs; do \
		if [ -d $$d ]; then find $$d -name __pycache__ -type d -prune -exec rm -rf {} +; fi; \
	done

distclean: clean ## remove .venv as well
	@rm -rf $(VENV)

# A virtual environment that works is kept, whoever made it.
$(STAMPS)/venv:
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		found=; \
		for p in $(CANDIDATES); do \
			if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
				found=$$p; break; \
			fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "manykernels needs Python 3.11 or newer, and none of these is one: $(CANDIDATES)." \
				"Install it, or name it: make PYTHON=/path/to/python" >&2; \
			exit 1; \
		fi; \
		echo "Creating $(VENV) with $$found"; \
		if ! $$found -m venv --clear $(VENV); then \
			echo "$$found could not create a virtual environment in $(VENV);" \
				"on Debian and Ubuntu, install the package python3-venv." >&2; \
			exit 1; \
		fi; \
	fi
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/%: pyproject.toml $(STAMPS)/venv
	@echo "Installing manykernels[$*] into $(VENV)"
	@if ! $(BIN)/python -m pip install --disable-pip-version-check --no-input \
			--editable '.[$*]' >$(STAMPS)/$*.log 2>&1; then \
		cat $(STAMPS)/$*.log >&2; \
		echo "Installing manykernels[$*] failed; pip's output is above." >&2; \
		exit 1; \
	fi
	@touch $@
