# Two commands: `make repro` runs the pipeline, `make test` checks the project. Both may be repeated.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Git, where there is one, keeps the history; an unpacked archive has none and DVC must be told.
NO_SCM := $(if $(shell git rev-parse --is-inside-work-tree 2>/dev/null),false,true)

.PHONY: install repro test faults lint clean
.DELETE_ON_ERROR:

repro: install
	@$(BIN)/python -m stages._links
	@$(BIN)/pfl check
	@PATH="$(CURDIR)/$(BIN):$$PATH" dvc repro
	@$(BIN)/pfl results

test: install lint
	@OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

faults: install
	@$(BIN)/python -m tests.faults.kills
	@$(BIN)/python -m tests.faults.corruption

lint: install
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

install: $(INSTALLED)
	@$(BIN)/dvc config --local core.no_scm $(NO_SCM)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"Python 3.11 or newer is needed, $(PYTHON) is {v[0]}.{v[1]}: run make PYTHON=python3.11.")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv .scratch .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
