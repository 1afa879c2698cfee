"""Trained networks as recorded results: small netCDF files."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attention_book.one_shot.network import CURVE, TrainedNetwork
from attention_book.runs import results
from statmech_attention.layers.chains import Chain, layers_from_json, layers_to_json
from statmech_attention.layers.kind import Kind


def save_network(network: TrainedNetwork, path: str | os.PathLike, **record: Any) -> Path:
    """Write a trained network as a recorded result: 1.5 MB for 8 heads with G = 128."""
    return results.save(network_dataset(network), path, **record)


def network_dataset(network: TrainedNetwork) -> xr.Dataset:
    """A trained network as `save_network` writes it."""
    variables: dict[str, Any] = {"vectors": (("path", "feature"), network.vectors)}
    for layer in range(1, len(network.layers) + 1):
        head = f"head_{layer}"
        value = f"value_{layer}" if len(network.value_norms[layer - 1]) != len(network.queries[layer - 1]) else head
        variables[f"queries_{layer}"] = ((head, "dimension", "feature"), network.queries[layer - 1])
        variables[f"keys_{layer}"] = ((head, "dimension", "feature"), network.keys[layer - 1])
        variables[f"value_norms_{layer}"] = ((value,), network.value_norms[layer - 1])
    for stage, overlap in zip(Chain.of(network.layers).stages, network.order_parameters, strict=True):
        variables[stage.variable] = (stage.axes[: np.ndim(overlap)], overlap)
    if network.offsets is not None:
        variables["offsets"], variables["bias"] = (("path",), network.offsets), network.bias
    for column, name in enumerate(CURVE):
        variables[name] = (("validation",), network.curve[:, column])
    attributes: dict[str, Any] = {"width": network.width, "best_step": network.best_step, "layers": len(network.layers)}
    if any(isinstance(layer, Kind) for layer in network.layers):
        attributes["heads"] = json.dumps(layers_to_json(network.layers))
    return xr.Dataset(variables, attrs=attributes)


def load_network(path: str | os.PathLike) -> TrainedNetwork:
    """Read a trained network that `save_network` wrote."""
    dataset = results.load(path)
    if "queries_1" not in dataset or not set(CURVE) <= set(dataset):
        raise ValueError(
            f"{path}: wanted a trained network, got a result with {', '.join(map(str, dataset)) or 'nothing'}."
        )
    try:
        return _network(dataset)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: a damaged network ({error}). Remove this file and train again.") from error


def _network(dataset: xr.Dataset) -> TrainedNetwork:
    layers = range(1, int(dataset.attrs["layers"]) + 1)

    def each(name: str) -> tuple:
        return tuple(dataset[f"{name}_{layer}"].values for layer in layers)

    queries = each("queries")
    written = json.loads(dataset.attrs["heads"]) if "heads" in dataset.attrs else [len(layer) for layer in queries]
    read = layers_from_json(written)
    keys, vectors = each("keys"), dataset["vectors"].values
    if [array.shape for array in keys] != [array.shape for array in queries]:
        raise ValueError(f"keys of shapes {[one.shape for one in keys]}, queries {[one.shape for one in queries]}")
    if not all(np.isfinite(array).all() for array in (*queries, *keys, vectors)):
        raise ValueError("NaN or infinity among its weights")
    # The first networks have `order_parameter_1` in place of `order_parameter`, and another name for the last one.
    *names, last = (stage.variable for stage in Chain.of(read).stages)
    names = [name if name in dataset else f"{name}_1" for name in names]
    last = "readout_order_parameter" if "readout_order_parameter" in dataset else last
    return TrainedNetwork(
        queries,
        keys,
        vectors,
        tuple(dataset[name].values for name in (*names, last)),
        each("value_norms"),
        int(dataset.attrs["width"]),
        np.stack([dataset[name].values for name in CURVE], axis=1),
        int(dataset.attrs["best_step"]),
        read,
        *((dataset["offsets"].values, float(dataset["bias"])) if "offsets" in dataset else ()),
    )
