# Thin names for the plain commands of the README and CONTRIBUTING; nothing else.
PYTHON ?= .venv/bin/python

.PHONY: run test check bench

run:
	$(PYTHON) -m app

test:
	$(PYTHON) -m pytest

check:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

bench:
	$(PYTHON) -m bench
