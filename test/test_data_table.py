# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/data.md: a row for each field of Pinocchio's Data, with names that exist in dyn_ros."""

import inspect
import re
from pathlib import Path

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros.engine.call.algorithm import ALGORITHMS

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "data.md").read_text()
VERSION = "4.1"  # of Pinocchio, whose fields the page lists
listed = pytest.mark.skipif(
    not pinocchio.__version__.startswith(f"{VERSION}."),
    reason=f"docs/data.md lists the fields of Pinocchio {VERSION}",
)


COLUMNS = {  # of a table -> Pinocchio's fields, the function, the differences
    ("Pinocchio", "function"): lambda fields, function: (fields, function, ""),
    ("Pinocchio", "function", "differences"): lambda *cells: cells,
    ("Pinocchio", "instead"): lambda fields, instead: (fields, "", instead),
}


def cells(line):
    return tuple(cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|"))


def rows(text):
    """Fields, function and differences of each row of the tables in a text."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        header, _, *lines = table.splitlines()
        found += [COLUMNS[cells(header)](*cells(line)) for line in lines]
    return found


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


IN_PYTHON, IN_CPP = map(rows, PAGE.split("## Only in C++"))
EVERY = pytest.mark.parametrize(
    "row", [pytest.param(row, id=names(row[0])[0]) for row in IN_PYTHON + IN_CPP]
)


@listed
def test_there_is_a_row_for_each_field():
    assert sorted(name for row in IN_PYTHON for name in names(row[0])) == sorted(
        name for name in dir(pinocchio.Data) if not name.startswith("_")
    )


@listed
def test_what_python_has_is_not_listed_as_only_in_cpp():
    found = [name for row in IN_CPP for name in names(row[0])]
    assert len(found) == len(set(found))
    assert [name for name in found if hasattr(pinocchio.Data, name)] == []


def fields(row):
    """The fields of dyn_ros.Data in a row: beside the function, or in snake_case."""
    beside = [name.removeprefix("data.") for name in names(row[1]) if name.startswith("data.")]
    snake = [
        re.sub(r"(?<=[a-z]{2})(?=[A-Z])", "_", name).lower() if "Regressor" in name else name
        for name in names(row[0])
    ]
    return beside or (snake if ALGORITHMS.keys() & names(row[1]) else [])


@EVERY
def test_a_row_is_complete(row):
    assert len(row) == 3
    fields, function, difference = row
    assert names(fields) and (function or difference)


@EVERY
def test_the_names_exist(row):
    model = peer.pair("panda").model
    places = {"": dyn_ros, "model": model, "data": dyn_ros.Data(model)}
    missing = []
    for name in [
        *names(row[1]),
        *re.findall(r"\b(?:data|model)\.\w+", row[2]),
        *(f"data.{field}" for field in fields(row)),
    ]:
        place, _, attribute = name.rpartition(".")
        if not hasattr(places[place], attribute):
            missing.append(name)
    assert missing == []


def written_by(name):
    algorithm = ALGORITHMS[name]
    return {known.name for known in (*algorithm.results, *algorithm.also_writes)}


@EVERY
def test_each_function_writes_the_fields(row):
    for name in ALGORITHMS.keys() & names(row[1]):
        assert set(fields(row)) <= written_by(name)
    for field, name in re.findall(r"`data\.(\w+)`, from `(\w+)`", row[2]):
        assert field in written_by(name)


# --- the fields contain the same numbers

CALLS = {  # fields -> Pinocchio's function that fills them, and its arguments
    "oMi liMi v a": (pinocchio.forwardKinematics, "qva"),
    "ov oa J dJ": (pinocchio.computeForwardKinematicsDerivatives, "qva"),
    "oMf": (pinocchio.framesForwardKinematics, "q"),
    "tau f h a_gf": (pinocchio.rnea, "qva"),
    "nle": (pinocchio.nonLinearEffects, "qv"),
    "g": (pinocchio.computeGeneralizedGravity, "q"),
    "ddq": (pinocchio.aba, "qvt"),
    "oh of oa_gf dFda dFdv dFdq dtau_dq dtau_dv": (pinocchio.computeRNEADerivatives, "qva"),
    "M": (pinocchio.crba, "q"),
    "Minv": (pinocchio.computeMinverse, "q"),
    "Ycrb": (
        lambda model, data, q: pinocchio.crba(model, data, q, pinocchio.Convention.LOCAL),
        "q",
    ),
    "oYcrb Ag hg Ig": (pinocchio.ccrba, "qv"),
    "dAg": (pinocchio.dccrba, "qv"),
    "dhg": (pinocchio.computeCentroidalMomentumTimeVariation, "qva"),
    "Jcom": (pinocchio.jacobianCenterOfMass, "q"),
    "kinetic_energy": (pinocchio.computeKineticEnergy, "qv"),
    "potential_energy": (pinocchio.computePotentialEnergy, "q"),
    "mechanical_energy": (pinocchio.computeMechanicalEnergy, "qv"),
    "ddq_dq ddq_dv": (pinocchio.computeABADerivatives, "qvt"),
    "jointTorqueRegressor": (pinocchio.computeJointTorqueRegressor, "qva"),
    "staticRegressor": (pinocchio.computeStaticRegressor, "q"),
    "kineticEnergyRegressor": (pinocchio.computeKineticEnergyRegressor, "qv"),
    "potentialEnergyRegressor": (pinocchio.computePotentialEnergyRegressor, "q"),
    "dHdq": (pinocchio.computeCentroidalDynamicsDerivatives, "qva"),
}
FIELDS = {name: call for fields, call in CALLS.items() for name in fields.split()}


def numbers(x):
    """A field of Pinocchio's Data as an array, without the universe."""
    for attribute in ("vector", "homogeneous", "matrix"):
        if hasattr(x, attribute):
            found = getattr(x, attribute)
            return found() if callable(found) else found
    if type(x).__name__.startswith("StdVec"):
        return np.array([numbers(each) for each in list(x)[1:]])
    return np.asarray(x)


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_contain_the_same_numbers(name):
    pair = peer.new_pair("solo12", "floating")
    state = dict(zip("qvat", pair.state(1)))
    theirs, data = pair.pin.createData(), dyn_ros.Data(pair.model)
    compute, arguments = FIELDS[name]
    compute(pair.pin, theirs, *(state[each] for each in arguments))
    (row,) = [row for row in IN_PYTHON if name in names(row[0])]
    function = getattr(dyn_ros, names(row[1])[0])
    wanted = inspect.signature(function).parameters
    function(
        pair.model,
        data,
        **{
            argument: state[argument[0]]
            for argument in ("q", "v", "a", "tau")
            if argument in wanted
        },
    )
    expected = numbers(getattr(theirs, name))
    if name in ("M", "Minv"):
        expected = np.triu(expected) + np.triu(expected, 1).T
    field = dict(zip(names(row[0]), fields(row)))[name]
    peer.close(getattr(data, field), expected, 1e-10)
