# Every target builds .venv when it is missing or older than what it is built from.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check lint docs coverage slow bench fuzz lock clean

demo: $(READY)
	$(BIN)/saferank demo

# Compiled loops wait for each other without spinning: tests share the cores.
test: $(READY)
	OMP_WAIT_POLICY=passive $(BIN)/pytest -n auto --dist loadgroup

check: lint docs test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation site, in build/docs; a warning is an error. Open build/docs/index.html.
docs: $(READY)
	$(BIN)/sphinx-build -b html -q -W --keep-going docs build/docs

# Lines that the tests run, with a floor; what kernels compute is compiled and not counted.
coverage: $(READY)
	rm -rf build/coverage && mkdir -p build/coverage
	OMP_WAIT_POLICY=passive $(BIN)/coverage run -m pytest
	$(BIN)/coverage combine
	$(BIN)/coverage report

slow: $(READY)
	OMP_WAIT_POLICY=passive $(BIN)/pytest -m slow

# Ratios measured side by side in one run; `make bench TOPIC=reading` runs one topic.
bench: $(READY)
	$(BIN)/python -m benchmarks $(TOPIC)

# A million mutated inputs of everything that is read: make fuzz FUZZ="--minutes 5 --target letor".
fuzz: $(READY)
	PYTHONPATH=src:.:tests SAFERANK_THREADS=1 $(BIN)/python -m fuzz $(FUZZ)

# requirements.lock has every package but torch, with hashes; .ci/lock.py says why torch is apart.
$(READY): pyproject.toml constraints.txt requirements.lock requirements-build.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "saferank needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements-build.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --no-build-isolation -r requirements.lock
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	touch $@

# Versions and hashes again, after pyproject.toml or constraints.txt was changed by hand.
lock: $(READY)
	$(BIN)/python -m pip install --quiet uv==0.13.7
	$(BIN)/python .ci/lock.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
