PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo setup check test docs app
demo: setup ; $(BIN)/frostbench demo
app: setup ; $(BIN)/frostbench app
setup: .venv/.done
check: setup ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
test: setup ; OMP_NUM_THREADS=1 $(BIN)/pytest -n auto
docs: setup ; $(BIN)/frostbench options --markdown > docs/options.md
.venv/.done: pyproject.toml
	$(PYTHON) -m venv .venv && $(BIN)/pip install -q -U pip && $(BIN)/pip install -q -e '.[dev,export,offline,demo,datasets,superpixels,ray]' && touch $@
