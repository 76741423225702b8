# `make run` and `make test` need only make and Python 3.11: everything else is
# set up in .venv, from the versions in requirements.lock.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest

# The tests start thousands of programs; without this, each would compile the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all test-slow test-labs test-clusters explore soak check lint types layers cover bench bench-anti-affinity bench-backtest bench-cycle bench-ha bench-cloudsim bench-consolidation bench-dashboard bench-data-center bench-forecast bench-scaling bench-optimizer bench-placement bench-pve bench-requests bench-roadef bench-web lock schema codes metrics openapi pictures web libvirt clean

run: $(VENV)/ready
	$(BIN)/opendrs demo --serve

# Some tests wait for other processes, so there is a worker more than there are cores.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

# The tests of every day, on all cores.
MARKERS ?= not slow and not lab
test: $(VENV)/ready
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$(MARKERS)"

# Every test but those on real hypervisors.
test-all:
	$(MAKE) test MARKERS="not lab"

test-slow:
	$(MAKE) test MARKERS="slow and not lab"

# The properties with further random examples; an example that fails is printed. Other
# tests: make explore TESTS=tests/unit/rules.
EXAMPLES ?= 1000
TESTS ?= tests/properties
explore: $(VENV)/ready
	OPENDRS_EXPLORE=$(EXAMPLES) $(PYTEST) -n $(WORKERS) --dist worksteal -m "not lab" $(TESTS)

# Real hypervisors on this machine, one lab at a time; needs root and the packages
# that .ci/run installs.
test-labs: $(VENV)/ready
	$(PYTEST) -m lab tests/integration tests/contracts

# Real clusters of Incus 6.0 and 7.0 and of OpenStack, over an hour; needs root.
LABS := $(or $(OPENDRS_SHARED),../shared)/labs
INCUS_TESTS := $(wildcard tests/integration/test_incus_*.py)
test-clusters: $(VENV)/ready
	for suite in bookworm sid; do \
	    IC_BASE=/srv/opendrs-incus-$$suite IC_SUITE=$$suite \
	        $(LABS)/incus/incus-cluster.sh build || exit 1; \
	done
	$(LABS)/openstack/full.sh deps
	$(PYTHON) -m venv /var/cache/opendrs-openstackclient
	/var/cache/opendrs-openstackclient/bin/pip install --quiet python-openstackclient
	OPENDRS_INCUS_LAB=required OPENDRS_NOVA_LAB=required $(PYTEST) -m lab \
	    $(INCUS_TESTS) tests/integration/test_openstack*.py \
	    tests/contracts/test_platform.py -k "not libvirt"
	OPENDRS_INCUS_LAB=required INCUS_SUITE=sid $(PYTEST) -m lab $(INCUS_TESTS)

# Controllers against operators, faults, clocks that jump and kills, judged by true
# events; half an hour. One episode again: make soak SEED=1234 CYCLES=1
SEED ?= 1
CYCLES ?= 10000
soak: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m soak --seed $(SEED) --cycles $(CYCLES)

check: lint types layers cover

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/ready
	$(BIN)/mypy src tests benchmarks

layers: $(VENV)/ready
	$(BIN)/lint-imports

cover: $(VENV)/ready
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report

bench: $(VENV)/ready
	$(BIN)/python benchmarks/runners/best_migration.py

# The time of balance by the size of a group with anti-affinity; some ten seconds.
bench-anti-affinity: $(VENV)/ready
	$(BIN)/python benchmarks/runners/anti_affinity.py

# Some six minutes; --sizes 10x200,100x2000 takes one.
bench-ha: $(VENV)/ready
	$(BIN)/python benchmarks/runners/ha_drills.py

# optimize side by side with Meta's Rebalancer, where REBALANCER names a Python 3.12
# that has it (pip install rebalancer); some minutes.
bench-optimizer: $(VENV)/ready
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/runners/planner.py $(if $(REBALANCER),--rebalancer $(REBALANCER))

# optimize from 10 nodes to 10,000; half an hour. Less of it: SIZES=10x200,1000x20000.
SIZES ?= 10x200,30x600,100x2000,300x6000,1000x20000,3000x60000,10000x200000
bench-scaling: $(VENV)/ready
	$(BIN)/python benchmarks/runners/scaling.py --sizes $(SIZES)

# Answers of place and what-if for clusters up to 1,000 nodes; about a minute.
bench-placement: $(VENV)/ready
	$(BIN)/python benchmarks/runners/placement.py

# Observation of 200 nodes and 4,000 guests of Proxmox VE; some seconds.
bench-pve: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python benchmarks/runners/pve_observation.py

# The dashboard with 1,000 nodes and 20,000 guests in Chromium; two minutes.
bench-dashboard: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python benchmarks/runners/dashboard.py

# The controller while its request interface is attacked; some ten minutes.
bench-requests: $(VENV)/ready
	$(BIN)/python benchmarks/runners/request_limits.py

# Two cores for 300 s an instance, an hour and a half in all; goes on where it was
# stopped. Fewer seconds: make bench-roadef TIME=30.
TIME ?= 300
bench-roadef: $(VENV)/ready
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/runners/roadef.py --all --time $(TIME) --results build/roadef.csv

# The PlanetLab experiment beside CloudSim 3.0.3. All rows take minutes: make
# bench-cloudsim ROW=
ROW ?= 20110303 lr-mmt
bench-cloudsim: $(VENV)/ready
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/runners/cloudsim.py --only $(ROW)

# Policies of consolidation side by side; all days take some ten minutes.
bench-consolidation: $(VENV)/ready
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/runners/consolidation.py

# A day of 10,000 hosts and 50,000 guests.
bench-data-center: $(VENV)/ready
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/runners/consolidation.py --scale 10000 50000

# Cycles of a controller beside 200 open dashboards; some five minutes.
bench-web: $(VENV)/ready
	$(BIN)/python benchmarks/runners/web_clients.py

# A recorded month under all policies; some eight CPU minutes.
bench-backtest: $(VENV)/ready
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/runners/backtest.py

# Policies with and without a forecast, over recorded load.
bench-forecast: $(VENV)/ready
	$(BIN)/python benchmarks/runners/forecast.py

# CPU and memory of whole cycles; two minutes. Beside another commit, which takes
# longer: make bench-cycle BEFORE=../older/src.
bench-cycle: $(VENV)/ready
	$(BIN)/python benchmarks/runners/cycle_cpu.py $(if $(BEFORE),--before $(BEFORE))

# The published schema of the snapshot file, from the code that reads it.
schema: $(VENV)/ready
	$(BIN)/python -m opendrs.config.schema > docs/reference/opendrs-snapshot-1.schema.json

# The reference of all codes, from the enums that define them.
codes: $(VENV)/ready
	$(BIN)/python -m opendrs.cli.codes > docs/reference/codes.md

# The reference of all metrics, from their declarations.
metrics: $(VENV)/ready
	$(BIN)/python -m opendrs.monitoring.declarations > docs/reference/metrics.md

# The description of the HTTP API, from its routes.
openapi: $(VENV)/ready
	$(BIN)/python -m opendrs.api.web_app > docs/reference/openapi.json
	$(BIN)/python -m opendrs.api.app > docs/reference/openapi-agents.json

# The pictures of the documentation, from what the commands print.
pictures: $(VENV)/ready
	$(BIN)/python docs/images/draw.py

# The dashboard, from web/ into src/opendrs/web; needs node 18 or newer, and npm.
web:
	cd web && npm ci --no-fund --no-audit && npm run types && npm run check && npm run build

# The optional adapter for libvirt: needs libvirt-dev, pkg-config and a compiler.
libvirt: $(VENV)/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-libvirt.lock

lock: $(VENV)/ready
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	    --no-header --annotation-style=line \
	    --extra dev --build-deps-for wheel \
	    --output-file requirements.lock pyproject.toml
	echo "libvirt-python>=9.0" | $(BIN)/pip-compile --quiet --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	    --no-header --no-annotate --output-file requirements-libvirt.lock -

$(VENV)/ready: pyproject.toml requirements.lock
	@echo "setting up $(VENV): installing packages with pip, some minutes and 0.8 GB, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@echo "opendrs compile: the search of optimize, once, for about 20 s"
	$(BIN)/opendrs compile
	touch $@

clean:
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
