# Everything is one command on a machine with Python >= 3.10 and a package manager: `make test`.

.NOTPARALLEL:
.PHONY: help test lint unit integration faults chaos diagnosis demo bench site links soak servers tools clean

VENV := .venv
RUN := $(VENV)/bin/python -m
PYTEST := $(RUN) pytest
INSTALL_INPUTS := pyproject.toml scripts/venv

help:
	@echo 'make test         lint, then every test; installs what is missing; what CI runs'
	@echo 'make unit         the tests that need no broker'
	@echo 'make integration  the tests on real brokers and workers'
	@echo 'make versions     what docs/support.md says, on the oldest and the newest versions'
	@echo 'make faults       the same, with every fault repeated to its full count (an hour)'
	@echo 'make chaos        everything dies at once, and nothing is lost (SEED=1 BROKER=rabbitmq)'
	@echo 'make lint         ruff and mypy'
	@echo 'make demo         plain Celery against celery-fair, in a minute'
	@echo 'make diagnosis    stage the symptoms of docs/diagnosis.md, and write what the commands say'
	@echo 'make example      a document assistant under load, with its page and dashboards to look at'
	@echo 'make site         these pages as a site, in build/site; a broken link is an error'
	@echo 'make links        ask each address in the pages whether it is still there (needs the net)'
	@echo 'make bench        the measurements of docs/benchmarks.md (hours)'
	@echo 'make compare      what a user would pick instead, measured under the same arrivals'
	@echo 'make soak         mixed load on workers that are recycled: what grows (MINUTES=20)'
	@echo 'make release-check  build wheel and sdist, and use them in clean environments (EXTRAS=extras)'
	@echo 'make clean        remove what these have made'

test: lint unit together

lint: $(VENV)/.has-test
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

unit: $(VENV)/.has-test tools
	$(PYTEST) -n logical tests/unit

# Three files at a time, since they mostly wait, the longest first. Each process has servers of its
# own. Compiled before: where PYTHONDONTWRITEBYTECODE is set, each worker that they start would do
# it for itself.
integration: $(VENV)/.has-test servers tools
	$(RUN) compileall -q celery_fair tests example_project
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder $(wildcard tests/integration tests/acceptance)

# Beside each other, since both mostly wait; what the oldest versions had to say comes at the end.
.PHONY: together
together: servers tools
	@log=$$(mktemp); $(MAKE) oldest >$$log 2>&1 & oldest=$$!; trap "kill $$oldest" INT TERM; \
	$(MAKE) integration; ended=$$?; wait $$oldest || ended=$$?; \
	cat $$log; rm -f $$log; exit $$ended

.PHONY: oldest versions
OLDEST := .venv-oldest
NEWEST := .venv-newest
# Celery < 5.7 leaves results whose connection is gone to the interpreter's end.
AS_IT_WAS := -W default::pytest.PytestUnraisableExceptionWarning
HOST := tests/unit/worker/test_host.py tests/integration/test_internals.py \
    tests/integration/traps/test_running_children.py
CONTRACT := tests/integration/contract tests/integration/test_lacking.py

# A part of it, on the oldest versions only: what fits into `make test`.
oldest: $(OLDEST)/.has-test servers
	$(OLDEST)/bin/python -m pytest $(AS_IT_WAS) $(HOST) tests/integration/contract/test_contract.py \
	    -k "not contract or ((redis or rabbitmq) and (prefork or threads))"

# Another Python: `make clean versions PYTHON=python3.13`.
versions: $(OLDEST)/.has-test servers
	@scripts/venv $(NEWEST) test --upgrade --upgrade-strategy eager
	$(OLDEST)/bin/python -m pytest $(AS_IT_WAS) $(HOST) $(CONTRACT)
	$(NEWEST)/bin/python -m pytest $(HOST) $(CONTRACT)

faults: $(VENV)/.has-test servers
	$(PYTEST) --full tests/integration

# Two runs of a seed, celery-fair and plain Celery: SEED=1 BROKER=rabbitmq POOL=gevent TASKS=10000.
# CHAOS="--no-stock --dry-run" and whatever else `python -m tests.chaos --help` tells.
chaos: $(VENV)/.has-test servers
	$(RUN) tests.chaos $(and $(SEED),--seed $(SEED)) $(and $(BROKER),--broker $(BROKER)) \
	    $(and $(POOL),--pool $(POOL)) $(and $(TASKS),--tasks $(TASKS)) $(CHAOS)

# The outputs in docs/diagnosis.md, of real workers; STAGES="paused eta" for some of them.
diagnosis: $(VENV)/.has-test
	@scripts/system-packages redis
	$(RUN) tests.diagnosis $(STAGES)

demo: $(VENV)/.has-demo
	$(RUN) celery_fair demo

example: $(VENV)/.has-example
	@scripts/system-packages redis || true
	$(RUN) example_project

.PHONY: release-check
release-check: $(VENV)/.has-test
	@PYTHON=$(CURDIR)/$(VENV)/bin/python scripts/release-check $(EXTRAS)

# A unit test builds it too.
SPHINX := $(RUN) sphinx -W --keep-going -c docs .
site: $(VENV)/.has-test
	$(SPHINX) -q build/site
	@echo 'build/site/index.html'

links: $(VENV)/.has-test
	$(SPHINX) -b linkcheck build/links

# For instance BENCH="--only steady,bursts --pools threads --brokers redis --parallel 3".
bench: $(VENV)/.has-test servers
	$(RUN) tests.benchmarks $(BENCH)

# Beside other libraries and add-ons; COMPARE="--seeds 2 --loads mixed --only fair,huey".
.PHONY: compare
compare: $(VENV)/.has-compare servers
	$(RUN) tests.benchmarks.others $(COMPARE)

# For instance MINUTES=20 BROKER=rabbitmq POOL=threads SEED=2 JSON=1.
soak: $(VENV)/.has-soak servers
	$(RUN) tests.soak $(and $(MINUTES),--minutes $(MINUTES)) $(and $(BROKER),--broker $(BROKER)) \
	    $(and $(POOL),--pool $(POOL)) $(and $(SEED),--seed $(SEED)) $(and $(JSON),--json)

# Without them their tests are skipped with the reason, but not where CI is set.
servers:
	@scripts/system-packages redis rabbitmq chromium || test -z "$$CI"

# Prometheus, for what is in grafana/; as the servers.
tools:
	@scripts/system-packages prometheus || test -z "$$CI"

$(VENV)/.has-test: $(INSTALL_INPUTS)
	@scripts/venv $(VENV) test,lint
	@touch $@

$(VENV)/.has-compare: $(INSTALL_INPUTS)
	@scripts/venv $(VENV) test,simulate
	@touch $@

$(VENV)/.has-soak: $(INSTALL_INPUTS)
	@scripts/venv $(VENV) test,soak
	@touch $@

$(OLDEST)/.has-test: $(INSTALL_INPUTS) scripts/oldest.txt
	@scripts/venv $(OLDEST) test --constraint scripts/oldest.txt
	@touch $@

$(VENV)/.has-example: $(INSTALL_INPUTS)
	@scripts/venv $(VENV) example
	@touch $@

$(VENV)/.has-demo: $(INSTALL_INPUTS)
	@scripts/venv $(VENV) demo
	@touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) .venv-others .venv-arq build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
