"""The recorded theory of narrow heads against the solver called directly; done once, resumed, refused."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.experiments import NarrowHeads, experiment_of
from attention_book.experiments import theory as module
from statmech_attention import results

from .conftest import network_in

SETTINGS = dict(layers=2, heads=2, draws=2, examples=30, test_examples=40)
SETTINGS |= dict(widths=(300, 10), values=(20, 3), temperatures=(0.5, 0.1))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, small):
    folder = tmp_path_factory.mktemp("narrow")
    network = network_in(folder, (2, 2))
    path = small("NarrowHeads", folder, **SETTINGS).run(progress=False)
    return path, results.load(path), network


def test_every_point_is_that_of_solver_and_predictor(recorded, suite):
    path, found, network = recorded
    assert path.name == "narrow-2x2-seed0.nc" and found["width"].values.tolist() == [10, 300]
    assert found["dimension"].values.tolist() == [3, 20, np.inf]
    assert (found["gradient_norm"] < 1e-6).all() and (found["outcome"] == 0).all()
    for number in range(2):
        # The theory's sequences, drawn as it draws them.
        train_key, _, test_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 4)
        train, test = suite.train(train_key, 30), suite.test(test_key, 40, "new")
        xi, seen = (
            sma.attentioned_inputs(one.inputs, network.attention, readout="mean").values for one in (train, test)
        )

        def told(one, heads, width, temperature, number=number, xi=xi, seen=seen, train=train, test=test):
            solution = sma.solve(xi, train.labels, heads=heads, width=width, temperature=temperature)
            wanted = float(sma.accuracy(solution.predict(seen).mean, test.labels))
            one = one.sel(temperature=temperature, draw=number)
            return one, wanted, solution

        for width in (10, 300):
            for values in (3, 20, None):
                here = found.sel(width=width, dimension=values or np.inf)
                one, wanted, solution = told(here, 2 * (sma.Heads(2, values=values),), width, 0.1)
                assert one["accuracy"].sel(test_set="new").item() == pytest.approx(wanted, abs=1e-12)
                assert one["log_evidence"].item() == pytest.approx(float(solution.log_evidence()), rel=1e-7)
                np.testing.assert_allclose(one["order_parameter"], solution.order_parameter, atol=1e-5)
        assert found["stage"].values.tolist() == ["U^(1)", "G^(1)", "U^(2)", "G^(2)", "U^(3)"]
        heads = 2 * (sma.Heads(2, values=7),)
        wanted = sma.evidence_slopes(xi, train.labels, heads=heads, temperature=0.5)
        np.testing.assert_allclose(found["gp_evidence_slope"].sel(draw=number, temperature=0.5), wanted, rtol=1e-9)
        one, wanted, solution = told(found, (2, 2), np.inf, 0.5)
        assert one["gp_accuracy"].sel(test_set="new").item() == pytest.approx(wanted, abs=1e-12)
        assert one["gp_log_evidence"].item() == pytest.approx(float(solution.log_evidence()), rel=1e-9)
    narrowest, plain = (found["order_parameter"].sel(dimension=one, width=300) for one in (3, np.inf))
    assert abs(narrowest - plain).max() > 0.05


def test_it_is_done_once_and_known_by_its_record(recorded, small, monkeypatch):
    path, *_ = recorded
    monkeypatch.setattr(module, "solved_points", None)
    assert small("NarrowHeads", path.parent, **SETTINGS).run(progress=False) == path
    assert isinstance(experiment_of(path), NarrowHeads) and experiment_of(path).values == [3, 20]


def test_a_point_computed_again_tells_another_solver(recorded, small, monkeypatch):
    experiment = small("NarrowHeads", recorded[0].parent, **SETTINGS)
    again = experiment.recheck()
    assert again.what == "the point N = 10, d = 3, T = 0.5 of the first draw, and the limit"
    assert again.difference < again.tolerance
    solve = module.solve
    monkeypatch.setattr(module, "solve", lambda *data, **options: solve(*data, **options, variance=1.001))
    assert experiment.recheck().difference > again.tolerance


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, small, tmp_path, monkeypatch):
    path, whole, _ = recorded
    network_in(tmp_path, (2, 2))
    original, calls = module.solved_points, []

    def killed_at_the_sixth(*arguments):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(*arguments)

    experiment = small("NarrowHeads", tmp_path, **{**SETTINGS, "draws": 1})
    with monkeypatch.context() as patch:
        patch.setattr(module, "solved_points", killed_at_the_sixth)
        with pytest.raises(KeyboardInterrupt):
            experiment.run(progress=False)
    assert not (tmp_path / path.name).exists()
    monkeypatch.setattr(module, "solved_points", lambda *arguments: calls.append(1) or original(*arguments))
    found = results.load(experiment.run(progress=False))
    assert len(calls) == 9  # the limit and the first width are kept; the second has three dimensions
    for name in set(whole) - {"seconds", "gp_seconds"}:
        np.testing.assert_allclose(found[name], whole[name].isel(draw=[0]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": 0}, "draws: wanted a whole number of at least 1"),
        ({"examples": 0}, "examples: wanted"),
        ({"widths": (10, 10)}, "widths: wanted different positive numbers"),
        ({"widths": (np.inf,)}, "widths: wanted different positive numbers"),
        ({"values": ()}, "values: wanted different positive numbers"),
        ({"values": (0.5, 3)}, r"Heads, values: wanted a head dimension of at least 1, got 0\.5"),
        ({"temperatures": (0.0,)}, "temperatures: wanted different positive numbers"),
        ({"kind": "gated"}, "kind: wanted one of heads, skip"),
    ],
)
def test_numbers_out_of_range_are_refused(small, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        small("NarrowHeads", tmp_path, **{**SETTINGS, **changes}).run()
    with pytest.raises(FileNotFoundError, match=r"network-2x2-seed0\.nc: no recorded result"):
        small("NarrowHeads", tmp_path, **SETTINGS).run()
