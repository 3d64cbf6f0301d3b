# Needs Python 3.10 or newer, pip and make. Override with e.g. `make PYTHON=python3.12 test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs site clean

demo: .venv/.stamp-core  ## Lint the examples, which contain bugs on purpose.
	$(BIN)/streamlint check --exit-zero examples

test: .venv/.stamp-test  ## Everything that CI checks.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal  # a process for each core

docs: .venv/.stamp-core  ## Rewrite docs/rules and docs/models.md from the rules and the tables.
	$(BIN)/python -m streamlint.docs

site: .venv/.stamp-docs  ## Build the documentation as a site, in build/site; a broken link fails.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build  # not --quiet: what is not shown is not counted, and does not fail

clean:
	rm -rf .venv

# A Python without ensurepip (Debian's without python3-venv) still has a pip that installs into another environment.
.venv/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "streamlint needs Python 3.10 or newer; try make PYTHON=...")'
	@$(PYTHON) -m venv .venv || { $(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@touch $@

.venv/.stamp-core: .venv/.stamp-venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.stamp-test: .venv/.stamp-venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ .venv/.stamp-core

.venv/.stamp-docs: .venv/.stamp-venv pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@
