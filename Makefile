# `make` alone lists the targets. Settings, given after the target:
#   PYTHON=python3.12   the interpreter to make the environment with
#   VENV=.venv-3.12     where the environment is
#   CLEAN=1             build the book from nothing, executed pages included
#   TESTS=tests/layers  the tests to run
#   ALL=1               run the slow tests too
#   QUICK=1             verify one record of each kind only, in a minute; read ten models only
#   JOBS=2              so many pages, files of tests or records at a time (as many as there are cores)
#   RUNS=mine.yaml      the runs to reproduce, in the form of workflow/runs.yaml

VENV ?= .venv
PYTHON ?=
TESTS ?=
ALL ?=
COVERAGE ?=
PAGES ?=
CLEAN ?=
JOBS ?=
RUNS ?= workflow/runs.yaml
# Programs are compiled once, for any processor with AVX2. XLA of JAX 0.9 compiles sooner with its older emitters.
old := --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1
XLA_FLAGS ?= $(if $(filter x86_64,$(shell uname -m)),--xla_cpu_max_isa=AVX2) $(if $(wildcard $(VENV)/lib/python3.11),$(old))
JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/compiled
export XLA_FLAGS JAX_COMPILATION_CACHE_DIR
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
unexport PYTHONDONTWRITEBYTECODE  # every kernel imports the same modules
export PYTHONWARNINGS ?= ignore:Error reading persistent compilation cache
# Without it XLA has two long lines for each program of the cache that names AVX2. What fails raises in Python all the same.
export TF_CPP_MIN_LOG_LEVEL ?= 3
coverage := 'pytest-cov>=6,<8'
python := $(VENV)/bin/python
pip = $(python) -m pip install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help venv test lint book check serve pdf verify ranges mutate processors images text read workflow reproduce smoke clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

venv:  ## make or update the virtual environment (the others do so by themselves)
	@VENV='$(VENV)' PYTHON='$(PYTHON)' sh tools/make_venv.sh

test: venv  ## run the tests but for the slow ones (ALL=1: all; COVERAGE=1: say which lines and branches none takes)
	@$(if $(COVERAGE),$(pip) $(coverage))
	$(python) -m pytest $(if $(COVERAGE),--cov=src --cov-branch --cov-report=term:skip-covered) -n $(or $(JOBS),logical --maxprocesses 8) --dist worksteal $(if $(ALL),,-m 'not slow') $(TESTS)

lint: venv  ## check style with ruff, types with mypy and pyright, and the order of imports with import-linter
	@$(python) -m ruff check . && $(python) -m ruff format --check . && $(python) -m mypy && $(VENV)/bin/lint-imports
	@$(python) -m mypy --strict --follow-imports=silent tests/caller.py && $(python) -m pyright --pythonpath $(python) tests/caller.py

book: venv  ## execute the pages that need it and build the book; prints where it is
	@$(python) tools/build_book.py $(if $(CLEAN),--clean) $(if $(JOBS),--jobs $(JOBS))

check: venv  ## look over the built book, its claims, and the pages in Chromium if there is one
	@$(python) tools/check_book.py
	@$(python) tools/browse.py

serve: book  ## build the book and show it at http://localhost:8000
	cd _build/html && '$(abspath $(python))' -m http.server 8000

pdf: book  ## print the built book as one PDF with Chromium
	@$(python) tools/print_book.py

verify: venv  ## compute a part of every record again and compare (QUICK=1: one of each kind)
	@$(python) tools/verify.py $(if $(QUICK),--quick) $(if $(JOBS),--jobs $(JOBS))

ranges: venv  ## execute pages at both ends of their parameters' ranges, and inside (an hour; PAGES=theory/action)
	@$(python) tools/try_ranges.py $(PAGES)

mutate: venv  ## change one place of the packages at a time and see whether their tests notice (an hour)
	@$(python) tools/mutate.py

processors: venv  ## run the tests as other processors would, and say which differ (hours; TESTS=tests/theory)
	@$(python) tools/processors.py $(if $(JOBS),--jobs $(JOBS)) $(TESTS)

images: venv
	@$(pip) torch==2.13.0 torchvision==0.28.0
	$(python) tools/fetch_images.py

text: venv
	@$(pip) --no-deps -r requirements-text.txt

read: venv  ## read tiny models of transformers and write results/reading.json (QUICK=1: compare ten with it)
	@$(pip) torch==2.13.0 transformers==5.24.0
	$(if $(QUICK),,$(python) tools/read_models.py)
	$(python) -m pytest tests/readers

workflow: venv
	@$(pip) 'snakemake>=9.14,<10' 'snakemake-executor-plugin-slurm>=2.0,<3'

reproduce: workflow  ## make the records that are missing (hours; first `make images` and `make text` for their data)
	$(python) -m snakemake --profile workflow/local --configfile $(RUNS)

smoke: workflow  ## run every run notebook on a small scale (minutes)
	$(python) -m snakemake --profile workflow/local --configfile workflow/smoke.yaml --cores 2

clean:  ## remove the built book, the executed notebooks and the caches
	rm -rf _build .cache .mypy_cache .pytest_cache .hypothesis .snakemake build
