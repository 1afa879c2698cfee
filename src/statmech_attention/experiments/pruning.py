"""Pruning the heads of a trained network, recorded: section 4.2 and appendix H.2.3 of Tiberi et al. (2024)."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from tqdm import tqdm

from statmech_attention import checks, results
from statmech_attention.experiments._files import digest, experiment_file
from statmech_attention.experiments._kinds import PLAIN, layers_of, of_kind
from statmech_attention.experiments._pruning_measures import Seen, by_criterion, by_theory, costs
from statmech_attention.experiments._seen import seen_by
from statmech_attention.pruning import path_contributions, path_covariance
from statmech_attention.tasks.one_shot import OneShotSample
from statmech_attention.tasks.one_shot_sets import OneShotSuite, one_shot_suite
from statmech_attention.training import TrainedNetwork, load_network

_MODULES = ("experiments.pruning",)
_BATCH = 500
_COVARIANCE_EXAMPLES = 1000


def pruning(
    folder: str | os.PathLike,
    *,
    data: str = "omniglot",
    layers: int = 2,
    heads: int = 4,
    kind: str = PLAIN,
    seed: int = 0,
    examples: int = 10_000,
    test_examples: int = 10_000,
    progress: bool | None = None,
) -> Path:
    """Score the heads of a trained network in several ways, remove them, and record what that costs.

    Scores come from the theory's order parameters, from the network's weights, and from sequences of the validation
    classes; what a removal costs is measured on the test sets. A run takes a minute or two, and an interrupted one
    starts again.

    Args:
        folder: of the results, with the trained network and the theory on its queries and keys.
        data: a name for `one_shot_suite`.
        layers: $L$.
        heads: $H$, of every layer, at least 2.
        kind: of the layers, "heads", or "skip", which may lose all their heads.
        seed: of the training; sequences are drawn with it too.
        examples: sequences of the validation classes.
        test_examples: sequences of every test set.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded result, with dimensions named in full: `theory_` marks what has a definition of the score, a draw
        of the theory's training sequences and a width; the rest has a criterion.

    Raises:
        FileNotFoundError: no network or no theory there.
        ValueError: numbers out of range; a network or theory of other heads; single precision; as `one_shot_suite`.
    """
    for name, number, least in (("layers", layers, 1), ("examples", examples, 2), ("test_examples", test_examples, 2)):
        if not checks.is_whole(number, least):
            raise ValueError(f"{name}: wanted a whole number of at least {least}, got {number!r}.")
    if not checks.is_whole(heads, 2):
        raise ValueError(f"heads: wanted at least 2 in every layer, so that one can be removed, got {heads!r}.")
    checks.need_double("contributions", np.zeros(()))
    sources = {name: experiment_file(name, folder, layers, heads, seed, kind) for name in ("network", "theory")}
    parameters = {
        "data": data,
        "layers": layers,
        "heads": heads,
        **of_kind(kind),
        "seed": seed,
        "examples": examples,
        "test_examples": test_examples,
        # A network trained anew, or a theory solved anew, puts the result out of date.
        **{name: digest(path) for name, path in sources.items()},
    }
    path = experiment_file("pruning", folder, layers, heads, seed, kind)
    if results.is_current(path, parameters):
        return path
    began = time.monotonic()
    network = load_network(sources["network"])
    wanted = layers_of(kind, layers, heads)
    if network.heads != wanted:
        raise ValueError(f"{sources['network']}: wanted heads {wanted}, got {network.heads}. Train it again.")
    order_parameters = _theory(sources["theory"], network, parameters["network"])
    suite = one_shot_suite(data)
    counts = {None: examples, **dict.fromkeys(suite.test_sets, test_examples)}
    total = sum(-(-count // _BATCH) for count in counts.values())
    with tqdm(total=total, unit="batch", disable=None if progress is None else not progress) as bar:
        seen = {name: _seen(network, suite, name, count, seed, bar) for name, count in counts.items()}
    validation, covariance = seen.pop(None), _covariance(network, suite, examples, seed)
    dataset = costs(network, seen).merge(by_criterion(network, validation, covariance, seen, seed))
    dataset = dataset.merge(by_theory(network, order_parameters, covariance, seen))
    results.save(
        dataset,
        path,
        parameters=parameters,
        seed=seed,
        wall_seconds=time.monotonic() - began,
        modules=_MODULES,
    )
    return path


def pruning_samples(suite: OneShotSuite, name: str | None, *, examples: int, seed: int) -> Iterator[OneShotSample]:
    """The sequences that `pruning` measures on, in batches.

    Args:
        suite: the result of `one_shot_suite`.
        name: one of its test sets, or None for the validation classes.
        examples: how many in all.
        seed: of the network.

    Returns:
        An iterator over `OneShotSample`.

    Raises:
        ValueError: no test set of that name.
    """
    number = 0 if name is None else 1 + list(suite.test_sets).index(name) if name in suite.test_sets else -1
    if number < 0:
        raise ValueError(f"name: wanted one of {', '.join(suite.test_sets)}, got {name!r}.")
    key = jax.random.fold_in(jax.random.key(seed), number)
    for batch, start in enumerate(range(0, examples, _BATCH)):
        count, batch_key = min(_BATCH, examples - start), jax.random.fold_in(key, batch)
        if name is None:
            yield suite.task.sample(batch_key, count, suite.split.validation)
        else:
            yield suite.test(batch_key, count, name)


def _seen(network: TrainedNetwork, suite: OneShotSuite, name, examples: int, seed: int, bar: tqdm) -> Seen:
    parts = []
    for sample in pruning_samples(suite, name, examples=examples, seed=seed):
        contributions = path_contributions(network, seen_by(network, [sample.inputs]))
        parts.append(Seen(np.asarray(contributions), np.asarray(sample.labels)))
        bar.update()
    return Seen(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _covariance(network: TrainedNetwork, suite: OneShotSuite, examples: int, seed: int) -> Float[Array, "paths paths"]:
    """Of the paths, on some of the sequences of the validation classes."""
    samples = pruning_samples(suite, None, examples=min(examples, _COVARIANCE_EXAMPLES), seed=seed)
    return path_covariance(seen_by(network, (sample.inputs for sample in samples)))


def _theory(path: Path, network: TrainedNetwork, network_digest: str) -> xr.DataArray:
    """The theory's order parameters, at the best temperature of each width."""
    made_for = results.record(path)["parameters"].get("network", network_digest)
    if made_for != network_digest:
        raise ValueError(f"{path}: the theory of another network than the one beside it. Run the theory again.")
    dataset = results.load(path)
    dimensions = ("draw", "width", "path", "path_other")
    paths = len(network.vectors)
    found = dataset.get("order_parameter")
    if found is None or set(found.dims) != set(dimensions) or "width" not in dataset.coords:
        raise ValueError(
            f"{path}: wanted a theory with `order_parameter` over {', '.join(dimensions)} and the coordinate `width`, "
            f"got {', '.join(map(str, dataset)) or 'nothing'}. Run the theory again."
        )
    found = found.transpose(*dimensions)
    if found.shape[2:] != (paths, paths):
        raise ValueError(f"{path}: wanted {paths} paths, got {found.shape[2:]}. Run the theory again.")
    return found
