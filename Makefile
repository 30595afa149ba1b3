# Every target makes its own virtual environment first, so `make test` works in a fresh clone.
#   make reproduce [ARGS=…]   the paper's experiments and the report, e.g. make reproduce ARGS='--only width'
#   make test [ARGS=…]        the tests, e.g. make test ARGS='-k minimal -x'
#   make docs                 the handbook, build/docs/index.html
#   make lint                 ruff check and format check
#   make install              only the environment, .venv
#   make clean                remove the environment and everything made by the tools
# PYTHON chooses the interpreter the environment is made with: make test PYTHON=python3.12

PYTHON ?= python3
ARGS ?=
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: reproduce test docs lint install clean
.DEFAULT_GOAL := test

reproduce: $(STAMP)
	$(VENV)/bin/mixflow reproduce $(ARGS)

test: $(STAMP)
	$(VENV)/bin/python -m pytest -n auto --dist worksteal $(ARGS)

docs: $(STAMP)
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html -d build/docs-trees docs build/docs $(ARGS)
	@echo "written: build/docs/index.html"

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

install: $(STAMP)

# The stamp is written last, so an interrupted install is done again. --clear drops packages that are no longer listed.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: '$(PYTHON)' was not found; install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: '$(PYTHON)' is $$($(PYTHON) --version 2>&1), but mixflow needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; \
	  exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@echo "installing the tested versions into $(VENV), once; this takes a minute or two"
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' -c constraints.txt
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
