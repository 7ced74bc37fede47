# Two commands are enough on a fresh machine with Python 3.11 or later: `make demo` and `make test`.
# Each target first makes its own private .venv; that chatter goes to stderr, so that stdout carries only answers.

PYTHON ?= python3
ONLY ?=
ARGS ?=
TEST ?=
N ?= 100
LOAD ?= 8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Where it is set, each of the many processes that tests start would compile the whole library anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo dashboard test flaky browser check fmt contracts bite planted proof orders chaos soak nightly bench pictures docs site clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Run the story that shows everything working together
	@$(BIN)/ferryman demo $(ARGS)

dashboard: $(READY) ## Show what the demo left in the dashboard, until Ctrl-C
	@$(BIN)/ferryman dev --demo $(ARGS)

# Two tests at once for each core: many wait for a lease, a clock or a process.
test: browser ## Run the whole test suite (ARGS="-k lease" narrows it)
	@$(BIN)/python -m pytest -q -n "$$($(BIN)/python -c 'import os; print(2 * (os.cpu_count() or 2))')" $(ARGS)

flaky: $(READY) ## Run a test many times beside busy loops (TEST=tests/crash/test_turns.py N=100 LOAD=8)
	@$(BIN)/python -m tools.flaky -n $(N) --load $(LOAD) $(ARGS) '$(TEST)'

browser: $(READY) ## Look for a browser for the tests of pages, and get one if there is none
	@$(BIN)/python -m tools.browser

# Types take as long as all else together, so they are checked beside it.
check: $(READY) ## Check format, lint, types, layers and generated pages (what CI runs)
	@set -e; $(BIN)/mypy & types=$$!; trap "kill $$types 2>/dev/null || true" EXIT; \
	$(BIN)/ruff format --check --quiet .; \
	$(BIN)/ruff check --quiet .; \
	$(BIN)/lint-imports --no-cache --no-logo; \
	$(BIN)/squawk src/ferryman/migrations/*.sql; \
	$(BIN)/python tools/contracts.py --check; \
	$(BIN)/python -m tools.pages --check; \
	wait $$types

fmt: $(READY) ## Format the code and mend what can be mended
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

contracts: $(READY) ## List the rules and the tests that prove them (ONLY=K,T: just the ids that no test proves)
	@$(BIN)/python tools/contracts.py $(if $(ONLY),--only $(ONLY)) $(ARGS)

bite: $(READY) ## Delete each guard of each SQL statement; the suite must notice
	@$(BIN)/python tools/bite.py $(ARGS)

planted: $(READY) ## Put known bugs in, one at a time; the tests that each names must fail
	@$(BIN)/python -m tools.planted $(ARGS)

proof: $(READY) ## What takes longer than a test may: a full disk, a standby, a pooler, versions side by side
	@$(BIN)/python -m pytest -q tests/proof $(ARGS)

orders: $(READY) ## Every pair of moves in all orders of their statements; tells how many
	@ALL_ORDERS=1 $(BIN)/python -m pytest -q -n "$$($(BIN)/python -c 'import os; print(os.cpu_count() or 2)')" --timeout=1800 tests/property $(ARGS)

chaos: $(READY) ## Everything at once, while the world breaks (ARGS="--seed 7 --minutes 3")
	@$(BIN)/python -m chaos $(ARGS)

soak: $(READY) ## An hour at half the pace with mild faults: nothing may grow (ARGS="--minutes 2")
	@$(BIN)/python -m chaos --soak --minutes 60 $(ARGS)

nightly: ## All of these one after another, and what became of each (ARGS=--soak: with the hour)
	@.ci/nightly $(ARGS)

bench: $(READY) ## Measure everything beside the peers into docs/performance.md: an hour and a half (ARGS=--quick: minutes, no page)
	@$(BIN)/python -m bench.run $(or $(ARGS),--all --write-docs)

pictures: $(READY) ## Take the pictures of the dashboard in docs/ anew
	@$(BIN)/python -m tools.pictures $(ARGS)

docs: $(READY) ## Write the generated pages of docs/ anew
	@$(BIN)/python -m tools.pages

site: $(READY) ## Make a site of the documentation, in site/
	@$(BIN)/python -m tools.site $(ARGS)

clean: ## Remove what was made here
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site
	@find src tests tools chaos -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Ferryman needs Python 3.11 or later, and '$(PYTHON)' is not. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Setting up $(VENV) (once, about a minute) ..." >&2
	@if command -v uv >/dev/null 2>&1; then \
	    { uv venv --quiet --allow-existing --python "$(PYTHON)" $(VENV) && uv pip install --quiet --python $(BIN)/python -e '.[dev]'; } >&2; \
	else \
	    { "$(PYTHON)" -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; } >&2; \
	fi
	@touch $@
