"""Records made by earlier code: compute part of them again, and say in the record that the numbers are still the same."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from statmech_attention import results
from statmech_attention.experiments._files import digest, experiment_file
from statmech_attention.experiments._kinds import PLAIN, layers_of
from statmech_attention.experiments._theory_points import draw_of, gp_limit, one_width
from statmech_attention.experiments.dynamics import first_part
from statmech_attention.experiments.one_shot_sampling import one_shot_sampling
from statmech_attention.experiments.sampling import sampling
from statmech_attention.tasks.one_shot_sets import one_shot_suite
from statmech_attention.training.files import load_network
from statmech_attention.training.one_shot import train


def confirm(path: str | os.PathLike, *, progress: bool | None = None) -> float:
    """Compute part of a record again; where the numbers are the same, say so in the record, which then is not out of date.

    For code that changed without changing what it computes. Of a network the first validation is computed again, after
    so many steps of training, all of which it depends on. Of a theory, for the first draw: the Gaussian-process limit, the
    widest network at all temperatures, and the narrowest at its best one. Of a diagram the networks of lowest beta. Of
    samples the first draws of all chains, at the narrowest width: a chain forgets nothing, so they rest on all of warm-up.

    Args:
        path: of a record of `trained`, `theory`, `dynamics`, `sampling` or `one_shot_sampling`; beside it what it was
            computed from, the network of a theory, network and theory of samples on it.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The largest relative difference.

    Raises:
        FileNotFoundError: no such record, or not what it was computed from.
        ValueError: another record; numbers that are not the same, which have to be run again.
    """
    path = Path(path)
    record = results.record(path)
    maker = (record.get("modules") or [None])[0]
    if maker not in _WAYS:
        raise ValueError(f"{path}: wanted a record of {', '.join(_WAYS)}, got one of {maker}. Run it again instead.")
    compute, tolerance = _WAYS[maker]
    how, difference = compute(path, record["parameters"], progress)
    if not difference <= tolerance:
        raise ValueError(f"{path}: {how} differs by {difference:.1e} of itself, more than {tolerance:g}. Run it again.")
    results.confirm(path, how=how, difference=difference)
    return difference


def _of_network(path: Path, made: Mapping[str, Any], progress: bool | None) -> tuple[str, float]:
    suite, options = one_shot_suite(made["data"]), ("width", "dimension", "seed", "epochs", "batch")
    options += ("learning_rate", "weight_decay", "validate_every")
    again = train(
        suite.task,
        suite.split,
        heads=layers_of(made.get("kind", PLAIN), made["layers"], made["heads"]),
        stop_after=made["validate_every"],
        progress=progress,
        **{name: made[name] for name in options},
    )
    recorded, found = load_network(path).curve[0], again.curve[0]
    # The first column is the step, which would hide the others.
    return f"the first validation, after {int(found[0])} steps,", _difference(found[1:], recorded[1:])


def _of_theory(path: Path, made: Mapping[str, Any], progress: bool | None) -> tuple[str, float]:
    source = _source(path, made, "network", "the theory")
    recorded, network = results.load(path).isel(draw=0), load_network(source)
    options = {"seed": made["seed"], "number": 0, "examples": made["examples"], "tests": made["test_examples"]}
    draw = draw_of(one_shot_suite(made["data"]), network, **options)
    temperatures, narrow = made["temperatures"], recorded.isel(width=0)
    best = float(narrow["best_temperature"])
    with tqdm(total=1 + len(temperatures), unit="point", disable=None if progress is None else not progress) as bar:
        narrowest = one_width(draw, made["widths"][0], [best], None, bar)
        widest = one_width(draw, made["widths"][-1], temperatures, None, bar)
    pairs = [
        (gp_limit(draw, temperatures), recorded, ("gp_accuracy", "gp_alignment", "gp_eigenvalue")),
        (widest, recorded.isel(width=-1), ("accuracy", "validation_accuracy", "action", "energy", "order_parameter")),
        (narrowest, narrow.sel(temperature=[best]), ("accuracy", "action", "energy", "order_parameter")),
    ]
    found = [_difference(one[name].values, other[name].values) for one, other, names in pairs for name in names]
    return "the limit, the widest and the narrowest network of the first draw", max(found)


def _source(path: Path, made: Mapping[str, Any], name: str, what: str) -> Path:
    """What a record was computed from, beside it; refuses another than it was."""
    shape = (made[one] for one in ("layers", "heads", "seed"))
    source = experiment_file(name, path.parent, *shape, made.get("kind", PLAIN))
    if digest(source) != made[name]:
        raise ValueError(f"{path}: {what} of another {name} than {source.name}. Run it again.")
    return source


def _of_dynamics(path: Path, made: Mapping[str, Any], progress: bool | None) -> tuple[str, float]:
    found, recorded = first_part(made), results.load(path)
    recorded = recorded.isel(way=0) if "way" in recorded.dims else recorded
    recorded = recorded.isel(network=slice(found.sizes["network"]))
    differences = [_difference(found[name].values, recorded[name].values) for name in found.data_vars]
    return f"{found.sizes['network']} networks of lowest beta", max(differences)


def _of_samples(path: Path, made: Mapping[str, Any], progress: bool | None) -> tuple[str, float]:
    with tempfile.TemporaryDirectory() as place:
        again = results.load(sampling(place, **{**made, "draws": _FEW}, progress=progress))
    return _first_draws(again, results.load(path), ("order_parameter", "steps"))


def _of_one_shot_samples(path: Path, made: Mapping[str, Any], progress: bool | None) -> tuple[str, float]:
    sources = {name: _source(path, made, name, "samples") for name in ("network", "theory")}
    options = {name: value for name, value in made.items() if name not in sources}
    narrow = min(made["widths"])
    with tempfile.TemporaryDirectory() as place:
        for source in sources.values():
            shutil.copy(source, place)
        options |= {"widths": [int(narrow)], "draws": _FEW}
        again = results.load(one_shot_sampling(place, **options, progress=progress))
    return _first_draws(again.sel(width=narrow), results.load(path).sel(width=narrow), ("potential", "steps"))


def _first_draws(again, recorded, names) -> tuple[str, float]:
    recorded = recorded.isel(draw=slice(_FEW))
    return f"{_FEW} draws of all chains", max(_difference(again[name].values, recorded[name].values) for name in names)


def _difference(found, recorded) -> float:
    found, recorded = np.asarray(found, float), np.asarray(recorded, float)
    if found.shape != recorded.shape:
        return np.inf
    # Infinite and undefined entries are equal or they are not.
    differ = ~((found == recorded) | (np.isnan(found) & np.isnan(recorded)))
    if not differ.any():
        return 0.0
    size = np.max(np.abs(recorded), where=np.isfinite(recorded), initial=np.finfo(float).tiny)
    return float(np.max(np.abs(found[differ] - recorded[differ])) / size)


_FEW = 4  # draws of samples, the least that a sampler gives

# How, and what difference may be, relative. Training is in single precision and adds up in an order of the machine's own; any
# real change is far larger after a thousand steps. The theory stops where its gradient is 1e-8.
_WAYS = {
    "experiments.trained": (_of_network, 1e-4),
    "experiments.theory": (_of_theory, 1e-6),
    "experiments.dynamics": (_of_dynamics, 1e-6),
    "experiments.sampling": (_of_samples, 1e-6),
    "experiments.one_shot_sampling": (_of_one_shot_samples, 1e-6),
}
