"""Samples of the posterior on a trained network's queries and keys, recorded: Figures 3(b) and 3(c) beyond the theory."""

import functools
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from statmech_attention import checks, results
from statmech_attention.experiments._files import digest, experiment_file
from statmech_attention.experiments._parts import Parts
from statmech_attention.experiments._theory_points import Draw, draw_of
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling import (
    Estimate,
    check_chains,
    effective_size,
    estimate,
    mean_accuracy,
    posterior,
    predictors,
    r_hat,
    weights_posterior,
)
from statmech_attention.tasks.one_shot_sets import one_shot_suite
from statmech_attention.training.network import load_network

SAMPLERS = ("posterior", "weights")

_MODULES = ("experiments.one_shot_sampling",)


def one_shot_sampling(
    folder: str | os.PathLike,
    *,
    sampler: str = "posterior",
    data: str = "omniglot",
    layers: int = 2,
    heads: int = 4,
    seed: int = 0,
    number: int = 0,
    widths=(10, 100, 1000),
    chains: int = 4,
    warmup: int = 300,
    draws: int = 500,
    thinning: int = 1,
    progress: bool | None = None,
) -> Path:
    """Sample the posterior at the theory's best temperature of each width, on the theory's sequences, unless that is done.

    A width that is done is kept beside the result until all are, and the state of the one in work after every block of
    draws; an interrupted run goes on from there.

    Args:
        folder: of the results, with the trained network and the theory on its queries and keys.
        sampler: "posterior": the order parameters, exactly; "weights": all weights, by NUTS.
        data: a name for `one_shot_suite`.
        layers: $L$.
        heads: $H$, of every layer.
        seed: of the training.
        number: of the theory's draw of sequences.
        widths: $N$, in any order, among those of the theory.
        chains: chains side by side.
        warmup: iterations in which NUTS adapts.
        draws: draws a chain that are kept.
        thinning: iterations a draw.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded result: over widths in rising order means, errors and diagnostics of the order parameter and of the
        outputs on every test set, the accuracy of the mean output, and what NUTS reports of every draw.

    Raises:
        FileNotFoundError: no network or no theory there, or no images.
        ValueError: numbers out of range, an unknown sampler, a width or a draw that the theory has not, single
            precision; as `one_shot_suite`.
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler: wanted one of {', '.join(SAMPLERS)}, got {sampler!r}.")
    if not len(widths) or len(set(widths)) < len(widths) or not all(checks.is_whole(width, 1) for width in widths):
        raise ValueError(f"widths: wanted different whole numbers of at least 1, at least one, got {list(widths)}.")
    checks.need_double("attentioned", np.zeros(()))
    sources = {name: experiment_file(name, folder, layers, heads, seed) for name in ("network", "theory")}
    counts = {"chains": chains, "warmup": warmup, "draws": draws, "thinning": thinning}
    check_chains(**counts)
    parameters = {
        "sampler": sampler,
        "data": data,
        "layers": layers,
        "heads": heads,
        "seed": seed,
        "number": number,
        "widths": sorted(map(float, widths)),
        **counts,
        # A network trained anew, or a theory solved anew, puts the result out of date.
        **{name: digest(path) for name, path in sources.items()},
    }
    path = experiment_file(sampler, folder, layers, heads, seed)
    if results.is_current(path, parameters):
        return path
    temperatures = _best_temperatures(sources["theory"], parameters)
    parts, rows = Parts(path, parameters, _MODULES), []
    sequences = functools.cache(lambda: _sequences(sources, parameters))
    for width, temperature in zip(parameters["widths"], temperatures, strict=True):

        def compute(width=width, temperature=temperature):
            drawn, began = sequences(), time.monotonic()
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), int(width))
            options = {"width": int(width), "temperature": temperature, "key": key, **counts, "progress": progress}
            row = _sampled(sampler, drawn, options | {"checkpoint": _state(path, width)})
            return row.assign(seconds=time.monotonic() - began)

        rows.append(parts.part(f"width{width:g}", compute))
        _state(path, width).unlink(missing_ok=True)
    return parts.finish(xr.concat(rows, xr.DataArray(parameters["widths"], dims="width", name="width")), seed)


def _state(path: Path, width: float) -> Path:
    """Of the chains at one width, beside the parts while they are drawn."""
    return path.parent / "checkpoints" / path.stem / f"width{width:g}.npz"


def _best_temperatures(source: Path, parameters: dict) -> list[float]:
    """The theory's, at the widths that are sampled; refuses a theory of other sequences."""
    made, theory = results.record(source)["parameters"], results.load(source)
    if made["network"] != parameters["network"]:
        raise ValueError(f"{source}: the theory of another network than the one beside it. Run the theory again.")
    missing = sorted(set(parameters["widths"]) - set(made["widths"]))
    if missing:
        raise ValueError(f"widths: wanted some of the theory's, {made['widths']}, got also {missing}.")
    if not checks.is_whole(parameters["number"], 0) or parameters["number"] >= made["draws"]:
        raise ValueError(
            f"number: wanted a draw of the theory's {made['draws']}, from 0, got {parameters['number']!r}."
        )
    best = theory["best_temperature"].sel(draw=parameters["number"], width=parameters["widths"])
    return best.values.tolist()


def _sequences(sources: dict[str, Path], parameters: dict) -> Draw:
    """The theory's sequences, once more."""
    made = results.record(sources["theory"])["parameters"]
    counts = {"examples": made["examples"], "tests": made["test_examples"]}
    suite, network = one_shot_suite(parameters["data"]), load_network(sources["network"])
    return draw_of(suite, network, seed=parameters["seed"], number=parameters["number"], **counts)


def _sampled(sampler: str, drawn: Draw, options: dict) -> xr.Dataset:
    """Draws at one width, summed up."""
    train = drawn.train
    tests = AttentionedInputs(
        jnp.concatenate([seen.inputs.values for seen in drawn.tests.values()]), train.inputs.heads
    )
    if sampler == "weights":
        found = weights_posterior(train.inputs, train.labels, test=tests, quiet=True, **options)
        outputs = found["output"].values
    else:
        found = posterior(train.inputs, train.labels, quiet=True, **options)
        vectors = np.asarray(predictors(found, train.inputs, train.labels))
        # One product for all draws and test sequences.
        chains, draws = vectors.shape[:2]
        outputs = vectors.reshape(chains * draws, -1) @ np.asarray(tests.values).reshape(len(tests.values), -1).T
        outputs = outputs.reshape(chains, draws, -1)
    return _summary(found, outputs, drawn).assign(temperature=options["temperature"])


def _summary(found: xr.Dataset, outputs: np.ndarray, drawn: Draw) -> xr.Dataset:
    """What is recorded of the draws: of order parameters and outputs means, errors and diagnostics only."""
    labels = np.stack([np.asarray(seen.labels) for seen in drawn.tests.values()])
    means = Estimate(*(values.reshape(labels.shape) for values in estimate(outputs)))
    accuracies = [mean_accuracy(Estimate(*one), right) for *one, right in zip(*means, labels, strict=True)]
    overlaps, paths, tests = found["order_parameter"].values, ("path", "path_other"), ("test_set", "example")
    return xr.Dataset(
        {
            "accuracy": ("test_set", [one.mean for one in accuracies]),
            "accuracy_error": ("test_set", [one.error for one in accuracies]),
            "order_parameter": (paths, estimate(overlaps).mean),
            "order_parameter_error": (paths, estimate(overlaps).error),
            "order_parameter_spread": (paths, overlaps.std(axis=(0, 1), ddof=1)),
            "order_parameter_r_hat": (paths, r_hat(overlaps)),
            "order_parameter_effective_size": (paths, effective_size(overlaps)),
            "output": (tests, means.mean),
            "output_error": (tests, means.error),
            "output_r_hat": (tests, r_hat(outputs).reshape(labels.shape)),
            "output_effective_size": (tests, effective_size(outputs).reshape(labels.shape)),
            "test_labels": (tests, labels),
            **{
                name: (("chain", "draw"), found[name].values)
                for name in ("steps", "acceptance", "diverging", "potential")
            },
        },
        coords={"test_set": list(drawn.tests)},
    )
