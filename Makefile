# `make` alone lists the targets. Settings, given after the target:
#   PYTHON=python3.12   the interpreter to make the environment with
#   VENV=.venv-3.12     where the environment is
#   CLEAN=1             build the book from nothing, executed notebooks included
#   TESTS=tests/x.py    the tests to run

VENV ?= .venv
PYTHON ?=
TESTS ?=
CLEAN ?=
python := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help venv images test book check serve bench clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

venv:  ## make or update the virtual environment (the others do so by themselves)
	@VENV='$(VENV)' PYTHON='$(PYTHON)' sh tools/make_venv.sh

images: venv  ## install what reads the image data sets the first time
	$(python) -m pip install --quiet -r requirements-images.txt -c constraints/python$$($(python) -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt

test: venv  ## run the tests
	$(python) -m pytest $(TESTS)

book: venv  ## execute the notebooks and build the book; prints where it is
	@$(python) tools/build_book.py $(if $(CLEAN),--clean)

check: venv  ## look over the built book for missing pages, figures and links
	@$(python) tools/check_book.py

serve: book  ## build the book and show it at http://localhost:8000
	cd _build/html && '$(abspath $(python))' -m http.server 8000

bench: venv  ## measure speed and memory
	$(python) -m benchmarks

clean:  ## remove the built book, the executed notebooks and the caches
	rm -rf _build .cache .pytest_cache .hypothesis build

distclean: clean  ## remove the virtual environment too
	rm -rf '$(VENV)'
