"""Draws in ArviZ's layout: groups, names, files, and ArviZ itself where it is installed."""

import jax
import numpy as np
import pytest
import xarray as xr

import statmech_attention as sma
from sampling.problem import TEMPERATURE, inputs
from statmech_attention import sampling

CHAINS, DRAWS = 2, 30
NUMBERS = {"width": 3, "temperature": TEMPERATURE, "layers": (2,)}
FEW = {"key": jax.random.key(0), "chains": sma.Chains(draws=DRAWS, count=CHAINS, warmup=20, warn=False)}


@pytest.fixture(scope="module")
def draws():
    train, labels, test = inputs(2)
    return sampling.posterior(sma.Problem(train, labels, **NUMBERS), test=test, **FEW)


@pytest.fixture(scope="module")
def tree(draws):
    return sampling.inference_data(draws)


def test_groups_hold_what_belongs_to_them(draws, tree):
    assert set(tree.children) == {"posterior", "predictions", "sample_stats"}
    assert set(tree["posterior"].data_vars) == {"order_parameter", "order_parameter_2"}
    assert set(tree["predictions"].data_vars) == {"output", "output_variance"}
    assert set(tree["sample_stats"].data_vars) == {"lp", "n_steps", "acceptance_rate", "diverging"}
    for group in ("posterior", "predictions", "sample_stats"):
        for variable in tree[group].data_vars.values():
            assert variable.dims[:2] == ("chain", "draw") and variable.shape[:2] == (CHAINS, DRAWS)
    assert tree["sample_stats"]["diverging"].dtype == bool
    np.testing.assert_array_equal(tree["sample_stats"]["lp"], -draws["potential"])
    np.testing.assert_array_equal(tree["posterior"]["order_parameter"], draws["order_parameter"])
    assert tree["posterior"].attrs["temperature"] == TEMPERATURE


def test_it_is_written_and_read_by_group(tree, tmp_path):
    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "draws.nc", group="posterior", engine="h5netcdf") as back:
        xr.testing.assert_identical(back.load(), tree["posterior"].to_dataset())


def test_arviz_takes_it_as_it_is(tree):
    stats = pytest.importorskip("arviz_stats", reason="ArviZ, pip install arviz-stats, is not installed")
    table = stats.summary(tree, round_to="none")
    assert len(table) == tree["posterior"]["order_parameter"][0, 0].size + 1
    mean = tree["posterior"].to_dataset().mean(("chain", "draw"))
    wanted = [*mean["order_parameter"].values.ravel(), mean["order_parameter_2"]]
    np.testing.assert_allclose(table["mean"].astype(float), np.array(wanted, float), rtol=1e-6)
