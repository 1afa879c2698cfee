"""Measures of importance read from records, and how their rank correlations are pooled over networks."""

import math

import numpy as np
import pytest
import scipy.stats
import xarray as xr

from attention_book import pruning, results
from attention_book.experiments import importances

HEADS = 4
WIDTHS = [10.0, 100.0]


def write(folder, name, seed, *, evidence=True, widths=WIDTHS):
    """Records of a pruning and an evidence lost, with random numbers in them."""
    random = np.random.default_rng(seed)
    sizes = dict(definition=3, draw=2, width=len(widths), head=HEADS, criterion=5, test_set=2, choice=4)

    def some(*axes):
        return axes, random.random([sizes[axis] for axis in axes])

    pruned = xr.Dataset(
        {
            "theory_score": some("definition", "draw", "width", "head"),
            "score": some("criterion", "head"),
            "drop": some("test_set", "head"),
            "drop_error": some("test_set", "head"),
            "theory_accuracy": some("test_set", "draw", "width"),
            "theory_drop": some("test_set", "draw", "width", "head"),
            "theory_drop_fitted": some("test_set", "draw", "width", "head"),
            "theory_anew_accuracy": some("test_set", "draw", "head"),
            "accuracy": some("test_set"),
            "choice_removed": (("choice", "of_choice"), [[0, 2], [3, 0], [1, 2], [1, 3]]),
            "choice_accuracy": some("test_set", "choice"),
        },
        coords={
            "definition": ["both", "either", "weighted"],
            "width": widths,
            "criterion": ["weights", "values", "Taylor", "leave one out", "trained, both"],
            "test_set": ["inside", "outside"],
        },
    )
    layers, heads = map(int, name.split("-")[0].split("x"))
    parameters = {"layers": layers, "heads": heads, "kind": "heads"}
    results.save(pruned, folder / f"pruning-{name}.nc", parameters=parameters)
    if not evidence:
        return pruned, None
    lost = xr.Dataset(
        {"lost": (("draw", "width", "coefficients", "head"), random.normal(size=(2, 1, 2, HEADS)))},
        coords={"width": [10.0], "coefficients": ["kept", "rescaled"]},
    )
    results.save(lost, folder / f"evidence-{name}.nc", parameters={})
    return pruned, lost


def test_measures_and_drops_are_those_recorded(tmp_path):
    pruned, lost = write(tmp_path, "2x2-seed0", 0)
    write(tmp_path, "1x4-seed1", 1, evidence=False)
    found = importances.recorded_heads(tmp_path)
    assert list(found) == ["1x4-seed1", "2x2-seed0"]
    one = found["2x2-seed0"]
    kinds = [f"theory, {kind}" for kind in ("both", "either", "weighted")] + ["own drop", "own drop, fitted"]
    wanted = {f"{kind}, N = {width}" for kind in kinds for width in (10, 100)} | {"own drop, anew"}
    wanted |= {"weights", "values", "Taylor", "leave one out", "trained, both"}
    assert set(found["1x4-seed1"].measures) == wanted and found["1x4-seed1"].layers == (4,)
    assert set(one.measures) == wanted | {"evidence lost, N = 10", "evidence lost (rescaled), N = 10"}
    assert one.layers == (2, 2)
    own = pruned["theory_drop"].values[0, :, 1].mean(axis=0)
    np.testing.assert_allclose(one.measures["own drop, N = 100"], own)
    anew = pruned["theory_accuracy"].values[0, :, :1] - pruned["theory_anew_accuracy"].values[0]
    np.testing.assert_allclose(one.measures["own drop, anew"], anew.mean(axis=0))
    np.testing.assert_allclose(
        one.measures["theory, either, N = 100"], pruned["theory_score"].values[1, :, 1].mean(axis=0)
    )
    np.testing.assert_allclose(one.measures["evidence lost, N = 10"], lost["lost"].values[:, 0, 0].mean(axis=0))
    np.testing.assert_allclose(
        one.measures["evidence lost (rescaled), N = 10"], lost["lost"].values[:, 0, 1].mean(axis=0)
    )
    np.testing.assert_array_equal(one.measures["Taylor"], pruned["score"].values[2])
    np.testing.assert_array_equal(one.drops["outside"], pruned["drop"].values[1])
    np.testing.assert_array_equal(one.errors["inside"], pruned["drop_error"].values[0])


def test_measures_order_heads_by_drops_and_by_each_other(tmp_path):
    pruned, _ = write(tmp_path, "2x2-seed0", 0)
    write(tmp_path, "1x4-seed1", 1, evidence=False)
    networks = importances.recorded_heads(tmp_path)
    found = importances.ordered(networks, "Taylor", "outside")
    wanted = scipy.stats.spearmanr(pruned["score"].values[2], pruned["drop"].values[1]).statistic
    assert found.each[1] == pytest.approx(wanted) and found.value == pytest.approx(found.each.mean())
    # Evidence lost is there for one network alone.
    one = importances.ordered(networks, "evidence lost, N = 10", "own drop, anew", within=True)
    parts = [networks["2x2-seed0"].measures[name] for name in ("evidence lost, N = 10", "own drop, anew")]
    assert one.each.tolist() == pruning.ordering([parts[0]], [parts[1]], layers=[(2, 2)], within=True).each.tolist()


def test_a_choice_of_heads_costs_what_was_recorded_of_it(tmp_path):
    pruned, _ = write(tmp_path, "2x2-seed0", 0)
    one = importances.recorded_heads(tmp_path)["2x2-seed0"]
    accuracy = pruned["accuracy"].values[1]
    np.testing.assert_allclose(
        one.costs("outside"), (accuracy - pruned["choice_accuracy"].values[1]) / (accuracy - 0.5)
    )
    assert one.choice([0, 3]) == 1  # in any order
    scores = one.measures["Taylor"]
    first = np.argmin(scores)
    # The last head of a layer stays: the second one comes from the other layer.
    assert one.lowest("Taylor").tolist() == [
        first,
        2 * (first < 2) + np.argmin(scores[2:] if first < 2 else scores[:2]),
    ]


def test_networks_of_one_seed_are_one_unit(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for place, folder in enumerate((one, other)):
        folder.mkdir()
        write(folder, "2x2-seed10", place, evidence=False)
        write(folder, f"2x2-seed{place}", 2 + place, evidence=False)
        write(folder, "1x4-seed3", 4, evidence=False)
    found = importances.recorded_seeds(one, other, tmp_path / "none", layers=(2, 2))
    assert {seed: len(twins) for seed, twins in found.items()} == {0: 1, 1: 1, 10: 2}
    each = importances.ordered(found, "Taylor", "inside").each
    single = [importances.ordered({0: twin}, "Taylor", "inside").value for twin in found[10]]
    assert each.shape == (3,) and each[2] == pytest.approx(np.mean(single))


def test_pooled_intervals_are_those_of_scipy():
    values = np.array([0.1, 0.4, np.nan, -0.2, 0.3])
    found = importances.pooled(values)
    kept = values[np.isfinite(values)]
    wanted = scipy.stats.ttest_1samp(kept, 0).confidence_interval(0.95)
    assert found.networks == 4 and found.value == pytest.approx(kept.mean())
    np.testing.assert_allclose([found.low, found.high], wanted)
    assert importances.pooled([0.9, -0.9, 0.5]).high == 1 and importances.pooled([0.9, -0.9], bounds=(-9, 9)).high > 1
    alone = importances.pooled([0.5, np.nan])
    assert alone.value == 0.5 and math.isnan(alone.low) and alone.networks == 1
    none = importances.pooled([np.nan])
    assert math.isnan(none.value) and none.networks == 0
