# Two commands do all the set-up: `make up` runs the main job on the rehearsal clouds, `make test` passes the tests.
PYTHON ?= python3
STACK ?= train-h100x8
ACTIVATE = . .venv/bin/activate
# Bytecode is kept, also where the environment says otherwise: without it each of the many processes of a run compiles every package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: up test test-full setup destroy lint style types rules docs lock bench hostile crash pictures

up: setup ## all the set-up, then `pulumi up` of STACK on the rehearsal cloud
	@$(ACTIVATE) && command pulumi up --stack $(STACK) --yes
	@echo 'next: . .venv/bin/activate; then gpus ps, or pulumi preview -s $(STACK);'
	@echo '      pulumi destroy -s $(STACK) ends it'

destroy: setup ## ends what `make up` started
	@$(ACTIVATE) && command pulumi destroy --stack $(STACK) --yes

setup: ## the environment, the Pulumi tool chain, local state and the declared stacks
	@$(PYTHON) .ci/setup.py

test: ## all the set-up, then lint, types and every rule of the product
	@$(PYTHON) .ci/setup.py --development
	@$(MAKE) --no-print-directory style
	@$(MAKE) --no-print-directory -j 2 types rules # mypy keeps one core busy: the tests run beside it

test-full: ## the long tests: all runs through the real Pulumi engine, launchers, samples of the crash matrix
	@$(PYTHON) .ci/setup.py --development
	@$(ACTIVATE) && python -m pytest -m long --durations 15 --durations-min 20

lint: style types ## style, types, who may import whom, and shellcheck of every shell program

style:
	@$(ACTIVATE) && ruff check . && ruff format --check .
	@$(ACTIVATE) && lint-imports --no-cache --no-logo
	@$(ACTIVATE) && git ls-files -z --cached --others --exclude-standard .ci/run "*.sh" \
		| xargs -0 shellcheck --severity style

docs: ## the documentation as a site in build/docs; a link that leads nowhere fails
	@$(PYTHON) .ci/setup.py --development
	@$(ACTIVATE) && python -m docs.generate && NO_MKDOCS_2_WARNING=1 mkdocs build --strict && echo "open build/docs/index.html"

types:
	@$(ACTIVATE) && mypy

rules:
	@$(ACTIVATE) && python -m pytest -m "not long"

LOCK = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

lock: ## the lock files, from pyproject.toml; needs uv
	@$(LOCK) --extra aws --extra clore --extra modal --extra notify -o requirements.lock
	@$(LOCK) --extra dev --group docs -c requirements.lock -o requirements-dev.lock

hostile: ## 10,000 generated declarations and 2,500 mutated cloud replies (`make test` tries a sample); the same by HOSTILE_SEED
	@$(PYTHON) .ci/setup.py --development
	@$(ACTIVATE) && HOSTILE=full python -m pytest --timeout 7200 tests/hostile

bench: ## the speed figures, as ratios measured side by side
	@$(PYTHON) .ci/setup.py --development
	@$(ACTIVATE) && python -m tests.benchmarks

pictures: ## docs/pictures, from runs on the rehearsal clouds
	@$(PYTHON) .ci/setup.py --development
	@$(ACTIVATE) && python -m tests.pictures

SEED ?= 1
crash: ## kills the tool anywhere, breaks every reply, and counts what is left running: all points (CI runs a sample)
	@$(PYTHON) .ci/setup.py --development
	@$(ACTIVATE) && python -m tests.crash --seed $(SEED)
