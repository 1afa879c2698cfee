"""A trained network in what the theory and the pruning need of it, small enough to be stored with the results."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from statmech_attention import results
from statmech_attention.layers.chains import chain
from statmech_attention.layers.kind import Kind
from statmech_attention.layers.linear import Linear
from statmech_attention.layers.skip import SkipHeads
from statmech_attention.model.attention import QueryKeyAttention, attention_from_queries_and_keys
from statmech_attention.model.network import weights_order_parameters
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.training.path_form import Parameters, effective_vectors

_KINDS = {kind.__name__: kind for kind in (Linear, SkipHeads)}

CURVE = ("step", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy")


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    r"""Attention and effective weights of a trained network, in the scaling of (1) to (7).

    Attributes:
        queries: $Q^{(l,h)}$, one array `(H_l, dimension, features)` a layer, float32.
        keys: $K^{(l,h)}$, the same shapes.
        vectors: $v^\pi = (N N_0 \prod_l H_l)^{-1/2} {V^{(0)}}^\top w^\pi$, `(paths, features)`, float32; the output is
            $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$. Along a skip $H_l$ is left out.
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ of these weights by (13); the last is a scalar.
        value_norms: Frobenius norms of $V^{(l,h)}$, one array `(H_l,)` a layer.
        width: $N$.
        curve: one row a validation, with columns `CURVE`.
        best_step: after how many steps these weights were reached.
        heads: $(H_1, .., H_L)$, or layers of other kinds among them, as in `(SkipHeads(4), SkipHeads(4))`.
    """

    queries: tuple[Float[np.ndarray, "_heads dimension features"], ...]
    keys: tuple[Float[np.ndarray, "_heads dimension features"], ...]
    vectors: Float[np.ndarray, "paths features"]
    order_parameters: tuple[Float[np.ndarray, "..."], ...]
    value_norms: tuple[Float[np.ndarray, " _heads"], ...]
    width: int
    curve: Float[np.ndarray, "validations 5"]
    best_step: int
    heads: tuple[int | Kind, ...]

    @property
    def attention(self) -> QueryKeyAttention | tuple[()]:
        """The attention of equation (3), in JAX's default precision, of the layers that have heads."""
        dtype = jnp.result_type(float)
        layers = [[jnp.asarray(layer, dtype) for layer in side if len(layer)] for side in (self.queries, self.keys)]
        return attention_from_queries_and_keys(*layers) if layers[0] else ()

    def outputs(self, attentioned: AttentionedInputs) -> Float[Array, " examples"]:
        r"""The network's outputs $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$.

        Args:
            attentioned: `attentioned_inputs(inputs, network.attention, "mean", network.heads)`.

        Returns:
            `(examples,)`.

        Raises:
            ValueError: other paths or features than the network's.
        """
        if attentioned.values.shape[1:] != self.vectors.shape or attentioned.heads != self.heads:
            raise ValueError(
                f"attentioned: wanted heads {self.heads} and (paths, features) {self.vectors.shape}, got heads "
                f"{attentioned.heads} and {attentioned.values.shape[1:]}. Compute it with this network's attention."
            )
        return jnp.einsum("epi,pi->e", attentioned.values, jnp.asarray(self.vectors, attentioned.values.dtype))


def trained_network(parameters: Parameters, curve=None, best_step: int = 0, heads=None) -> TrainedNetwork:
    """What is kept of trained parameters.

    Args:
        parameters: in the trained scaling.
        curve: the learning curve, if there is one.
        best_step: after how many steps the parameters were reached.
        heads: the layers, where they are not of heads alone.

    Returns:
        `TrainedNetwork`.
    """
    weights = parameters.weights()
    layers = chain(tuple(len(values) for values in weights.values) if heads is None else heads)
    overlaps = tuple(np.asarray(overlap, np.float64) for overlap in weights_order_parameters(weights, layers))
    norms = tuple(np.sqrt(np.sum(np.asarray(layer, np.float64) ** 2, axis=(1, 2))) for layer in weights.values)
    return TrainedNetwork(
        tuple(np.asarray(layer) for layer in parameters.queries),
        tuple(np.asarray(layer) for layer in parameters.keys),
        np.asarray(effective_vectors(parameters, layers)),
        overlaps,
        norms,
        len(parameters.readout),
        np.zeros((0, len(CURVE))) if curve is None else np.asarray(curve),
        best_step,
        layers.spelled,
    )


def save_network(network: TrainedNetwork, path: str | os.PathLike, **record) -> Path:
    """Write a trained network as a recorded result: 1.5 MB for 8 heads with G = 128.

    Args:
        network: a `TrainedNetwork`.
        path: where to, ending in `.nc`.
        record: `parameters` and the rest that `results.save` takes.

    Returns:
        The path.

    Raises:
        ValueError: as `results.save`.
    """
    return results.save(network_dataset(network), path, **record)


def network_dataset(network: TrainedNetwork) -> xr.Dataset:
    """A trained network as `save_network` writes it."""
    variables = {
        "vectors": (("path", "feature"), network.vectors),
        "readout_order_parameter": network.order_parameters[-1],
    }
    for layer in range(1, len(network.heads) + 1):
        head = f"head_{layer}"
        value = f"value_{layer}" if len(network.value_norms[layer - 1]) != len(network.queries[layer - 1]) else head
        partial = (f"partial_path_{layer}", f"partial_path_{layer}_other")
        variables[f"queries_{layer}"] = ((head, "dimension", "feature"), network.queries[layer - 1])
        variables[f"keys_{layer}"] = ((head, "dimension", "feature"), network.keys[layer - 1])
        variables[f"value_norms_{layer}"] = ((value,), network.value_norms[layer - 1])
        variables[f"order_parameter_{layer}"] = (partial, network.order_parameters[layer - 1])
    for column, name in enumerate(CURVE):
        variables[name] = (("validation",), network.curve[:, column])
    attributes = {"width": network.width, "best_step": network.best_step, "layers": len(network.heads)}
    if any(isinstance(layer, Kind) for layer in network.heads):
        attributes["heads"] = json.dumps([_written(layer) for layer in network.heads])
    return xr.Dataset(variables, attrs=attributes)


def load_network(path: str | os.PathLike) -> TrainedNetwork:
    """Read a trained network.

    Args:
        path: a file that `save_network` wrote.

    Returns:
        `TrainedNetwork`.

    Raises:
        FileNotFoundError, ValueError: as `results.load`; a file of something else.
    """
    dataset = results.load(path)
    if "queries_1" not in dataset or not set(CURVE) <= set(dataset):
        raise ValueError(
            f"{path}: wanted a trained network, got a result with {', '.join(map(str, dataset)) or 'nothing'}."
        )
    layers = range(1, int(dataset.attrs["layers"]) + 1)

    def each(name: str) -> tuple:
        return tuple(dataset[f"{name}_{layer}"].values for layer in layers)

    queries = each("queries")
    if "heads" in dataset.attrs:
        heads = tuple(_read(written) for written in json.loads(dataset.attrs["heads"]))
    else:
        heads = tuple(len(layer) for layer in queries)
    return TrainedNetwork(
        queries,
        each("keys"),
        dataset["vectors"].values,
        (*each("order_parameter"), dataset["readout_order_parameter"].values),
        each("value_norms"),
        int(dataset.attrs["width"]),
        np.stack([dataset[name].values for name in CURVE], axis=1),
        int(dataset.attrs["best_step"]),
        chain(heads).spelled,
    )


def _written(layer: int | Kind):
    """A layer as JSON can hold it."""
    if isinstance(layer, Kind) and type(layer) is not _KINDS.get(type(layer).__name__):
        raise ValueError(f"heads: wanted numbers and layers of {', '.join(_KINDS)} to record, got {layer!r}.")
    return [type(layer).__name__, asdict(layer)] if isinstance(layer, Kind) else layer


def _read(written) -> int | Kind:
    return _KINDS[written[0]](**written[1]) if isinstance(written, list) else written
