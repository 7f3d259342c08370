# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What needs torch or JAX is imported on request only."""

import subprocess
import sys

import pytest

CALL = """
import sys
import dyn_ros
model = dyn_ros.Model.from_urdf_file(sys.argv[1])
dyn_ros.rnea(model, dyn_ros.Data(model), *[[0.1] * model.nv] * 3)
print(*(name for name in ("torch", "jax", "jaxlib") if name in sys.modules))
"""
WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
import importlib
try:
    importlib.import_module(f"dyn_ros.{sys.argv[1]}")
except ImportError as error:
    print(error)
"""


def run(code, argument):
    done = subprocess.run(
        [sys.executable, "-c", code, argument], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_engine_imports_neither():
    from dyn_ros.demo.run import ARM

    assert run(CALL, str(ARM)) == "\n"


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_without_the_library_the_error_names_the_extra(library):
    assert f'pip install "dyn_ros[{library}]"' in run(WITHOUT, library)


@pytest.mark.parametrize("one, other", [("torch", "jax"), ("jax", "torch")])
def test_each_works_without_the_other(one, other):
    pytest.importorskip(one, reason="not installed: run `make test`")
    code = f"import sys\nsys.modules['{other}'] = None\nimport dyn_ros.{one}\nprint('works')"
    assert run(code, "") == "works\n"
