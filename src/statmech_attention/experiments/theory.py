"""The theory on a trained network's queries and keys, over widths and temperatures, recorded: Figures 3 and 6."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from tqdm import tqdm

from statmech_attention import checks, results
from statmech_attention.experiments._files import digest, experiment_file
from statmech_attention.experiments._kinds import PLAIN, of_kind
from statmech_attention.experiments._parts import Parts
from statmech_attention.experiments._theory_points import Draw, draw_of, gp_limit, one_width
from statmech_attention.tasks.one_shot_sets import one_shot_suite
from statmech_attention.training.files import load_network

WIDTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
TEMPERATURES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5)

_MODULES = ("experiments.theory",)


def theory(
    folder: str | os.PathLike,
    *,
    data: str = "omniglot",
    layers: int = 2,
    heads: int = 4,
    kind: str = PLAIN,
    seed: int = 0,
    draws: int = 3,
    widths=WIDTHS,
    temperatures=TEMPERATURES,
    examples: int = 600,
    test_examples: int = 1000,
    progress: bool | None = None,
) -> Path:
    r"""Solve the saddle point (11) for every width and temperature, and test the predictor (9), unless that is done.

    For each draw of the training sequences, every width starts from the solution at the next larger one. A width of a
    draw that is solved is kept beside the result until all are; an interrupted run goes on from there.

    Args:
        folder: of the results, with the trained network.
        data: a name for `one_shot_suite`.
        layers: $L$.
        heads: $H$, of every layer.
        kind: of the layers, "heads" or "skip".
        seed: of the training; the draws come from it too.
        draws: how many draws of training and test sequences.
        widths: $N$, in any order.
        temperatures: $T$, in any order.
        examples: $P$, training sequences of a draw.
        test_examples: sequences of every test set, and of the validation classes, in a draw.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded result. Widths and temperatures are sorted; `best_temperature` and the order parameters, which are
        at that temperature, are chosen by accuracy in distribution, as in the paper.

    Raises:
        FileNotFoundError: no network there, or no images.
        ValueError: numbers out of range, single precision; as `one_shot_suite`.
    """
    for name, number in (("draws", draws), ("examples", examples), ("test_examples", test_examples)):
        if not checks.is_whole(number, 1):
            raise ValueError(f"{name}: wanted a whole number of at least 1, got {number!r}.")
    for name, values in (("widths", widths), ("temperatures", temperatures)):
        if not len(values) or len(set(values)) < len(values) or not all(0 < value < np.inf for value in values):
            raise ValueError(f"{name}: wanted different positive numbers, at least one, got {list(values)}.")
    checks.need_double("attentioned", np.zeros(()))
    source, path = (experiment_file(name, folder, layers, heads, seed, kind) for name in ("network", "theory"))
    parameters = {
        "data": data,
        "layers": layers,
        "heads": heads,
        **of_kind(kind),
        "seed": seed,
        "draws": draws,
        "widths": sorted(map(float, widths)),
        "temperatures": sorted(map(float, temperatures)),
        "examples": examples,
        "test_examples": test_examples,
        "network": digest(source),  # a network trained anew puts the result out of date
    }
    if results.is_current(path, parameters):
        return path
    suite, network = one_shot_suite(data), load_network(source)
    parts, rows = Parts(path, parameters, _MODULES), []
    total = draws * len(parameters["widths"]) * len(parameters["temperatures"])
    with tqdm(total=total, unit="point", disable=None if progress is None else not progress) as bar:
        for number in range(draws):
            options = {"seed": seed, "number": number, "examples": examples, "tests": test_examples}
            # Drawn only where a part is missing.
            draw = functools.cache(functools.partial(draw_of, suite, network, **options))
            rows.append(_solved(draw, parts, number, parameters, bar))
    return parts.finish(xr.concat(rows, _axis("draw", range(draws))), seed)


def _solved(draw: Callable[[], Draw], parts: Parts, number: int, parameters: dict, bar: tqdm) -> xr.Dataset:
    """All widths of one draw, from the widest to the narrowest; those that are recorded are read."""
    temperatures = parameters["temperatures"]
    limit = parts.part(f"draw{number}-gp", lambda: gp_limit(draw(), temperatures))
    found, wider = [], None
    for width in reversed(parameters["widths"]):
        name = f"draw{number}-width{width:g}"
        if parts.is_done(name):
            bar.update(len(temperatures))
        wider = parts.part(name, lambda width=width, start=wider: one_width(draw(), width, temperatures, start, bar))
        found.insert(0, wider)
    # Starts for narrower widths are not worth keeping.
    found = [part[[name for name in part if not str(name).startswith("start_")]] for part in found]
    return xr.concat(found, _axis("width", parameters["widths"])).merge(limit)


def _axis(name: str, values) -> xr.DataArray:
    return xr.DataArray(list(values), dims=name, name=name)
