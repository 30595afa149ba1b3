# Every target makes its own virtual environment first, so `make test` works in a fresh clone.
#   make reproduce [ARGS=…]   the paper's experiments and the report, e.g. make reproduce ARGS='--only width'
#   make test [ARGS=…]        the tests, e.g. make test ARGS='-k minimal -x'
#   make decisive             the part of the tests that a new Python or JAX would break first: engine, flow, certificate, sweep
#   make docs                 the handbook, build/docs/index.html
#   make firefox              the exported page in the Firefox of this machine, beside the browser of `make test`
#   make attack [ARGS=…]      an hour of hostile input, e.g. make attack ARGS='--minutes 5'
#   make mutants [ARGS=…]     break a line of the mathematics at a time: do the tests notice? make mutants ARGS='loss gates' for a part
#   make lint                 ruff check and format check, and types
#   make install              only the environment
#   make clean                remove the environments and everything made by the tools
# PYTHON chooses the interpreter, for an environment of its own beside .venv: make test PYTHON=python3.13

PYTHON ?= python3
ARGS ?=
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null))
STAMP := $(VENV)/.installed
# The tested versions for this Python; for one that has no set of its own, the default set.
CONSTRAINTS := $(or $(wildcard constraints-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null).txt),constraints.txt)
DECISIVE := tests/test_exactness.py tests/test_lanes.py tests/test_flow.py tests/test_filippov.py tests/test_guest.py \
  tests/test_flow_method.py tests/test_train.py tests/test_sweep.py tests/test_sweep_folder.py

.PHONY: reproduce test decisive firefox attack mutants docs lint install constraints clean
.DEFAULT_GOAL := test

reproduce: $(STAMP)
	$(VENV)/bin/mixflow reproduce $(ARGS)

test: $(STAMP)
	$(VENV)/bin/python -m pytest -n auto --dist worksteal $(ARGS)

decisive: $(STAMP)
	$(VENV)/bin/python -m pytest -n auto --dist worksteal $(DECISIVE) $(ARGS)

firefox: $(STAMP)
	MIXFLOW_FIREFOX=1 $(VENV)/bin/python -m pytest -n 0 tests/test_playground_firefox.py $(ARGS)

attack: $(STAMP)
	$(VENV)/bin/python tests/attack/long.py $(ARGS)

mutants: $(STAMP)
	nice -n 15 $(VENV)/bin/python tests/mutants/run.py $(ARGS)

docs: $(STAMP)
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html -d build/docs-trees docs build/docs $(ARGS)
	@echo "written: build/docs/index.html"

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

install: $(STAMP)

constraints:
	@echo $(CONSTRAINTS)

# The stamp is written last, so an interrupted install is done again. --clear drops packages that are no longer listed.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: '$(PYTHON)' was not found; install Python 3.11 to 3.13, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	  echo "make: '$(PYTHON)' is $$($(PYTHON) --version 2>&1), but mixflow needs Python 3.11 to 3.13; name one: make PYTHON=python3.12" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@echo "installing the tested versions of $(CONSTRAINTS) into $(VENV), once; this takes a minute or two"
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' -c $(CONSTRAINTS)
	@touch $@

clean:
	rm -rf .venv* build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
