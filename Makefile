# The two commands of the README, and what they stand on. Needs Python 3.11 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-

.PHONY: run test slow long lint clean

run: $(STAMP)compress
	$(BIN)/python -m compress run recipes/quickstart.yaml

test: $(STAMP)dev
	$(BIN)/python -m pytest

slow: $(STAMP)dev
	$(BIN)/python -m pytest -m slow

long: $(STAMP)dev
	$(BIN)/python -m pytest -m long

lint: $(STAMP)dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/check.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch first and pinned, so that no resolver picks another build on the way.
$(STAMP)compress: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.14.1 torchvision==0.29.1
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compress]'
	touch $@

$(STAMP)dev: $(STAMP)compress
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .edgepress runs
