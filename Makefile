PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo setup check test coverage docs notebooks tour site app
demo: setup ; $(BIN)/frostbench demo
app: setup ; $(BIN)/frostbench app
setup: .venv/.done
check: setup ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
test: setup ; OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadgroup
coverage: setup ; OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadgroup --cov --cov-report=term --cov-report=html
docs: setup ; $(BIN)/frostbench options --markdown > docs/options.md
notebooks: setup ; $(BIN)/python tests/shared/notebooks.py
tour: setup ; $(BIN)/python tests/shared/tour.py
site: setup ; NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
.venv/.done: pyproject.toml
	$(PYTHON) -m venv .venv && $(BIN)/pip install -q -U pip && $(BIN)/pip install -q -e '.[dev,docs,export,offline,demo,datasets,superpixels,ray]' && touch $@
