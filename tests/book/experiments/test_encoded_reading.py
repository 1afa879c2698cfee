"""Records of two splits read together, and paired differences against NumPy by hand."""

import numpy as np
import pytest
import xarray as xr

from attention_book import results
from attention_book.experiments.encoded_reading import Difference, paired, recorded_splits, right_at, right_of_kept


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    for seed in (0, 1):
        both = ("width_deep", "temperature")
        found = xr.Dataset(
            {
                "log_evidence_deep": (both, random.normal(size=(3, 2))),
                "right_deep": ((*both, "sentence"), random.integers(0, 3, (3, 2, 50))),
                "learned_right_deep": (
                    ("chosen_by", "order_deep", "kept_deep", "sentence"),
                    random.integers(0, 3, (2, 4, 3, 50)),
                ),
                "stored_inputs": ("example", np.zeros(3)),
            },
            {
                "width_deep": [10.0, 100.0, np.inf],
                "temperature": [0.1, 1.0],
                "order_deep": ["both", "random 0", "random 1", "Taylor"],
                "kept_deep": [2, 4, 16],
                "chosen_by": ["evidence", "validation"],
            },
        )
        path = tmp_path / f"encoder-reviews-seed{seed}.nc"
        results.save(found, path, parameters={"task": "reviews", "seed": seed}, maker="encoder")
    return tmp_path


def test_what_is_right_at_the_largest_evidence(folder):
    found = recorded_splits(folder)["reviews"]
    assert found["split"].values.tolist() == [0, 1] and "stored_inputs" not in found
    for limit, widths in ((False, [0, 1]), (True, [2])):
        got = right_at(found, limit=limit)
        for split in range(2):
            evidence = found["log_evidence_deep"].values[split, widths]
            width, heat = np.unravel_index(evidence.argmax(), evidence.shape)
            wanted = found["right_deep"].values[split, widths][width, heat] / 2
            np.testing.assert_array_equal(got[split], wanted)


def test_points_are_read_under_the_names_of_the_deep_network(tmp_path):
    values = np.random.default_rng(0).normal(size=(2, 3))
    found = xr.Dataset({"log_evidence": (("width", "temperature"), values)}, {"width": [10.0, np.inf]})
    for maker, seeds in (("points400", (0, 3)), ("points200-skips", (1,))):
        for seed in seeds:
            path = tmp_path / f"{maker}-spam-seed{seed}.nc"
            results.save(found + seed, path, parameters={"task": "spam", "seed": seed}, maker="points")
    read = recorded_splits(tmp_path, "points400")["spam"]
    assert read["split"].values.tolist() == [0, 3] and read["width_deep"].values.tolist() == [10, np.inf]
    np.testing.assert_array_equal(read["log_evidence_deep"], [values, values + 3])
    assert recorded_splits(tmp_path, "points200-skips")["spam"]["split"].values.tolist() == [1]


def test_what_few_heads_have_right(folder):
    found = recorded_splits(folder)["reviews"]
    values = found["learned_right_deep"].values / 2
    got = right_of_kept(found, "both", "deep", most=8)
    np.testing.assert_allclose(got, values[:, 0, 0, :2].mean(axis=1))
    got = right_of_kept(found, "random", "deep", most=16, by="validation")
    np.testing.assert_allclose(got, values[:, 1, 1:3].mean(axis=(1, 2)))


def test_differences_have_the_larger_error():
    random = np.random.default_rng(1)
    second = xr.DataArray(random.integers(0, 2, (3, 400)).astype(float))
    first = second + random.normal(size=(3, 400)) + 0.1
    alike = paired(first, second)
    assert alike.mean == pytest.approx(float((first - second).mean())) and alike.each.shape == (3,)
    over_sentences = float(np.sqrt(np.mean(np.var(first - second, axis=1, ddof=1)) / 1200))
    apart = paired(first + np.array([[0.0], [1.0], [2.0]]), second)
    assert alike.error >= over_sentences
    assert apart.error == pytest.approx(np.std(apart.each, ddof=1) / np.sqrt(3)) and apart.error > 5 * over_sentences
    one = paired(first[:1], second[:1])
    assert one.error == pytest.approx(float(np.std(first[0] - second[0], ddof=1)) / 20)
    assert one.clear == (one.mean > 2 * one.error)


def test_student_asks_for_more_than_two_errors_of_few_splits():
    for mean, sure in ((2.7, False), (2.9, True)):  # t of four degrees of freedom is 2.78
        apart = Difference(mean, 1.0, np.full(5, mean))
        assert apart.clear and apart.sure == sure and apart.half == pytest.approx(2.776, abs=1e-3)
    assert not Difference(9.0, 1.0, np.array([9.0])).sure
