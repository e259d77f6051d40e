# Thin names for the commands of CONTRIBUTING; nothing else.
PYTHON ?= .venv/bin/python

LOCK = pip-compile --generate-hashes --strip-extras --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
EXTRAS = --extra bedrock --extra vertex --extra redis --extra prices --extra records --extra postgresql --extra otel

.PHONY: run quick test check bench lock

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

lock:
	$(LOCK) $(EXTRAS) -o requirements-all.lock pyproject.toml
	$(LOCK) --constraint requirements-all.lock -o requirements.lock pyproject.toml
	$(LOCK) --extra test --extra dev --extra fuzz $(EXTRAS) -o requirements-dev.lock pyproject.toml
	$(LOCK) -o .github/build.lock .github/build.in
