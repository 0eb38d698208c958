# Every target sets up what it needs in .venv, from a bare machine with Python >= 3.11.
PYTHON ?= python3
VENV   := .venv
PINS   := constraints.txt
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check -c $(PINS)

.PHONY: demo serve train-tiny test lowest integration portable nightly mutants lint format bench wheel release-check docs \
	clean help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Torch goes first and by its exact version: a range would fetch gigabytes of CUDA packages on a machine without a GPU.
$(VENV)/run.stamp: pyproject.toml $(PINS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $$(grep '^torch==' $(PINS))
	$(PIP) --editable .
	touch $@

$(VENV)/train.stamp: $(VENV)/run.stamp
	$(PIP) --editable '.[train]'
	touch $@

$(VENV)/serve.stamp: $(VENV)/run.stamp
	$(PIP) --editable '.[serve]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP) --editable '.[dev]'
	touch $@

demo: $(VENV)/run.stamp ## See it work: parity, speed, and a trained model on fresh clips; leaves horst-demo/report.html
	$(BIN)/horst demo

serve: $(VENV)/serve.stamp ## Serve the page at http://127.0.0.1:8000: webcam, files, samples, teaching; Ctrl-C stops it
	$(BIN)/horst serve

train-tiny: $(VENV)/train.stamp ## Train a small model on two cores in ten minutes; goes on where it was stopped
	if test -e runs/train-tiny/config.yaml; then $(BIN)/horst train --resume runs/train-tiny; \
	else $(BIN)/horst train somethings/cpu --folder runs/train-tiny; fi
	$(BIN)/horst evaluate runs/train-tiny
	$(BIN)/horst data make somethings runs/train-tiny/fresh --clips 1 --seed 1001 --size 224 --templates 2 >/dev/null
	$(BIN)/horst predict runs/train-tiny runs/train-tiny/fresh/videos/1.webm --render runs/train-tiny/fresh.mp4
	@echo "Accuracy over the observed part of a clip, against chance: runs/train-tiny/evaluation/val.svg"
	@echo "Predictions for a clip that the training has not seen (Moving something down): runs/train-tiny/fresh.mp4"

# Tests start many processes. If Python may not keep compiled files, each one compiles the package again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/dev.stamp ## Run the tests
	$(PYTEST) -m "not integration"

# The torch of constraints.txt stays, unless LOWEST_TORCH=1 asks for the lowest, with gigabytes of CUDA packages.
LOWEST := .venv-lowest
lowest: $(LOWEST)/pins.txt ## Run the tests with the lowest version that pyproject.toml allows of each dependency
	$(MAKE) VENV=$(LOWEST) PINS=$(LOWEST)/pins.txt test

$(LOWEST)/pins.txt: pyproject.toml constraints.txt tools/lowest.py
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check packaging
	$(LOWEST)/bin/python tools/lowest.py dev $(if $(LOWEST_TORCH),--torch) > $@.new
	mv $@.new $@

integration: $(VENV)/dev.stamp ## Run notebooks, the site, several nodes, long streams, attacks and other processors (two minutes)
	$(PYTEST) -m integration

portable: $(VENV)/dev.stamp ## Run tests of numbers as other processors would compute them (long)
	$(BIN)/python tools/portable.py

nightly: $(VENV)/dev.stamp ## Train every method for some minutes and see that it learns (hours)
	$(BIN)/python -m pytest nightly

$(VENV)/mutants.stamp: $(VENV)/dev.stamp
	$(PIP) --editable '.[mutants]'
	touch $@

mutants: $(VENV)/mutants.stamp ## Change the code in 200 places, one at a time, and see that tests fail (half an hour)
	$(BIN)/python tools/mutants.py

lint: $(VENV)/dev.stamp ## Check style, types and workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yaml
	$(BIN)/zizmor --offline --quiet --persona=pedantic .github/workflows

format: $(VENV)/dev.stamp ## Put the code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/run.stamp ## Time the SSv2 network against the release's algorithm (minutes)
	$(BIN)/python -m benchmarks.cached_keys

wheel: $(VENV)/dev.stamp ## Build the wheel and the source distribution into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

release-check: wheel ## Install the wheel with each extra in a new environment, and use it (a quarter of an hour)
	$(BIN)/python tools/check_release.py

docs: $(VENV)/dev.stamp ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## Remove what the other targets made
	rm -rf $(VENV) $(LOWEST) build dist site horst-demo .mutants
