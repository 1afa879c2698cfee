"""Readings of recorded theories, against loops over made-up accuracies."""

import numpy as np
import pytest
import xarray as xr

from attention_book import results
from attention_book.experiments import reading

DRAWS, WIDTHS, TEMPERATURES, TESTS = 3, (10.0, 100.0), (0.01, 0.1, 1.0), ("seen", "unseen")


def made_up(seed=0):
    random = np.random.default_rng(seed)
    accuracy = random.random((DRAWS, 2, 2, 3))
    limit = random.random((DRAWS, 2, 3))
    temperatures = np.array(TEMPERATURES)
    return xr.Dataset(
        {
            "accuracy": (("draw", "width", "test_set", "temperature"), accuracy),
            "validation_accuracy": (("draw", "width", "temperature"), random.random((DRAWS, 2, 3))),
            "best_temperature": (("draw", "width"), temperatures[accuracy[:, :, 0].argmax(axis=-1)]),
            "gp_accuracy": (("draw", "test_set", "temperature"), limit),
            "gp_validation_accuracy": (("draw", "temperature"), random.random((DRAWS, 3))),
            "gp_best_temperature": ("draw", temperatures[limit[:, 0].argmax(axis=-1)]),
        },
        coords={
            "draw": range(DRAWS),
            "width": list(WIDTHS),
            "test_set": list(TESTS),
            "temperature": list(TEMPERATURES),
        },
    )


@pytest.mark.parametrize("chosen_by", ["test", "validation"])
def test_accuracies_and_gains_at_the_best_temperature_of_every_draw(chosen_by):
    found = made_up()
    accuracies, limit = (reading.accuracies(found, limit=one, chosen_by=chosen_by) for one in (False, True))
    gains = reading.gains(found, chosen_by=chosen_by)
    assert accuracies.dims == gains.dims == ("draw", "width", "test_set") and limit.dims == ("draw", "test_set")
    for draw in range(DRAWS):
        judge = (
            found["gp_accuracy"].values[draw, 0]
            if chosen_by == "test"
            else found["gp_validation_accuracy"].values[draw]
        )
        gp = found["gp_accuracy"].values[draw, :, np.argmax(judge)]
        np.testing.assert_array_equal(limit.values[draw], gp)
        for width in range(2):
            rows = found["accuracy"].values[draw, width]
            judge = rows[0] if chosen_by == "test" else found["validation_accuracy"].values[draw, width]
            wanted = rows[:, np.argmax(judge)]
            np.testing.assert_array_equal(accuracies.values[draw, width], wanted)
            np.testing.assert_allclose(gains.values[draw, width], wanted - gp)


def test_the_telling_width_has_the_largest_mean_gain_over_networks():
    found = [made_up(seed) for seed in range(4)]
    means = np.mean([reading.gains(one, chosen_by="validation").values[..., 0].mean(axis=0) for one in found], axis=0)
    assert reading.telling_width(found) == WIDTHS[np.argmax(means)]
    with pytest.raises(ValueError, match="over the same widths"):
        reading.telling_width([found[0], found[1].isel(width=[0])])


def test_all_theories_of_a_folder_are_read_with_their_parameters(tmp_path):
    for layers, heads, seed in ((3, 3, 0), (2, 4, 1), (2, 4, 0)):
        made = {"layers": layers, "heads": heads, "kind": "heads", "seed": seed}
        results.save(
            made_up(seed), tmp_path / f"theory-{layers}x{heads}-seed{seed}.nc", parameters=made, wall_seconds=2.5
        )
    found = reading.recorded_theories(tmp_path)
    assert list(found) == ["2x4-seed0", "2x4-seed1", "3x3-seed0"]
    assert found["2x4-seed1"].attrs["made"]["seed"] == 1 and found["2x4-seed1"].attrs["wall_seconds"] == 2.5
    assert reading.by_architecture(found) == {(2, 4): ["2x4-seed0", "2x4-seed1"], (3, 3): ["3x3-seed0"]}
    xr.testing.assert_equal(found["3x3-seed0"], made_up(0))
    with pytest.raises(FileNotFoundError, match="no recorded theory"):
        reading.recorded_theories(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="chosen_by: wanted one of test, validation"):
        reading.accuracies(found["2x4-seed0"], chosen_by="luck")
