# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every exported function, called from C: numbers, memory, threads, other processors."""

import platform

import pytest
from export import caller
from export.tools import read_errors, require_tools, run_program

from dyn_ros.export import c_sources
from dyn_ros.export.functions import find_functions

pytest.importorskip("numba", reason="nothing can be compiled")
from dyn_ros.export.c_library import RUNTIME, export_library

CC = ("cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def program(library, source):
    """The caller, linked with the shared library."""
    path = source.with_name("shared")
    run_program(
        [
            *CC,
            f"-I{library}/include",
            source,
            "-o",
            path,
            f"-L{library}/lib",
            "-ldyn_ros",
            "-lm",
            "-lpthread",
            f"-Wl,-rpath,{library}/lib",
        ]
    )
    return path


def compile_sanitized(library, source, kinds):
    """The caller and the C sources of the library, with sanitizers; kernels are as they are."""
    path, build = source.with_name(kinds), source.parent
    (build / "layout.h").write_text(c_sources.layout_header())
    (build / "functions.c").write_text(c_sources.functions_source(find_functions()))
    run_program(
        [
            *CC,
            f"-fsanitize={kinds}",
            "-fno-sanitize-recover=all",
            f"-I{library}/include",
            f"-I{build}",
            f"-I{RUNTIME}",
            source,
            build / "functions.c",
            *RUNTIME.glob("*.c"),
            library / "lib" / "libdyn_ros.a",
            "-o",
            path,
            "-lm",
            "-lpthread",
        ]
    )
    return path


def test_numbers_are_those_of_python(program, files):
    errors = read_errors(run_program([program, *files, "alone"]))
    assert max(errors.values()) < 1e-13, errors


def test_calls_make_no_system_call(program, files):
    """Not even for memory: after the start, the kernel of Linux accepts only write and exit."""
    if platform.system() != "Linux":
        pytest.skip("seccomp exists only in Linux")
    errors = read_errors(run_program([program, *files, "strict"]))
    assert max(errors.values()) < 1e-13, errors


def test_addresses_and_undefined_behavior(library, source, files):
    path = source.with_name("address,undefined")
    if not path.exists():
        compile_sanitized(library, source, "address,undefined")
    assert max(read_errors(run_program([path, *files, "alone"])).values()) < 1e-13


def test_threads_share_a_model(library, source, files):
    path = source.with_name("thread")
    if not path.exists():
        compile_sanitized(library, source, "thread")
    assert max(read_errors(run_program([path, *files, "threads"])).values()) < 1e-13


def symbols(path, *options):
    """The names of symbols, by their kind."""
    lines = [line.split()[-2:] for line in run_program(["nm", *options, path]).splitlines()]
    return {(kind, name.partition("@")[0]) for kind, name in lines}


def test_symbols(library):
    """The library needs memcpy and memset only, and shows what the header declares."""
    require_tools("nm")
    library_symbols = symbols(library / "lib" / "libdyn_ros.so", "-D")
    assert {name for kind, name in library_symbols if kind == "U"} <= {"memcpy", "memset"}
    assert all(
        name.startswith("dyn_ros_") and kind == "T" for kind, name in library_symbols if kind != "U"
    )
    assert {f"dyn_ros_{function.name}" for function in find_functions()} <= {
        name for _, name in library_symbols
    }
    assert not any("private" in name for _, name in library_symbols)


def test_a_compiler_that_protects_the_stack(tmp_path, monkeypatch):
    """As some do by default, with a function of the C library."""
    require_tools("nm")
    monkeypatch.setenv("CC", "cc -fstack-protector-all -D_FORTIFY_SOURCE=2")
    export_library(tmp_path, ["contact_dynamics"])
    library_symbols = symbols(tmp_path / "lib" / "libdyn_ros.so", "-D")
    assert {name for kind, name in library_symbols if kind == "U"} <= {"memcpy", "memset"}


def test_soname(library):
    require_tools("readelf")
    assert "SONAME" in run_program(["readelf", "-d", library / "lib" / "libdyn_ros.so"])


ON_ARM = ("aba", "contact_dynamics", "crba", "forward_kinematics", "momentum_observer_step", "rnea")


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """The caller for aarch64."""
    require_tools("aarch64-linux-gnu-gcc", "qemu-aarch64")
    folder = tmp_path_factory.mktemp("aarch64")
    export_library(folder, ON_ARM, ["aarch64"])
    (folder / "caller.c").write_text(caller.program(ON_ARM))
    run_program(
        [
            "aarch64-linux-gnu-gcc",
            *CC[1:],
            "-static",
            f"-I{folder}/include",
            folder / "caller.c",
            "-o",
            folder / "caller",
            folder / "lib" / "libdyn_ros.a",
            "-lm",
            "-lpthread",
        ]
    )
    return folder / "caller"


def test_aarch64(arm, files):
    """Its instructions round differently."""
    errors = read_errors(run_program(["qemu-aarch64", arm, *files, "alone"]), ON_ARM)
    assert max(errors.values()) < 1e-13, errors
