"""Measures of importance read from records, and how their rank correlations are pooled over networks."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import xarray as xr

from statmech_attention import results
from statmech_attention.experiments import importances

HEADS = 4
WIDTHS = [10.0, 100.0]


def write(folder, name, seed, *, evidence=True, widths=WIDTHS):
    """Records of a pruning and an evidence lost, with random numbers in them."""
    random = np.random.default_rng(seed)
    pruned = xr.Dataset(
        {
            "theory_score": (
                ("definition", "draw", "width", "head"),
                random.random((3, 2, len(widths), HEADS)),
            ),
            "score": (("criterion", "head"), random.random((5, HEADS))),
            "drop": (("test_set", "head"), random.random((2, HEADS))),
            "drop_error": (("test_set", "head"), random.random((2, HEADS))),
        },
        coords={
            "definition": ["both", "either", "weighted"],
            "width": widths,
            "criterion": ["weights", "values", "Taylor", "leave one out", "trained, both"],
            "test_set": ["inside", "outside"],
        },
    )
    results.save(pruned, folder / f"pruning-{name}.nc", parameters={})
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
    found = importances.recorded_heads(tmp_path, [100])
    assert list(found) == ["1x4-seed1", "2x2-seed0"]
    one = found["2x2-seed0"]
    wanted = {f"theory, {kind}, N = 100" for kind in ("both", "either")} | {
        "weights",
        "values",
        "Taylor",
        "leave one out",
    }
    assert set(found["1x4-seed1"].measures) == wanted
    assert set(one.measures) == wanted | {"evidence lost, N = 10", "evidence lost (rescaled), N = 10"}
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
    coefficient = one.correlation("Taylor", "outside").value
    wanted = scipy.stats.spearmanr(pruned["score"].values[2], pruned["drop"].values[1]).statistic
    assert coefficient == pytest.approx(wanted)
    assert math.isnan(found["1x4-seed1"].correlation("evidence lost, N = 10", "inside").value)
    assert math.isnan(one.correlation("Taylor", "elsewhere").value)


def test_missing_records_and_widths_are_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no recorded pruning. Run `make reproduce`"):
        importances.recorded_heads(tmp_path, [10])
    write(tmp_path, "2x2-seed0", 0)
    with pytest.raises(ValueError, match="widths: wanted some that a theory was solved at.*no theory, both, N = 55"):
        importances.recorded_heads(tmp_path, [10, 55])


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


def test_chance_is_that_of_all_orders():
    orders = np.array(list(itertools.permutations(range(4))))
    each = np.array([scipy.stats.spearmanr(order, range(4)).statistic for order in orders])
    means = np.add.outer(each, each).ravel() / 2
    low, high = importances.by_chance([4, 4], level=0.8)
    # Shares below the ends, within 5 standard errors; the law is discrete.
    error = 5 * math.sqrt(0.1 * 0.9 / 20_000)
    for end, sign in ((low, 1), (high, -1)):
        assert np.mean(sign * means < sign * end - 1e-9) <= 0.1 + error
        assert np.mean(sign * means <= sign * end + 1e-9) >= 0.1 - error
    wide = importances.by_chance([4])
    assert wide[1] - wide[0] > high - low


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: importances.pooled([0.1], level=1), "level: wanted"),
        (lambda: importances.pooled([0.1, np.inf]), "values: wanted finite"),
        (lambda: importances.by_chance([]), "heads: wanted at least 2"),
        (lambda: importances.by_chance([4, 1]), "heads: wanted at least 2"),
        (lambda: importances.by_chance([4], draws=0), "draws and level"),
    ],
)
def test_numbers_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
