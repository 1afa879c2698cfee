"""Recorded evidence lost: the numbers of the solver called directly; done once, resumed, refused."""

import jax
import numpy as np
import xarray as xr

import statmech_attention as sma
from attention_book import results
from statmech_attention import pruning

from .conftest import network_in, random_network
from .shared import *  # noqa: F403

EXPERIMENT = "EvidenceLost"
SETTINGS = dict(layers=2, heads=2, draws=2, widths=(300, 10))
WRONG = [
    {"heads": 1},
    {"draws": 0},
    {"widths": (10, 10)},
    ({"draws": 3}, "draws: wanted at most the theory's 2, got 3"),
    ({"widths": (10, 50)}, r"widths: wanted some of the theory's, .*got also \[50.0\]"),
]
TEMPERATURES = np.array([[0.05, 0.5, 0.1], [0.05, 0.1, 0.5]])  # by draw and width


def prepare(folder, seed=7):
    """A network that was not trained, and of the theory on it what the run reads."""
    network_in(folder, (2, 2), seed)
    dataset = xr.Dataset(
        {"best_temperature": (("draw", "width"), TEMPERATURES)}, coords={"draw": [0, 1], "width": [10.0, 20.0, 300.0]}
    )
    made = {"draws": 2, "widths": [10.0, 20.0, 300.0], "examples": 30}
    inputs = {"network": results.digest(folder / "network-2x2-seed0.nc")}
    results.save(dataset, folder / "theory-2x2-seed0.nc", parameters=made, inputs=inputs)


def test_every_number_is_that_of_the_solver(recorded, found, suite):
    network = random_network((2, 2))
    assert recorded.name == "evidence-2x2-seed0.nc" and found["width"].values.tolist() == [10, 300]
    assert found["lost"].dims == ("draw", "width", "coefficients", "head")
    assert found["head_layer"].values.tolist() == [1, 1, 2, 2] and found["head_number"].values.tolist() == [1, 2, 1, 2]
    for number in range(2):
        # The theory's sequences, drawn as it draws them.
        key = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 3)[0]
        train = suite.train(key, 30)
        xi = sma.attentioned_inputs(train.inputs, network.attention, readout="mean")
        for place, width in ((0, 10.0), (2, 300.0)):
            temperature = TEMPERATURES[number, place]
            here = found.sel(draw=number, width=width)
            assert here["temperature"] == temperature
            whole = sma.solve(sma.Problem(xi, train.labels, width=width, temperature=temperature))
            np.testing.assert_allclose(here["action"], whole.action, rtol=1e-8)
            np.testing.assert_allclose(here["log_evidence"], pruning.log_evidence(whole), rtol=1e-8)
            for coefficients in pruning.COEFFICIENTS:
                for head in range(4):
                    less = pruning.without_head(xi, head, coefficients=coefficients)
                    one = sma.solve(sma.Problem(less, train.labels, width=width, temperature=temperature))
                    lost = pruning.log_evidence(whole) - pruning.log_evidence(one)
                    np.testing.assert_allclose(here["lost"].sel(coefficients=coefficients)[head], lost, atol=1e-6)
    assert (found["outcome"] == 0).all() and (found["whole_outcome"] == 0).all()
    assert (found["gradient_norm"] < 1e-6).all() and (found["steps"] > 0).any()


def test_another_network_or_theory_is_a_reason(recorded, make, tmp_path):
    (tmp_path / recorded.name).write_bytes(recorded.read_bytes())
    prepare(tmp_path, seed=12)
    assert make(tmp_path).reason == "another network"
    record = results.record(recorded)
    assert record["inputs"]["theory"] == results.digest(recorded.parent / "theory-2x2-seed0.nc")
