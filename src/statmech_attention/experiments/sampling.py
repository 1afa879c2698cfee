"""NUTS on all weights for the hidden Markov chains, recorded: the samples of Figures 2(c) and 2(e)."""

import os
from pathlib import Path

import jax
import numpy as np
import xarray as xr

from statmech_attention import checks, results
from statmech_attention.sampling.diagnostics import estimate
from statmech_attention.sampling.weights import weights_posterior
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial

# Heads that are kept in each layer.
NETWORKS = {"all": ((0, 1), (0, 1)), "good and denoising": ((0, 1), (0,))}

_MODULES = ("experiments.sampling",)


def sampling_trial(
    seed: int, *, network: str = "all", noise: float = 1.0, examples: int = 100, test_examples: int = 1000
) -> HiddenMarkovTrial:
    r"""Data and heads of the hidden Markov chains, as one of the paper's networks sees them.

    Args:
        seed: of data and heads.
        network: "all" paths, or "good and denoising" only.
        noise: $\sigma_\perp$.
        examples: training chains.
        test_examples: test chains.

    Returns:
        `HiddenMarkovTrial`.

    Raises:
        ValueError: an unknown network, numbers out of range.
    """
    if network not in NETWORKS:
        raise ValueError(f"network: wanted one of {', '.join(NETWORKS)}, got {network!r}.")
    trial = HiddenMarkov(perpendicular_noise=noise).trial(jax.random.key(seed), examples, test_examples)
    kept = NETWORKS[network]
    return trial._replace(train=trial.train.keep_heads(kept), test=trial.test.keep_heads(kept))


def sampling_file(folder: str | os.PathLike, width: int, seed: int, network: str = "all", noise: float = 1.0) -> Path:
    """Where the draws for one network are recorded.

    Args:
        folder: of the results.
        width: $N$.
        seed: of data, heads and draws.
        network: as for `sampling_trial`.
        noise: as for `sampling_trial`.

    Returns:
        A path ending in `.nc`.
    """
    return Path(folder) / f"weights-{network.replace(' ', '-')}-noise{noise:g}-width{width}-seed{seed}.nc"


def sampling(
    folder: str | os.PathLike,
    *,
    width: int,
    seed: int = 0,
    network: str = "all",
    noise: float = 1.0,
    temperature: float = 0.01,
    examples: int = 100,
    test_examples: int = 1000,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 1000,
    thinning: int = 1,
    progress: bool | None = None,
) -> Path:
    """Sample the posterior (8) of all weights by NUTS and record order parameters and outputs, unless that is done.

    The state is kept beside the result after every block of draws; an interrupted run goes on from there.

    Args:
        folder: of the results.
        width: $N$.
        seed: of data, heads and draws.
        network: as for `sampling_trial`.
        noise: as for `sampling_trial`.
        temperature: $T$.
        examples: $P$.
        test_examples: test chains.
        chains: chains side by side, started from the prior.
        warmup: iterations in which step size and masses adapt.
        draws: draws a chain that are kept.
        thinning: iterations a draw.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded result: the order parameters of every draw, what NUTS reports of it, and of the outputs on the test
        chains their mean and variance in every chain, with R-hat and effective size.

    Raises:
        ValueError: numbers out of range, single precision, an unknown network.
    """
    checks.need_double("attentioned", np.zeros(()))
    path = sampling_file(folder, width, seed, network, noise)
    task = {
        "network": network,
        "noise": float(noise),
        "examples": examples,
        "test_examples": test_examples,
        "seed": seed,
    }
    counts = {"chains": chains, "warmup": warmup, "draws": draws, "thinning": thinning}
    parameters = {**task, **counts, "width": width, "temperature": float(temperature)}
    if results.is_current(path, parameters):
        return path
    trial = sampling_trial(seed, network=network, noise=noise, examples=examples, test_examples=test_examples)
    state = path.parent / "checkpoints" / f"{path.stem}.npz"
    found = weights_posterior(
        trial.train,
        trial.labels,
        width=width,
        temperature=temperature,
        key=jax.random.fold_in(jax.random.key(seed), width),
        test=trial.test,
        checkpoint=state,
        progress=progress,
        quiet=True,
        **counts,
    )
    results.save(_summary(found, trial), path, parameters=parameters, seed=seed, modules=_MODULES)
    state.unlink(missing_ok=True)
    return path


def recorded_sampling(folder: str | os.PathLike) -> list[xr.Dataset]:
    """All recorded draws in a folder, in the order of their files' names; an empty list where there are none.

    Args:
        folder: of the results.

    Returns:
        Datasets, with the parameters of the run as attributes besides their own.

    Raises:
        ValueError: as `results.load`.
    """
    files = sorted(Path(folder).glob("weights-*.nc"))
    return [results.load(path).assign_attrs(results.record(path)["parameters"]) for path in files]


def _summary(found: xr.Dataset, trial: HiddenMarkovTrial) -> xr.Dataset:
    """The draws without the outputs of each, which are many."""
    every = found["output"]
    summary = found.drop_vars("output").assign(
        output_mean=every.mean("draw"),
        output_variance=every.var("draw"),
        output_error=("example", estimate(every).error),
        test_labels=("example", np.asarray(trial.test_labels)),
    )
    # The record has these as parameters.
    return summary.drop_attrs().assign_attrs({name: found.attrs[name] for name in ("sampler", "warning")})
