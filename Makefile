# Short commands for contributors. `make` lists them.
.PHONY: help setup test fast lint types docs dist clean

help:  ## list the commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

.venv/ready: pyproject.toml constraints.txt
	python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e '.[all,test,check,docs]'
	@touch $@

setup: .venv/ready  ## make .venv with everything

test: setup  ## all tests, four to eight minutes on two cores
	.venv/bin/python -m pytest -n auto --dist loadfile

fast: setup  ## the tests that are not statistical
	.venv/bin/python -m pytest -n auto --dist loadfile -m 'not slow'

lint: setup  ## style, and numbers on pages
	.venv/bin/ruff check src tests benchmarks docs examples
	.venv/bin/ruff format --check src tests benchmarks docs examples
	.venv/bin/python docs/publish.py --check

types: setup  ## types
	.venv/bin/mypy

docs: setup  ## the site, in site/
	.venv/bin/mkdocs build --strict --quiet

dist: setup  ## wheel and source distribution, in dist/
	.venv/bin/python -m build --outdir dist

clean:  ## remove what these commands made
	rm -rf .venv site dist
