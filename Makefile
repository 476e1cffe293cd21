# VoiceVeil: everything below sets itself up in .venv, from the pinned versions in constraints.txt and the hashes of their
# files in requirements/ (scripts/hashes.py writes them).
PIP = .venv/bin/pip install --quiet --disable-pip-version-check
HASHED = $(PIP) --require-hashes --no-deps --requirement
PINNED = $(PIP) --constraint constraints.txt --no-build-isolation

.PHONY: demo samples test quick torture lint docs bench wheel clean
.DEFAULT_GOAL := demo

demo: .venv/demo.done  ## veil against b2 on real speech, to a report
	.venv/bin/voiceveil demo demo --overwrite

samples: .venv/demo.done  ## the before-and-after recordings of README.md
	.venv/bin/python scripts/samples.py

test: .venv/dev.done  ## all tests
	.venv/bin/pytest --numprocesses 2

quick: .venv/dev.done  ## the tests that need no torch, browser, cluster or database, in less than a minute
	.venv/bin/pytest --quick --numprocesses 2 -r fE

torture: .venv/dev.done  ## the long form of tests/faults: 400 kills, many full disks, much hostile data
	VOICEVEIL_TORTURE=1 .venv/bin/pytest --timeout 7200 tests/faults

lint: .venv/dev.done  ## what must be clean before a commit
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

docs: .venv/dev.done  ## the documentation in site/; a broken link or a page outside of the menu is an error
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict

bench: .venv/dev.done  ## speed, as ratios against plain implementations in the same run
	.venv/bin/python benchmarks/b2.py
	.venv/bin/python benchmarks/metrics.py

wheel: .venv/dev.done  ## the wheel of this commit in dist/, the same bytes whoever builds it
	scripts/wheel.sh dist

clean:
	rm -rf .venv demo build dist site

.venv/bin/python: scripts/venv.sh
	scripts/venv.sh
	touch $@

# torch has no hash, as its build depends on the machine; the second command brings it, checks that nothing is missing, and
# names it beside the packages that need it, so that one resolution picks its pinned version.
.venv/demo.done: .venv/bin/python pyproject.toml constraints.txt requirements/demo.txt
	$(HASHED) requirements/demo.txt
	$(PINNED) torch==2.13.0 --editable '.[demo]'
	touch $@

.venv/dev.done: .venv/bin/python pyproject.toml constraints.txt requirements/dev.txt
	$(HASHED) requirements/dev.txt
	$(PINNED) torch==2.13.0 --editable '.[dev]'
	touch $@
