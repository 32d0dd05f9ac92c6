# make demo              installs the package and runs the demo on synthetic CTs: 6 minutes on 2 cores, and 1 to 5 to install
# make demo DATA=folder  runs the demo on a folder of LiTS cases (volume-N.nii.gz, segmentation-N.nii.gz)
# make test              runs the tests that must pass before every commit: 9 minutes on 2 cores, 16 on slow ones
# make test-changed      also runs 8 minutes of slow tests: those that a change can break, then a part of the others;
#                        tests of the engine only if it changed; slow tests begin in the first 25 minutes or not at all
# make test-changed SINCE=commit  compares with a commit; default: where the branch left main, on main a day ago
# make test-all          also runs all slow tests: 80 minutes on 2 cores
# make durations         records how long slow tests take, after many were added: as long as make test-all
# make test-kill         kills commands at random moments, ten times each: 5 minutes on 2 cores
# make test-references   compares scores and files with other programs, in an environment of its own
# make audit             compares the installed packages with the known vulnerabilities, which needs the network
# make mutants           runs the fast tests on faulty versions of the code: 30 minutes on 2 cores
# make figures           measures every Dice score of the documentation, into figures/: about 9 hours on 2 cores
# make figures REAL_CT=folder  includes the scores of real CTs, 7 more hours; the folder contains train/ and test/
# make lint              runs ruff, mypy and codespell, and compares the size of the code with its ledger
# make size              prints lines of code, refusals and parameters of each folder
# make docs              builds the documentation site into site/html, without the network; a warning is an error
# make docs-serve        builds the site and serves it at http://localhost:8000
# make docs-links        checks links to other sites, which needs the network
# make dist              builds and checks the source archive and the wheel of a release, into dist/
# make bench             compares a training step under layouts with plain TensorFlow, into bench/: 5 minutes on 2 cores

# The first supported Python that is installed.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
    $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
INSTALLED := .venv/installed
INSTALLED_PACKAGE := .venv/installed-package

demo: $(INSTALLED_PACKAGE)
	.venv/bin/mtf-imaging demo --output_dir demo $(if $(DATA),--input_dir "$(DATA)")

# Three processes of up to 2 GiB each, because multi-process tests spend time waiting. PYTHONDONTWRITEBYTECODE is unset,
# so that the processes that tests start do not compile every module again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest --numprocesses 3

# Each process takes neighboring tests, which share fixtures.
test: $(INSTALLED)
	$(PYTEST) --dist worksteal -m "not slow"

# Slow tests of one file share programs and trained runs, so they run in the same process.
test-all: $(INSTALLED)
	$(PYTEST) --dist loadfile -m "not kill"

# Without SINCE, compares with the commit at which the branch left main; on main with the state a day before the last commit.
test-changed: $(INSTALLED)
	$(PYTEST) --dist loadfile -m "not kill" --changed-since "$(SINCE)" --slow-minutes 25

# The durations by which test-changed divides the slow tests.
durations: $(INSTALLED)
	$(PYTEST) --dist loadfile -m "slow and not kill" -p tests.selection.durations

test-kill: $(INSTALLED)
	$(PYTEST) --dist loadfile -m kill tests/cli/test_kill.py tests/jobs/test_kill_processes.py

mutants: $(INSTALLED)
	.venv/bin/python -m tests.mutants

test-references: .venv-references/installed
	.venv-references/bin/python -m pytest tests/references

.venv-references/installed: setup.py pyproject.toml $(wildcard tests/references/*.txt)
	$(NEEDS_PYTHON)
	$(PYTHON) -m venv .venv-references
	@echo "Installing the other programs into .venv-references: 9 GB."
	@.venv-references/bin/python -m tests.install --editable ".[test]" --requirement tests/references/requirements.txt
	@.venv-references/bin/python -m tests.install --no-deps --requirement tests/references/without_dependencies.txt
	touch $@

audit: $(INSTALLED) .venv-audit/installed
	.venv/bin/python -m tests.audit .venv-audit/bin/pip-audit

.venv-audit/installed:
	$(NEEDS_PYTHON)
	$(PYTHON) -m venv .venv-audit
	@echo "Installing pip-audit into .venv-audit."
	@.venv-audit/bin/python -m tests.install "pip-audit>=2.9,<3"
	touch $@

lint: $(INSTALLED)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/codespell mtf_imaging models layouts gin tests benchmarks docs .ci .github *.md *.py *.cff Makefile Dockerfile
	.venv/bin/python -m tests.size

size: $(INSTALLED)
	.venv/bin/python -m tests.size

bench: $(INSTALLED)
	.venv/bin/python -m benchmarks.partition --resolution 64 --contenders 1x1,2x2,4x4,nohalo:2x2 --rounds 20

SITE := site
SPHINX := .venv/bin/python -m sphinx --fail-on-warning --keep-going --fresh-env --quiet --doctree-dir $(SITE)/doctrees

docs: .venv/installed-docs
	$(SPHINX) --builder html docs $(SITE)/html
	@echo "The site is in $(SITE)/html/index.html"

docs-serve: docs
	.venv/bin/python -m http.server --bind localhost --directory $(SITE)/html 8000

docs-links: .venv/installed-docs
	$(SPHINX) --builder linkcheck docs $(SITE)/links

.venv/installed-docs: $(INSTALLED)
	@echo "Installing Sphinx into .venv."
	@.venv/bin/python -m tests.install --editable ".[docs]"
	touch $@

# TAG is the tag of a release; the files must match it.
dist: $(INSTALLED)
	.venv/bin/python -m tests.release dist $(if $(TAG),--tag "$(TAG)")

figures: $(INSTALLED)
	.venv/bin/python -m benchmarks.figures --output_dir figures $(if $(REAL_CT),--real_ct_dir "$(REAL_CT)")

NEEDS_PYTHON = $(if $(PYTHON),,$(error Python 3.11, 3.12 or 3.13 is needed. Fix: name one, for instance make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.12))

# The packages for the demo.
$(INSTALLED_PACKAGE): setup.py pyproject.toml
	$(NEEDS_PYTHON)
	@echo "Installing TensorFlow and 60 other packages into .venv: 2.5 GB, 1 to 5 minutes. The demo then takes 6 minutes."
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m tests.install --editable .
	@touch $@

# The packages for the other targets, including the programs that the tests call.
$(INSTALLED): setup.py pyproject.toml
	$(NEEDS_PYTHON)
	@echo "Installing TensorFlow and 200 other packages into .venv: 4 GB, 2 to 10 minutes."
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m tests.install --editable ".[test]"
	@touch $(INSTALLED_PACKAGE) $@

.PHONY: audit bench demo dist docs docs-links docs-serve durations figures mutants size test test-all test-changed test-kill test-references lint
