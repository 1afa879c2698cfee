"""The recorded theory against the solver and the predictor called directly; done once, resumed, refused."""

import importlib

import jax
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import experiments, results
from statmech_attention.tasks import OneShot, OneShotSuite, TestSet, glyph_split, glyphs
from statmech_attention.training import save_network, trained_network
from statmech_attention.training.path_form import initial

module = importlib.import_module("statmech_attention.experiments.theory")  # the function has the same name

SETTINGS = dict(data="glyphs", layers=2, heads=2, draws=2, examples=30, test_examples=40)
SETTINGS |= dict(widths=(300, 10), temperatures=(0.5, 0.05))


@pytest.fixture(scope="module")
def suite():
    task = OneShot(glyphs(24, 4))
    split = glyph_split(task.images)
    negative = OneShot(glyphs(8, 4, seed=1))
    return OneShotSuite(
        task,
        split,
        {"new": TestSet(task, split.test, split.test), "others": TestSet(negative, np.arange(8), np.arange(8))},
    )


@pytest.fixture(autouse=True)
def small(monkeypatch, suite):
    monkeypatch.setattr(module, "one_shot_suite", {"glyphs": suite}.__getitem__)


def network_in(folder, seed=0):
    """A network that was not trained: the theory takes any queries and keys."""
    network = trained_network(initial(jax.random.key(seed + 7), (2, 2), 16, 8, 192))
    save_network(network, experiments.network_file(folder, 2, 2, 0), parameters={"made": "at random"})
    return network


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("theory")


@pytest.fixture(scope="module")
def recorded(folder, suite):
    network = network_in(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "one_shot_suite", {"glyphs": suite}.__getitem__)
        path = experiments.theory(folder, progress=False, **SETTINGS)
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
        seen = {name: sma.attentioned_inputs(test.inputs, network.attention, "mean") for name, test in tests.items()}
        xi = sma.attentioned_inputs(train.inputs, network.attention, "mean")
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


def test_it_is_done_once_and_again_for_another_network(recorded, folder, tmp_path, monkeypatch):
    path, _, _ = recorded
    solved = []

    def begun(*arguments):
        solved.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "one_width", begun)
    assert experiments.theory(folder, progress=False, **SETTINGS) == path
    assert not solved
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    network_in(tmp_path, seed=5)
    with pytest.raises(KeyboardInterrupt):
        experiments.theory(tmp_path, progress=False, **SETTINGS)
    assert solved


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, tmp_path, monkeypatch):
    path, whole, _ = recorded
    network_in(tmp_path)
    original, calls = module.one_width, []

    def killed_at_the_third(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "one_width", killed_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            experiments.theory(tmp_path, progress=False, **SETTINGS)
    assert not (tmp_path / path.name).exists()
    monkeypatch.setattr(module, "one_width", lambda *arguments: calls.append(1) or original(*arguments))
    found = results.load(experiments.theory(tmp_path, progress=False, **SETTINGS))
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
def test_numbers_out_of_range_are_refused(tmp_path, name, value):
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        experiments.theory(tmp_path, **{**SETTINGS, name: value})


def test_without_a_network_it_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"network-2x2-seed0\.nc: no recorded result"):
        experiments.theory(tmp_path, **SETTINGS)
