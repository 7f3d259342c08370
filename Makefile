# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0

# Builds, runs and tests dyn_ros on a machine without ROS; `make` prints the targets.
# With a ROS installation, use colcon instead.

ROS ?= jazzy
ifeq ($(filter $(ROS),jazzy kilted),)
  $(error ROS=$(ROS): expected jazzy or kilted)
endif
ifneq ($(words $(CURDIR)),1)
  $(error "$(CURDIR)" contains a space, which scripts in a Python environment do not support)
endif

VENV := .venv-$(ROS)
BUILD := build/$(ROS)
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.NOTPARALLEL:

# The venv is recreated for another PYTHON, or if the checkout has moved.
made_for := $(shell cat $(VENV)/.made-for 2>/dev/null)
PYTHON ?= $(or $(word 2,$(made_for)),python3)
ifneq ($(made_for),$(CURDIR) $(PYTHON))
  .PHONY: $(VENV)/.made-for
endif

# The interfaces are rebuilt if one has been added or removed.
interfaces := $(sort $(wildcard msg/*.msg srv/*.srv))
ifneq ($(interfaces),$(shell cat $(VENV)/.interfaces 2>/dev/null))
  .PHONY: $(VENV)/.interfaces
endif

# The files in share/dyn_ros are linked again if one has been added or removed.
shared := $(sort $(wildcard launch/*.* config/*.*))
ifneq ($(shared),$(shell cat $(VENV)/.shared 2>/dev/null))
  .PHONY: $(VENV)/.shared
endif

# The wheels must not be mixed with a sourced ROS installation.
unexport AMENT_CURRENT_PREFIX AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH \
  LD_LIBRARY_PATH PYTHONHOME PYTHONPATH RMW_IMPLEMENTATION ROS_DISTRO _ROS_WHEELS_BOOTSTRAP_COMPLETE

define HELP
make demo    run the demo: a moving arm in a browser, with its dynamics in a table (Ctrl-C to quit)
make test    run every test
make oldest  run the engine's tests with the oldest Numba and NumPy allowed, on Python 3.10 or 3.11
make bench   run the benchmarks
make lint    check style and types of the sources, and package.xml
make setup   only set up what the demo needs
make clean   remove everything that the targets above create

ROS=kilted          use this ROS distribution instead of jazzy
PYTHON=python3.12   use this Python (3.10 to 3.14) instead of python3
ARGS="..."          additional arguments, for example: make demo ARGS="--duration 5"
                                                       make test ARGS="-x test/nodes"
endef

.PHONY: help setup demo test oldest bench lint clean
help:
	@$(info $(HELP)):

# Only one make at a time sets up the venv; others wait for it.
set_up = @flock Makefile $(MAKE) --no-print-directory --silent $(addprefix $(VENV)/.,$(1))

setup:
	$(call set_up,shared)

demo:
	$(call set_up,shared)
	$(VENV)/bin/dyn_ros demo $(ARGS)

test:
	$(call set_up,shared test-wheels)
	$(VENV)/bin/pytest -n 2 --dist loadgroup $(ARGS)

# Without ROS. The oldest Numba is for Python up to 3.11.
ENGINE_TESTS = test/spatial test/model test/algorithms/test_dynamics.py
oldest:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || {
	  echo "The oldest Numba that dyn_ros allows needs Python 3.10 or 3.11: make oldest PYTHON=python3.11"
	  exit 1; }
	echo "== Setting up .venv-oldest with $$($(PYTHON) tools/oldest.py)"
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	pip=".venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check"
	$$pip example-robot-data hypothesis "pin >= 3.4" pytest
	$$pip $$($(PYTHON) tools/oldest.py)  # pip says that pin wants a newer NumPy; it runs with this one
	PYTHONPATH="$(CURDIR)" .venv-oldest/bin/python -m pytest $(ENGINE_TESTS) $(ARGS)

bench:
	$(call set_up,shared test-wheels)
	$(VENV)/bin/python benchmarks/engine.py --write docs/performance.md
	$(VENV)/bin/python benchmarks/node_latency.py $(ARGS)
	$(VENV)/bin/python benchmarks/service_latency.py
	$(VENV)/bin/python benchmarks/one_process.py
	$(VENV)/bin/python benchmarks/markers.py

lint:
	$(call set_up,test-wheels)
	$(VENV)/bin/ruff check $(ARGS)
	$(VENV)/bin/mypy
	$(VENV)/bin/python tools/check_xml.py

clean:
	rm -rf .venv-jazzy .venv-kilted .venv-oldest build install log .pytest_cache .ruff_cache .mypy_cache \
	  .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# pip's output, reduced to one line per wheel
pip_install = $(VENV)/bin/python -m pip install --disable-pip-version-check \
  $(patsubst %,-r %,$(filter requirements%,$^)) | \
  sed -un 's/^Collecting \([^ ]*\).*/  \1/p; s/^Installing collected.*/  installing .../p'

$(VENV)/.made-for:
	@command -v $(PYTHON) >/dev/null || {
	  echo "$(PYTHON) not found. On Debian or Ubuntu: sudo apt install $(notdir $(PYTHON))"; exit 1; }
	$(PYTHON) tools/preflight.py
	echo "== Setting up $(VENV), with $$($(PYTHON) --version)"
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	echo "$(CURDIR) $(PYTHON)" >$@

$(VENV)/.wheels: requirements.txt requirements-identification.txt requirements-logs.txt \
    requirements-viewer.txt requirements-$(ROS).txt $(VENV)/.made-for
	@echo "== Fetching ROS 2 $(ROS) and the other dependencies of dyn_ros"
	$(pip_install)
	touch $@

$(VENV)/.test-wheels: requirements-test.txt $(VENV)/.wheels
	@echo "== Fetching the dependencies of the tests"
	$(pip_install)
	touch $@

# The interfaces are built from scratch, so that nothing remains of an earlier build. The sources are
# linked, so that changes and new modules require no build. The generated part of the Python package is
# in a separate folder, where dyn_ros/__init__.py finds it.
$(VENV)/.interfaces: $(VENV)/.wheels CMakeLists.txt package.xml setup.cfg $(interfaces)
	@echo "== Building the messages and services"
	find $(VENV) -name '*dyn_ros*' -prune -exec rm -rf {} +
	rm -rf $(BUILD) $@
	venv=$(CURDIR)/$(VENV)
	export PATH="$$venv/bin:$$PATH" AMENT_PREFIX_PATH="$$venv" CMAKE_PREFIX_PATH="$$venv"
	cmake -G Ninja -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX="$$venv" \
	  -DPython3_EXECUTABLE="$$venv/bin/python" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
	  -DINTERFACES_ONLY=ON -DPYTHON_INSTALL_DIR=lib/dyn_ros_interfaces --log-level=WARNING
	cmake --build $(BUILD)
	cmake --install $(BUILD) >$(BUILD)/install.log
	site=$$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	ln -sr dyn_ros "$$site"
	echo ../../dyn_ros_interfaces >"$$site/dyn_ros_interfaces.pth"
	for script in "$$venv"/lib/dyn_ros/*; do
	  sed "1s|.*|#!$$venv/bin/python|" "$$script" >"$$venv/bin/$${script##*/}"
	  chmod +x "$$venv/bin/$${script##*/}"
	done
	echo "$(interfaces)" >$@

# `ros2 launch` does not search linked folders, so each file is linked.
$(VENV)/.shared: $(VENV)/.interfaces
	@share=$(VENV)/share/dyn_ros
	rm -rf "$$share/launch" "$$share/config"
	mkdir "$$share/launch" "$$share/config"
	for file in $(shared); do
	  ln -sr "$$file" "$$share/$${file%/*}"
	done
	echo "$(shared)" >$@
