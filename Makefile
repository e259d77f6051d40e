# Thin names for the plain commands of the README and CONTRIBUTING; nothing else.
PYTHON ?= .venv/bin/python

.PHONY: run quick test check bench

run:
	$(PYTHON) -m app

quick:
	$(PYTHON) -m pytest -q -m pure

test:
	$(PYTHON) -m pytest -q -n auto

check:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

bench:
	$(PYTHON) -m bench
