"""What the theory loses of the labels' evidence without each head of a trained network, recorded."""

import functools
import os
import time
from pathlib import Path

import numpy as np
import xarray as xr
from tqdm import tqdm

from statmech_attention import checks, results
from statmech_attention.experiments._files import digest, experiment_file
from statmech_attention.experiments._kinds import PLAIN, of_kind
from statmech_attention.experiments._parts import Parts
from statmech_attention.experiments._theory_points import Seen, draw_of
from statmech_attention.pruning.evidence import COEFFICIENTS, head_evidence, log_evidence
from statmech_attention.pruning.heads import head_indices
from statmech_attention.tasks.one_shot_sets import one_shot_suite
from statmech_attention.training.files import load_network

_MODULES = ("experiments.evidence_lost",)


def evidence_lost(
    folder: str | os.PathLike,
    *,
    data: str = "omniglot",
    layers: int = 2,
    heads: int = 4,
    kind: str = PLAIN,
    seed: int = 0,
    draws: int = 1,
    widths=(10, 100, 10_000),
    progress: bool | None = None,
) -> Path:
    """Solve the theory with all heads and without each of them, on the theory's sequences, unless that is done.

    Every width is at the temperature that the theory found best there. A width of a draw that is done is kept beside the
    result until all are; an interrupted run goes on from there.

    Args:
        folder: of the results, with the trained network and the theory on its queries and keys.
        data: a name for `one_shot_suite`.
        layers: $L$.
        heads: $H$, of every layer, at least 2.
        kind: of the layers, "heads" or "skip".
        seed: of the training.
        draws: how many of the theory's draws of sequences, from the first.
        widths: $N$, in any order, among those of the theory.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded result: over draws, widths in rising order, coefficients of the paths left and heads `lost`, in nats,
        the difference of two log evidences; how the saddle points were reached; and the `log_evidence` of the whole network.

    Raises:
        FileNotFoundError: no network or no theory there, or no images.
        ValueError: numbers out of range, a width or a draw that the theory has not, a theory of another network, single
            precision; as `one_shot_suite`.
    """
    if not checks.is_whole(heads, 2):
        raise ValueError(f"heads: wanted at least 2 in every layer, so that one can be left out, got {heads!r}.")
    if not len(widths) or len(set(widths)) < len(widths) or not all(0 < width < np.inf for width in widths):
        raise ValueError(f"widths: wanted different positive numbers, at least one, got {list(widths)}.")
    if not checks.is_whole(draws, 1):
        raise ValueError(f"draws: wanted a whole number of at least 1, got {draws!r}.")
    checks.need_double("attentioned", np.zeros(()))
    sources = {name: experiment_file(name, folder, layers, heads, seed, kind) for name in ("network", "theory")}
    parameters = {
        "data": data,
        "layers": layers,
        "heads": heads,
        **of_kind(kind),
        "seed": seed,
        "draws": draws,
        "widths": sorted(map(float, widths)),
        # A network trained anew, or a theory solved anew, puts the result out of date.
        **{name: digest(path) for name, path in sources.items()},
    }
    path = experiment_file("evidence", folder, layers, heads, seed, kind)
    if results.is_current(path, parameters):
        return path
    temperatures = _best_temperatures(sources["theory"], parameters)
    parts, rows = Parts(path, parameters, _MODULES), []
    solves = len(COEFFICIENTS) * layers * heads
    total = draws * len(parameters["widths"]) * solves
    with tqdm(total=total, unit="head", disable=None if progress is None else not progress) as bar:
        for number in range(draws):
            train = functools.cache(functools.partial(_training_sequences, sources, parameters, number))
            row = []
            for width in parameters["widths"]:
                temperature = float(temperatures.sel(draw=number, width=width))
                name = f"draw{number}-width{width:g}"
                if parts.is_done(name):
                    bar.update(solves)
                compute = functools.partial(_without_each_head, train, width, temperature, bar)
                row.append(parts.part(name, compute))
            rows.append(xr.concat(row, _axis("width", parameters["widths"])))
    return parts.finish(xr.concat(rows, _axis("draw", range(draws))), seed)


def _best_temperatures(source: Path, parameters: dict) -> xr.DataArray:
    """The theory's, by draw and width; refuses a theory of other sequences."""
    made = results.record(source)["parameters"]
    if made["network"] != parameters["network"]:
        raise ValueError(f"{source}: the theory of another network than the one beside it. Run the theory again.")
    missing = sorted(set(parameters["widths"]) - set(made["widths"]))
    if missing:
        raise ValueError(f"widths: wanted some of the theory's, {made['widths']}, got also {missing}.")
    if parameters["draws"] > made["draws"]:
        raise ValueError(f"draws: wanted at most the theory's {made['draws']}, got {parameters['draws']}.")
    return results.load(source)["best_temperature"]


def _training_sequences(sources: dict[str, Path], parameters: dict, number: int) -> Seen:
    """The theory's training sequences, once more."""
    made = results.record(sources["theory"])["parameters"]
    suite, network = one_shot_suite(parameters["data"]), load_network(sources["network"])
    return draw_of(suite, network, seed=parameters["seed"], number=number, examples=made["examples"], tests=1).train


def _without_each_head(train, width: float, temperature: float, bar: tqdm) -> xr.Dataset:
    """Both choices of coefficients at one width."""
    began, seen = time.monotonic(), train()
    indices = head_indices(seen.inputs.heads)
    found, start = [], None
    for coefficients in COEFFICIENTS:
        one = head_evidence(
            seen.inputs,
            seen.labels,
            width=width,
            temperature=temperature,
            coefficients=coefficients,
            start=start,
            throw=False,
        )
        start = one.whole  # is there already
        found.append(one)
        bar.update(len(indices))
    axes = ("coefficients", "head")
    return xr.Dataset(
        {
            "lost": (axes, np.array([one.lost for one in found])),
            **{
                name: (axes, np.array([[getattr(head, name).item() for head in one.without] for one in found]))
                for name in ("steps", "outcome", "gradient_norm")
            },
            "log_evidence": float(log_evidence(found[0].whole)),
            "action": float(found[0].whole.action),
            "whole_outcome": int(found[0].whole.outcome),
            "temperature": temperature,
            "seconds": time.monotonic() - began,
        },
        coords={
            "coefficients": list(COEFFICIENTS),
            "head_layer": ("head", indices[:, 0] + 1),
            "head_number": ("head", indices[:, 1] + 1),
        },
    )


def _axis(name: str, values) -> xr.DataArray:
    return xr.DataArray(list(values), dims=name, name=name)
