"""Every public function of the library on nonsense, one argument at a time: an error of the house or a result."""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

LONGEST = 20  # seconds that a call may take
OPEN = {"progress", "warn"}  # switches
NONSENSE = [None, "35", True, -1, math.nan, 10**400, [], [[1.0], [1.0, 2.0]], {}, object(), np.array(["a"])]
NONSENSE += [np.full((3, 4, 5), np.nan), np.ones((1,) * 6)]
WRONG = ["35", np.ones((1,) * 6)]  # in a field of a record made by hand


@pytest.mark.skipif(sys.platform == "win32", reason="no alarm to end a loop that does not")
def test_nonsense_is_refused_or_has_a_result(tmp_path):
    # In a process of its own, where nothing checks types before the functions do.
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, __file__]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), f"{done.stdout}\n{done.stderr[-2000:]}"


def usual(sma):
    """Usual values of arguments of these names; of a single function by the names of both."""
    rng, key = np.random.default_rng(0), jax.random.key(0)
    inputs, labels = rng.normal(size=(3, 4, 3)), np.array([1.0, -1.0, 1.0])
    products = [rng.normal(size=(2, 3, 3))]
    attention = sma.attention_from_products(products)
    seen, physics = sma.attentioned_inputs(inputs, attention), {"width": 8, "temperature": 0.3}
    problem = sma.Problem(seen, labels, **physics)
    solution = sma.solve(problem)
    weights = sma.sample_weights(key, layers=(2,), width=8, features=3)
    patterns = sma.dmft.published_patterns(segments=None, seed=1, sites=6)
    model = sma.dmft.dynamics(patterns, beta=1.2, gamma=3.0, epsilon=0.1)
    window, draws = sma.dmft.initial_window(model), rng.normal(size=(2, 8))
    spectrum = sma.dmft.lyapunov_spectrum(model, window, steps=4, count=2, blocks=2)
    chains = {"draws": 4, "count": 2, "warmup": 2, "warn": False}
    found = physics | chains | {"problem": problem, "chains": sma.Chains(**chains)}
    found |= {"attentioned": seen, "test": seen, "others": seen, "labels": labels, "key": key}
    found |= {"inputs": inputs, "attention": attention, "products": products, "queries": products, "keys": products}
    found |= {"solution": solution, "order_parameter": solution.order_parameter, "weights": weights, "layers": (2,)}
    found |= {"order_parameters": solution.order_parameters, "temperatures": [0.3], "widths": [8], "head": 0}
    found |= {"removed": [0], "network": weights}
    found |= {"points": 4, "kernel": np.eye(3), "features": 3, "directions": 2}
    found |= {f"{name}.draws": draws for name in ("effective_size", "estimate", "r_hat")}
    found |= {"mean": labels, "paths": [0], "scores": np.array([1.0, 0.5])}
    found |= {"spectrum": spectrum, "model": model, "window": window, "first": window, "second": window, "steps": 2}
    found |= {"patterns": patterns, "tokens": 4, "sequences": [inputs[0]], "examples": 2, "layer": sma.Heads(1)}
    found |= {"transient": 1, "discard": 1, "blocks": 2, "longest": 4, "period": 4, "turns": 1, "sites": 6}
    found |= {"beta": 1.2, "gamma": 3.0, "epsilon": 0.1, "one": patterns.query, "other": patterns.key, "slot": 0}
    found |= {"levels": 5, "max_steps": 5, "table": np.ones((2, 3)), "kept": ((0,),), "segments": 3, "folds": 2}
    found |= {"path": "one.nc"}
    found |= {"order": [0], "parameters": {}, "definition": "both", "test_examples": 2, "times": 2, "rungs": 2}
    found |= {"trial.products": None}
    found |= {"select_heads.problem": problem + problem, "select_heads.keep": 1}
    found |= {f"{name}.window": 4 for name in ("random_patterns", "positional_code", "published_patterns")}
    pair = (patterns.query.words, patterns.query.positions)
    found |= {f"patterns_from_arrays.{side}": pair for side in ("query", "key", "value", "output")}
    found |= {"window_from_attention.attention": np.zeros((4, 3)), "words": np.ones((1, 6))}
    found |= {"prediction.draws": xr.Dataset({"output": (("chain", "draw", "example"), np.ones((2, 4, 3)))})}
    found |= {"predictors.draws": sma.posterior(problem, key=key, chains=found["chains"])}

    def mean(theta):
        return sum(leaf.mean() for leaf in jax.tree.leaves(theta))

    thetas = {name: {"a": np.ones(shape)} for name, shape in (("learn", ()), ("posterior", (2,)))}
    found |= {"learn_attention.theta": thetas["learn"], "attention_evidence.theta": thetas["learn"]}
    found |= {"attention_posterior.theta": thetas["posterior"], "log_prior": lambda theta: -(mean(theta) ** 2)}
    found |= {"problem_of": lambda theta, *_: sma.Problem(seen.values * mean(theta), labels, **physics, layers=(2,))}
    found |= {"learn_attention.steps": 2, "permutations": 2, "select_heads.method": "theory"}
    found |= {"noise": np.eye(2), "signal": np.ones(2)}
    found |= {"problems": [problem]}
    found |= {"from_transformers.model": object(), "batch": {}}
    found |= {"inference_data.draws": xr.Dataset({"order_parameter": (("chain", "draw"), draws)})}
    return found


def calls(sma):
    """Names and functions of the public rooms, and methods of objects that are as they should be."""
    rooms = (sma, sma.model, sma.theory, sma.layers, sma.pruning)
    rooms += (sma.sampling, sma.tasks, sma.training)
    kinds = (sma.Problem, sma.Chains, sma.Heads, sma.Outputs, sma.SkipHeads, sma.tasks.HiddenMarkov)
    public = {name: getattr(room, name) for room in rooms for name in room.__all__}
    for name, function in public.items():
        if callable(function) and (not inspect.isclass(function) or function in kinds):
            yield name, function
    given, task = usual(sma), sma.tasks.HiddenMarkov(length=3, token_size=4)
    methods += (task.sample, task.heads, task.trial, sma.Problem.from_transformers)
    methods = (given["solution"].predict, given["solution"].kernel, given["attentioned"].keep_heads)
    methods += (task.sample, task.heads, task.trial, sma.Problem.from_transformers)
    for method in methods:
        yield method.__name__, method


def good_arguments(name, function, given):
    """Arguments beside nonsense: those that a function needs, or whose usual values are known."""
    found = {one: given.get(f"{name}.{one}", given.get(one)) for one in open_arguments(function)}
    parameters = inspect.signature(function).parameters
    return {
        one: value for one, value in found.items() if value is not None or parameters[one].default is inspect._empty
    }


def open_arguments(function):
    parameters = inspect.signature(function).parameters.items()
    return [one for one, kind in parameters if kind.kind not in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL)]


def not_refused(name, maker, given):
    """Objects made of nonsense all the same, such as a problem without a width."""
    for argument, value in itertools.product(set(open_arguments(maker)) - OPEN, NONSENSE):
        with contextlib.suppress(ValueError):
            yield maker(**good_arguments(name, maker, given) | {argument: value})


def with_wrong_fields(record):
    """Records like this one, each with one field of another kind."""
    fields = getattr(record, "_fields", ()) or getattr(record, "__dataclass_fields__", ())
    change = getattr(record, "_replace", functools.partial(dataclasses.replace, record))
    for field, value in itertools.product(fields, WRONG):
        with contextlib.suppress(ValueError, TypeError):  # refused already, or made by a function of its own
            yield change(**{field: value})


def too_long(*_):
    raise TimeoutError(f"not done after {LONGEST} s")


def complaints():
    import statmech_attention as sma

    sma.enable_x64()
    given = usual(sma)
    errors = (ValueError, FileNotFoundError, FloatingPointError, sma.NotConverged)
    made = {
        name: [*not_refused(name, maker, given)] for name, maker in (("problem", sma.Problem), ("chains", sma.Chains))
    }
    for name, function in calls(sma):
        parameters, good = inspect.signature(function).parameters, good_arguments(name, function, given)
        trials = [(one, value) for one in open_arguments(function) for value in [*NONSENSE, *made.get(one, ())]]
        trials += [(one, wrong) for one, value in good.items() for wrong in with_wrong_fields(value)]
        for argument, value in trials:
            if {argument, f"{name}.{argument}"} & OPEN or isinstance(parameters[argument].default, bool):
                continue  # anything is true or false
            try:
                signal.setitimer(signal.ITIMER_REAL, LONGEST)
                function(**good | {argument: value})
            except errors:
                pass
            except Exception as error:
                yield f"{name}({argument}={value!r:.40}): {type(error).__name__}: {str(error)[:150]!r}"
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, too_long)
    warnings.simplefilter("ignore")
    for complaint in complaints():
        print(complaint, flush=True)
