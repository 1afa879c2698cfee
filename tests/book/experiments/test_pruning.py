"""Recorded pruning: its numbers are those of networks without the heads; made again when due."""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest
import xarray as xr

import statmech_attention as sma
from attention_book import experiments, results
from attention_book.results import digest
from attention_book.tasks import one_shot_suite
from attention_book.training import save_network, trained_network
from attention_book.training.path_form import initial
from statmech_attention import pruning

from .shared import test_it_is_done_once_and_known_by_its_record, test_wrong_parameters_are_refused  # noqa: F401

NETWORK = dict(data="glyphs", layers=2, heads=2, kind="heads", seed=3)
SIZES = dict(examples=70, test_examples=60)
WIDTHS = (10, 200)
HEATS = [[0.5, 0.3], [0.4, 0.2]]
WRONG = [{"heads": 1}, {"examples": 0}, {"test_examples": -1}, {"layers": 0}]
THEORY = dict(draws=2, examples=20, test_examples=5)


def write_theory(folder, network_digest=None):
    """Order parameters as the theory's run records them; any matrices will do."""
    factors = np.random.default_rng(0).normal(size=(2, len(WIDTHS), 4, 4))
    dataset = xr.Dataset(
        {
            "order_parameter": (("draw", "width", "path", "path_other"), factors @ np.swapaxes(factors, 2, 3)),
            "best_temperature": (("draw", "width"), HEATS),
        },
        coords={"width": list(WIDTHS)},
    )
    inputs = {"network": network_digest or digest(next(folder.glob("network-*.nc")))}
    return results.save(dataset, folder / "theory-2x2-seed3.nc", parameters=THEORY, inputs=inputs)


@pytest.fixture(scope="module")
def suite():
    return one_shot_suite("glyphs")


@pytest.fixture(scope="module")
def network():
    weights = initial(jax.random.key(0), (2, 2), 12, 4, 192)
    return trained_network(jax.tree.map(lambda array: 3 * array, weights))


@pytest.fixture(scope="module")
def make(suite, network):
    """A pruning in a folder with a network and a theory on it."""

    def make(folder, **changes):
        if not list(folder.glob("network-*")):
            save_network(network, folder / "network-2x2-seed3.nc", parameters={})
            write_theory(folder)
        return experiments.Pruning(folder=folder, suites=lambda name: suite, **{**NETWORK, **SIZES, **changes})

    return make


@pytest.fixture
def copied(recorded, tmp_path):
    for path in recorded.parent.glob("*.nc"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture(scope="module")
def right(network, suite):
    """Right answers of a network that really lacks some heads, on a test set or the validation classes."""
    known = {}
    samples = {
        name: list(experiments.pruning_samples(suite, name, examples=count, seed=3))
        for name, count in {None: 70, **dict.fromkeys(suite.test_sets, 60)}.items()
    }

    def measure(name, removed):
        key = (name, tuple(sorted(int(head) for head in removed)))
        if key not in known:
            smaller = sma.keep_heads(network, sma.pruning.kept_heads(network.layers, key[1]))
            answers = []
            for sample in samples[name]:
                attentioned = sma.attentioned_inputs(sample.inputs, smaller.attention, readout="mean")
                answers.append(np.sign(smaller.outputs(attentioned)) == np.asarray(sample.labels))
            known[key] = np.concatenate(answers).astype(float)
        return known[key]

    return measure


def test_accuracies_and_drops_are_those_of_smaller_networks(found, right, suite):
    assert list(found["test_set"].values) == list(suite.test_sets)
    for place, name in enumerate(found["test_set"].values):
        whole = right(name, [])
        assert len(whole) == 60
        assert found["accuracy"][place] == pytest.approx(whole.mean())
        assert found["accuracy_error"][place] == pytest.approx(whole.std(ddof=1) / np.sqrt(60))
        for head in range(4):
            change = whole - right(name, [head])
            assert found["drop"][place, head] == pytest.approx(change.mean(), abs=1e-12)
            assert found["drop_error"][place, head] == pytest.approx(change.std(ddof=1) / np.sqrt(60), abs=1e-12)
    whole = right(None, [])
    loss = [whole.mean() - right(None, [head]).mean() for head in range(4)]
    np.testing.assert_allclose(found["score"].sel(criterion="leave one out"), loss, atol=1e-12)


def test_weighted_scores_take_the_size_of_the_path_path_kernels(recorded, found, network, suite):
    theory = results.load(recorded.with_name("theory-2x2-seed3.nc"))["order_parameter"].values
    inputs = np.concatenate([sample.inputs for sample in experiments.pruning_samples(suite, None, examples=70, seed=3)])
    values = np.asarray(sma.attentioned_inputs(inputs, network.attention, readout="mean").values)
    # The trace of every centred path-path kernel, from the kernels themselves.
    centring = np.eye(70) - np.full((70, 70), 1 / 70)
    size = np.empty((4, 4))
    for one, other in itertools.product(range(4), repeat=2):
        size[one, other] = np.trace(centring @ values[:, one] @ values[:, other].T @ centring) / (70 * 192)
    for draw, width in itertools.product(range(2), range(2)):
        wanted = sma.head_scores(theory[draw, width] * size, layers=(2, 2), definition="either")
        scores = found["theory_score"].sel(definition="weighted")[draw, width]
        np.testing.assert_allclose(scores, wanted, rtol=1e-8)
    wanted = sma.head_scores(network.order_parameters[0] * size, layers=(2, 2), definition="either")
    np.testing.assert_allclose(found["score"].sel(criterion="trained, weighted"), wanted, rtol=1e-8)
    wanted = sma.head_scores(np.diag(np.diag(size)), layers=(2, 2))
    np.testing.assert_allclose(found["score"].sel(criterion="kernels"), wanted, rtol=1e-8)


def test_curves_are_those_of_smaller_networks(found, right):
    np.testing.assert_array_equal(found["removed"], [0, 1, 2])
    orders = {("curve", "order", (one,)) for one in range(len(found["criterion"]))}
    orders |= {("theory_curve", "theory_order", index) for index in itertools.product(range(3), range(2), range(2))}
    orders.add(("greedy_curve", "greedy_order", ()))
    for curve, order, index in orders:
        removal = found[order].values[index]
        assert len(set(removal.tolist())) == 2 and len({head // 2 for head in removal}) == 2
        for place, name in enumerate(found["test_set"].values):
            wanted = [right(name, removal[:count]).mean() for count in range(3)]
            np.testing.assert_allclose(found[curve].values[(*index, place)], wanted, atol=1e-12)


def test_the_theorys_own_drops_are_those_of_its_kernel_regression(recorded, found, network, suite):
    theory = results.load(recorded.with_name("theory-2x2-seed3.nc"))
    name = str(found["test_set"].values[0])
    inputs = np.concatenate([one.inputs for one in experiments.pruning_samples(suite, name, examples=60, seed=3)])
    labels = np.concatenate([one.labels for one in experiments.pruning_samples(suite, name, examples=60, seed=3)])
    seen = sma.attentioned_inputs(inputs, network.attention, readout="mean")

    def share(train, answers, test, overlap, heat):
        mean = sma.kernel_regression(sma.Problem(train, answers, temperature=heat), overlap).predict(test).mean
        return float(np.mean(np.sign(mean) == labels))

    for draw, width in itertools.product(range(2), range(2)):
        sample = suite.train(jax.random.split(jax.random.fold_in(jax.random.key(3), draw), 3)[0], 20)
        train = sma.attentioned_inputs(sample.inputs, network.attention, readout="mean")
        overlap, heat = theory["order_parameter"].values[draw, width].astype(float), HEATS[draw][width]
        whole = share(train, sample.labels, seen, overlap, heat)
        assert found["theory_accuracy"][0, draw, width] == pytest.approx(whole)
        for head in range(4):
            without = pruning.without_head(seen, head)
            left = np.flatnonzero(sma.model.path_indices((2, 2))[:, head // 2] != head % 2)
            # Cut: test inputs that do not come through the head.
            silent = sma.AttentionedInputs(seen.values.at[:, np.setdiff1d(range(4), left)].set(0.0), (2, 2))
            cut = share(train, sample.labels, silent, overlap, heat)
            assert found["theory_drop"][0, draw, width, head] == pytest.approx(whole - cut, abs=1e-12)
            smaller, block = pruning.without_head(train, head), overlap[np.ix_(left, left)]
            fitted = share(smaller, sample.labels, without, block, heat)
            assert found["theory_drop_fitted"][0, draw, width, head] == pytest.approx(whole - fitted, abs=1e-12)
            if width == 0:
                options = {"width": WIDTHS[0], "temperature": heat}
                anew = sma.solve(sma.Problem(smaller, sample.labels, **options)).order_parameter
                again = share(smaller, sample.labels, without, anew, heat)
                assert found["theory_anew_accuracy"][0, draw, head] == pytest.approx(again, abs=1e-12)


def test_every_choice_of_a_quarter_of_the_heads_is_tried(found, right):
    np.testing.assert_array_equal(found["choice_removed"].values[:, 0], range(4))
    for place, name in enumerate(found["test_set"].values):
        wanted = [right(name, [head]).mean() for head in range(4)]
        np.testing.assert_allclose(found["choice_accuracy"][place], wanted, atol=1e-12)


def test_scores_are_those_of_theory_and_weights(recorded, found, network):
    theory = results.load(recorded.with_name("theory-2x2-seed3.nc"))["order_parameter"]
    np.testing.assert_array_equal(found["width"], WIDTHS)
    np.testing.assert_array_equal(found["definition"], ["both", "either", "weighted"])
    for kind, draw, width in itertools.product(["both", "either"], range(2), WIDTHS):
        scores = found["theory_score"].sel(definition=kind, width=width)[draw]
        wanted = sma.head_scores(theory.sel(width=width)[draw].values.astype(float), layers=(2, 2), definition=kind)
        np.testing.assert_allclose(scores, wanted)
        order = found["theory_order"].sel(definition=kind, width=width)[draw]
        np.testing.assert_array_equal(order, pruning.removal_order(wanted, layers=(2, 2)))
        np.testing.assert_allclose(
            found["score"].sel(criterion=f"trained, {kind}"),
            sma.head_scores(network.order_parameters[0], layers=(2, 2), definition=kind),
        )
    np.testing.assert_allclose(found["score"].sel(criterion="weights"), network.head_weight_norms())


def test_the_share_of_parameters_is_that_of_arrays_counted(found, network):
    width, features = 12, 192

    def count(one):
        values = sum(len(layer) for layer in one.value_norms) * width**2
        return values + sum(layer.size for layer in (*one.queries, *one.keys)) + width * features + width

    for removed, share in zip(([], [0], [0, 3]), found["parameter_share"].values, strict=True):
        assert share == pytest.approx(
            1 - count(sma.keep_heads(network, sma.pruning.kept_heads(network.layers, removed))) / count(network)
        )


def test_a_recheck_agrees_and_finds_other_numbers(network, make, found, copied):
    pruning = make(copied)
    recheck = pruning.recheck()
    assert recheck.difference < recheck.tolerance
    # Without the first head of layer 1 another network loses otherwise.
    assert np.unique(found["drop"].values[0]).size > 1
    swapped = replace(network, vectors=network.vectors[[2, 3, 0, 1]])
    save_network(swapped, copied / "network-2x2-seed3.nc", parameters={})
    assert pruning.recheck().difference > recheck.tolerance


def test_it_is_done_again_when_network_or_theory_change(network, make, copied):
    # The same numbers, written anew, are no reason.
    save_network(network, copied / "network-2x2-seed3.nc", parameters={"trained": "elsewhere"})
    pruning = make(copied)
    assert not pruning.reason
    theory = copied / "theory-2x2-seed3.nc"
    dataset, inputs = results.load(theory), results.record(theory)["inputs"]
    dataset["order_parameter"][0, 0, 0, 0] *= 2
    results.save(dataset, theory, parameters=THEORY, inputs=inputs)
    assert pruning.reason == "another theory"
    save_network(replace(network, vectors=2 * network.vectors), copied / "network-2x2-seed3.nc", parameters={})
    assert pruning.reason == "another network"
    with pytest.raises(ValueError, match="theory-2x2-seed3.nc: the theory of another network"):
        pruning.run()


def test_sources_that_do_not_fit_are_refused(copied, make):
    theory = copied / "theory-2x2-seed3.nc"
    results.save(xr.Dataset({"accuracy": 0.5}), theory, parameters={}, inputs=results.record(theory)["inputs"])
    with pytest.raises(ValueError, match="wanted a theory with `order_parameter` over draw, width, .*got none"):
        make(copied).run()
    theory.unlink()
    with pytest.raises(FileNotFoundError, match="theory-2x2-seed3.nc: no recorded result there"):
        make(copied).run()
    (copied / "network-2x2-seed3.nc").rename(copied / "network-2x4-seed3.nc")
    write_theory(copied).rename(copied / "theory-2x4-seed3.nc")
    with pytest.raises(ValueError, match=r"network-2x4-seed3.nc: wanted layers \(4, 4\), got \(2, 2\)"):
        make(copied, heads=4).run()


def test_samples_of_an_unknown_set_are_refused(suite):
    with pytest.raises(ValueError, match="name: wanted one of glyphs"):
        next(experiments.pruning_samples(suite, "letters", examples=1, seed=0))
