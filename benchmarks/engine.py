"""The engine beside Pinocchio, in one run: accuracy, one state, a batch.

    python benchmarks/engine.py [--write docs/performance.md]

Each ratio compares the fastest of many short rounds, the two engines taking turns. One state:
public Python calls on both sides, checks included. A batch: 8000 states.
"""
import argparse
import platform
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pinocchio

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
import dyn_ros  # noqa: E402
import peer  # noqa: E402

STATES = 8000
ALGORITHMS = {  # name -> (ours, Pinocchio's, arguments, Pinocchio's batch)
    "rnea": (dyn_ros.rnea, pinocchio.rnea, "qva", pinocchio.rneaInParallel),
    "nonlinear_effects": (dyn_ros.nonlinear_effects, pinocchio.nonLinearEffects, "qv", None),
    "generalized_gravity": (dyn_ros.generalized_gravity, pinocchio.computeGeneralizedGravity,
                            "q", None),
    "crba": (dyn_ros.crba, pinocchio.crba, "q", None),
    "aba": (dyn_ros.aba, pinocchio.aba, "qva", pinocchio.abaInParallel),
    "minverse": (dyn_ros.minverse, pinocchio.computeMinverse, "q", None),
}
ROBOTS = (("panda", None), ("talos_reduced", "floating"))


def fastest(ours, theirs, repeats, rounds):
    """Microseconds of one call of each, the two taking turns."""
    best = [float("inf")] * 2
    for _ in range(rounds):
        for which, call in enumerate((ours, theirs)):
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best[which] = min(best[which], (time.perf_counter() - start) / repeats * 1e6)
    return best


def one_state(pair):
    """Rows: name, ours [us], theirs [us], ratio."""
    q, v, a, _ = pair.state()
    for name, (ours, theirs, takes, _) in ALGORITHMS.items():
        a_, b_ = fastest(
            partial(ours, pair.model, pair.data, *(q, v, a)[:len(takes)]),
            partial(theirs, pair.pin, pair.pin_data, *(pair.to_pin_q(q), v, a)[:len(takes)]),
            500, 60)
        yield f"| `{name}` | {a_:.2f} | {b_:.2f} | {a_ / b_:.2f} |"


def call_each(function, pair, arrays):
    """The loop that a Python user writes around Pinocchio."""
    for state in zip(*arrays):
        function(pair.pin, pair.pin_data, *state)


def batch(pair, threads):
    """Rows: name, ours [us a state], theirs, times as fast."""
    q, v, a, _ = pair.states(STATES)
    theirs = np.array([pair.to_pin_q(x) for x in q]), v, a
    columns = [np.asfortranarray(x.T) for x in theirs]
    pool = pinocchio.ModelPool(pair.pin, threads)
    for name, (ours, peers, takes, in_parallel) in ALGORITHMS.items():
        mine = partial(ours, pair.model, pair.data, *(q, v, a)[:len(takes)], threads=threads)
        if in_parallel:
            a_, b_ = fastest(mine, partial(in_parallel, threads, pool, *columns), 1, 20)
            against = f"`{in_parallel.__name__}`"
        elif threads == 1:
            a_, b_ = fastest(mine, partial(call_each, peers, pair, theirs[:len(takes)]), 1, 4)
            against = "a Python loop"
        else:
            continue
        yield (f"| `{name}` | {a_ / STATES:.3f} | {against}, {b_ / STATES:.3f} "
               f"| {b_ / a_:.1f} |")


def error(actual, expected):
    """Largest difference, relative to the largest number unless that is zero."""
    return np.abs(actual - expected).max() / (np.abs(expected).max() or 1.0)


def accuracy():
    """Rows: name, largest relative error over all robots, fixed and floating, and where."""
    worst = {name: (0.0, "") for name in ALGORITHMS}
    for robot in peer.FILES:
        for root_joint in (None, "floating"):
            pair = peer.pair(robot, root_joint)
            for seed in range(5):
                q, v, a, _ = pair.state(seed)
                for name, (ours, _, takes, _) in ALGORITHMS.items():
                    arguments = [{"q": q, "v": v, "a": a}[key] for key in takes]
                    e = error(ours(pair.model, pair.data, *arguments),
                              getattr(pair, name)(*arguments))
                    worst[name] = max(worst[name], (e, f"{robot}, {root_joint or 'fixed'}"))
    for name, (e, where) in worst.items():
        yield f"| `{name}` | {e:.1e} | {where} |"


def report():
    """The lines of the page."""
    yield "# Performance"
    yield ""
    yield ("Made by `python benchmarks/engine.py --write docs/performance.md` "
           f"beside Pinocchio {pinocchio.__version__}, in one run, on {platform.machine()} with "
           f"Python {platform.python_version()}. Your machine gives other times; the ratios "
           "travel better.")
    for robot, root_joint in ROBOTS:
        model = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint, mimic="ignore")
        pair = peer.Pair(model, peer.pinocchio_model(peer.urdf(robot), root_joint))
        yield ""
        yield f"## {robot}, {root_joint or 'fixed'} base, nv = {model.nv}"
        yield ""
        yield "One state, called from Python:"
        yield ""
        yield "| | dyn_ros [us] | Pinocchio [us] | ratio |"
        yield "| --- | --- | --- | --- |"
        yield from one_state(pair)
        for threads in (1, 2):
            yield ""
            yield f"A batch of {STATES} states, {threads} thread{'s' * (threads > 1)}, per state:"
            yield ""
            yield "| | dyn_ros [us] | Pinocchio [us] | times as fast |"
            yield "| --- | --- | --- | --- |"
            yield from batch(pair, threads)
    yield ""
    yield "## Accuracy"
    yield ""
    yield (f"Largest difference from Pinocchio relative to the result's largest number, over "
           f"{len(peer.FILES)} robots with fixed and floating base and 5 random states each "
           "(an own robot with every joint type among them; mimic joints by projection):")
    yield ""
    yield "| | error | seen with |"
    yield "| --- | --- | --- |"
    yield from accuracy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    path = parser.parse_args().write
    dyn_ros.precompile()
    lines = []
    for line in report():
        print(line, flush=True)
        lines.append(line)
    if path:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
