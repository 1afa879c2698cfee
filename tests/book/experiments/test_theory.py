"""The recorded theory against the solver and the predictor called directly; done once, resumed, refused."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.experiments import theory as module
from statmech_attention import results

from .conftest import network_in

SETTINGS = dict(layers=2, heads=2, draws=2, examples=30, test_examples=40)
SETTINGS |= dict(widths=(300, 10), temperatures=(0.5, 0.05))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("theory")


@pytest.fixture(scope="module")
def recorded(folder, small):
    network = network_in(folder, (2, 2))
    path = small("Theory", folder, **SETTINGS).run(progress=False)
    return path, results.load(path), network


def samples(suite, number):
    """The sequences of a draw, drawn here once more."""
    key = jax.random.fold_in(jax.random.key(0), number)
    train_key, _, *test_keys = jax.random.split(key, 4)
    tests = {name: suite.test(key, 40, name) for key, name in zip(test_keys, suite.test_sets, strict=True)}
    return suite.train(train_key, 30), tests


def test_every_point_is_that_of_solver_and_predictor(recorded, suite):
    _, found, network = recorded
    assert found["width"].values.tolist() == [10, 300] and found["temperature"].values.tolist() == [0.05, 0.5]
    for number in range(2):
        train, tests = samples(suite, number)
        seen = {
            name: sma.attentioned_inputs(test.inputs, network.attention, readout="mean") for name, test in tests.items()
        }
        xi = sma.attentioned_inputs(train.inputs, network.attention, readout="mean")
        for width in (10, 300):
            here = found.sel(draw=number, width=width)
            for temperature in (0.05, 0.5):
                one = here.sel(temperature=temperature)
                solution = sma.solve(xi, train.labels, width=width, temperature=temperature)
                np.testing.assert_allclose(one["action"], solution.action, rtol=1e-8)
                for name, test in tests.items():
                    wanted = sma.accuracy(solution.predict(seen[name]).mean, test.labels)
                    assert one["accuracy"].sel(test_set=name).item() == pytest.approx(float(wanted), abs=1e-12)
                if one["best_temperature"] == temperature:
                    np.testing.assert_allclose(here["order_parameter"], solution.order_parameter, atol=1e-6)
                    gram = solution.kernel()
                    wanted = sma.centred_alignment(gram, train.labels)
                    np.testing.assert_allclose(here["alignment"], wanted, rtol=1e-5)
        temperature = found["gp_best_temperature"].sel(draw=number).item()
        identity = sma.gp_order_parameters((2, 2))[0]
        for name, test in tests.items():
            mean = sma.predict(xi, train.labels, seen[name], identity, temperature=temperature).mean
            one = found["gp_accuracy"].sel(draw=number, test_set=name, temperature=temperature)
            assert one.item() == pytest.approx(float(sma.accuracy(mean, test.labels)), abs=1e-12)


def test_the_best_temperature_is_chosen_in_distribution(recorded):
    _, found, _ = recorded
    first = found["accuracy"].isel(test_set=0)
    assert (first.sel(temperature=found["best_temperature"]) == first.max("temperature")).all()
    assert (found["gradient_norm"] < 1e-6).all() and (found["outcome"] == 0).all()


def test_it_is_done_once_and_again_for_another_network(recorded, folder, small, tmp_path, monkeypatch):
    path, _, _ = recorded
    solved = []

    def begun(*arguments):
        solved.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solved_points", begun)
    assert small("Theory", folder, **SETTINGS).run(progress=False) == path
    assert not solved
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    network_in(tmp_path, (2, 2), seed=5)
    again = small("Theory", tmp_path, **SETTINGS)
    assert again.reason == "another network"
    with pytest.raises(KeyboardInterrupt):
        again.run(progress=False)
    assert solved


def test_a_point_computed_again_tells_another_solver(recorded, folder, small, monkeypatch):
    theory = small("Theory", folder, **SETTINGS)
    again = theory.recheck()
    assert again.what.startswith("the point N = 10, T = ") and again.difference < again.tolerance
    solve = module.solve

    def another(*data, temperature, **options):
        return solve(*data, temperature=1.001 * temperature, **options)

    monkeypatch.setattr(module, "solve", another)
    assert theory.recheck().difference > again.tolerance


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, small, tmp_path, monkeypatch):
    path, whole, _ = recorded
    network_in(tmp_path, (2, 2))
    original, calls = module.solved_points, []

    def killed_at_the_third(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    theory = small("Theory", tmp_path, **SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(module, "solved_points", killed_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            theory.run(progress=False)
    assert not (tmp_path / path.name).exists()
    monkeypatch.setattr(module, "solved_points", lambda *arguments: calls.append(1) or original(*arguments))
    found = results.load(theory.run(progress=False))
    assert len(calls) == 5  # two before, the one that was killed, and the other two of four
    for name in set(whole) - {"seconds"}:
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-9, atol=1e-12)
    assert [file.name for file in sorted(tmp_path.rglob("*")) if file.is_file()] == [
        "network-2x2-seed0.nc",
        "theory-2x2-seed0.nc",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("draws", 0), ("examples", 0), ("widths", ()), ("widths", (10, 10)), ("temperatures", (0.0,))],
)
def test_numbers_out_of_range_are_refused(small, tmp_path, name, value):
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        small("Theory", tmp_path, **{**SETTINGS, name: value}).run()


def test_without_a_network_it_says_so(small, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"network-2x2-seed0\.nc: no recorded result"):
        small("Theory", tmp_path, **SETTINGS).run()
