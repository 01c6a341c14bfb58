# `make test`, then `make versions`, is what CI runs. Needs Python 3.11 to 3.13 and PyPI, nothing else.
PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
UV := $(BIN)/uv pip install --quiet --quiet --python $(BIN)/python

# Nothing is installed with its bytecode; whatever process comes first leaves it here for the others.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/bytecode

.PHONY: test fast coverage versions thorough lint docs gallery demo bench clean
.NOTPARALLEL:
.SILENT:

test: $(VENV)/.installed-test
	$(BIN)/pytest -q -n $(JOBS)

fast: $(VENV)/.installed-test
	$(BIN)/pytest -q -n $(JOBS) -m "not slow"

# The tests as `make test` runs them, and the share of the statements in each folder of src/fubini that they run.
coverage: $(VENV)/.installed-test
	$(BIN)/pytest -q -n $(JOBS) --cov=fubini --cov-report=json:build/coverage.json
	$(BIN)/python -m tests.coverage_by_folder build/coverage.json

# The demo, the documents and tests/smoke under each of Python 3.11 to 3.13 that is found (on PATH, or kept by pyenv), with
# the oldest JAX, NumPyro and ArviZ that pyproject.toml admits under the first, and the newest under the others.
versions: $(VENV)/.created
	$(BIN)/python tests/versions.py --folder $(VENV)/versions --jobs $(JOBS)

# Random models against enumeration and quadrature; not in CI. COUNT cases of each kind, at most MINUTES (0: no limit).
COUNT ?= 200
MUTATIONS ?= 10000
SIMULATIONS ?= 100
MINUTES ?= 0
SEED ?= 0
thorough: $(VENV)/.installed-test
	$(BIN)/python -m tests.thorough --count $(COUNT) --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS)
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -q -n $(JOBS) tests/laws/test_random_representations.py
	$(BIN)/python -m benchmarks.calibration --simulations $(SIMULATIONS) --seed $(SEED)
	EVERY_DOOR=1 $(BIN)/pytest -q -n $(JOBS) tests/catalogue tests/test_conjugacy.py
	EVERY_CASE=1 $(BIN)/pytest -q -n $(JOBS) -m one_in
	$(BIN)/python tests/versions.py --folder $(VENV)/versions --jobs $(JOBS) --every
	$(BIN)/python -m tests.thorough.mutations --count $(MUTATIONS) --seed $(SEED)

lint: $(VENV)/.installed-test
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# The documentation, in build/site; a warning is an error.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict --quiet

# The pages, pictures and notebooks of docs/gallery, each model run in full; those that need data want FUBINI_DATA.
gallery: $(VENV)/.installed-plot
	$(BIN)/python -m gallery

demo: $(VENV)/.installed
	$(BIN)/fubini demo

# The peers, for the programs under benchmarks/.
bench: $(VENV)/.installed-bench

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	echo "creating $(VENV)"
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install uv
	touch $@

# One stamp per set of dependencies, renewed when pyproject.toml changes. uv is quick, but does not read the settings of
# pip: where the packages come from a mirror that only pip knows, pip installs them.
$(VENV)/.installed: pyproject.toml $(VENV)/.created
	echo "installing fubini"
	$(UV) --editable . || $(PIP) install --no-compile --editable .
	touch $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	echo "installing fubini[$*]"
	$(UV) --editable ".[$*]" || $(PIP) install --no-compile --editable ".[$*]"
	touch $@
