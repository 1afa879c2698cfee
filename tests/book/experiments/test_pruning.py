"""Recorded pruning: its numbers are those of networks that really lack the heads; made again when what it rests on is."""

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
from attention_book.training import trained_network
from attention_book.training.path_form import initial
from statmech_attention import pruning
from statmech_attention.training import save_network

NETWORK = dict(data="glyphs", layers=2, heads=2, kind="heads", seed=3)
SIZES = dict(examples=70, test_examples=60)
WIDTHS = (10, 200)
HEATS = [[0.5, 0.3], [0.4, 0.2]]
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
def pruned(suite):
    """Runs a pruning; `measured` counts those that are really done."""

    class Pruned:
        measured = 0

        def asked(self, folder, **parameters):
            return experiments.Pruning(folder=folder, suites=lambda name: suite, **parameters)

        def __call__(self, folder, **parameters):
            one = self.asked(folder, **parameters)
            reason, path = one.reason, one.run(progress=False)
            self.measured += bool(reason)
            return path

    return Pruned()


@pytest.fixture
def counted(pruned):
    pruned.measured = 0
    return pruned


@pytest.fixture(scope="module")
def made(tmp_path_factory, pruned):
    """A folder with a network, a theory on it, and its pruning."""
    folder = tmp_path_factory.mktemp("one_shot")
    network = trained_network(jax.tree.map(lambda array: 3 * array, initial(jax.random.key(0), (2, 2), 12, 4, 192)))
    save_network(network, folder / "network-2x2-seed3.nc", parameters={})
    write_theory(folder)
    return folder, network, pruned(folder, **NETWORK, **SIZES)


@pytest.fixture
def copied(made, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in made[0].glob("*.nc"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.fixture(scope="module")
def right(made, suite):
    """Right answers of a network that really lacks some heads, on a test set or the validation classes."""
    network, known = made[1], {}
    samples = {
        name: list(experiments.pruning_samples(suite, name, examples=count, seed=3))
        for name, count in {None: 70, **dict.fromkeys(suite.test_sets, 60)}.items()
    }

    def measure(name, removed):
        key = (name, tuple(sorted(int(head) for head in removed)))
        if key not in known:
            smaller = sma.prune(network, np.array(key[1], int))
            found = []
            for sample in samples[name]:
                attentioned = sma.attentioned_inputs(sample.inputs, smaller.attention, readout="mean")
                found.append(np.sign(smaller.outputs(attentioned)) == np.asarray(sample.labels))
            known[key] = np.concatenate(found).astype(float)
        return known[key]

    return measure


def test_accuracies_and_drops_are_those_of_smaller_networks(made, right, suite):
    found = results.load(made[2])
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


def test_weighted_scores_take_the_size_of_the_path_path_kernels(made, suite):
    folder, network, path = made
    found, theory = results.load(path), results.load(folder / "theory-2x2-seed3.nc")["order_parameter"].values
    inputs = np.concatenate([sample.inputs for sample in experiments.pruning_samples(suite, None, examples=70, seed=3)])
    values = np.asarray(sma.attentioned_inputs(inputs, network.attention, readout="mean").values)
    # The trace of every centred path-path kernel, from the kernels themselves.
    centring = np.eye(70) - np.full((70, 70), 1 / 70)
    size = np.empty((4, 4))
    for one, other in itertools.product(range(4), repeat=2):
        size[one, other] = np.trace(centring @ values[:, one] @ values[:, other].T @ centring) / (70 * 192)
    for draw, width in itertools.product(range(2), range(2)):
        wanted = sma.head_scores(theory[draw, width] * size, heads=(2, 2), definition="either")
        scores = found["theory_score"].sel(definition="weighted")[draw, width]
        np.testing.assert_allclose(scores, wanted, rtol=1e-8)
    wanted = sma.head_scores(network.order_parameters[0] * size, heads=(2, 2), definition="either")
    np.testing.assert_allclose(found["score"].sel(criterion="trained, weighted"), wanted, rtol=1e-8)
    wanted = sma.head_scores(np.diag(np.diag(size)), heads=(2, 2))
    np.testing.assert_allclose(found["score"].sel(criterion="kernels"), wanted, rtol=1e-8)


def test_curves_are_those_of_smaller_networks(made, right):
    found = results.load(made[2])
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


def test_the_theorys_own_drops_are_those_of_its_kernel_regression(made, suite):
    folder, network, path = made
    found, theory = results.load(path), results.load(folder / "theory-2x2-seed3.nc")
    name = str(found["test_set"].values[0])
    inputs = np.concatenate([one.inputs for one in experiments.pruning_samples(suite, name, examples=60, seed=3)])
    labels = np.concatenate([one.labels for one in experiments.pruning_samples(suite, name, examples=60, seed=3)])
    seen = sma.attentioned_inputs(inputs, network.attention, readout="mean")

    def share(train, answers, test, overlap, heat):
        mean = sma.predict(train, answers, test, overlap, temperature=heat).mean
        return float(np.mean(np.sign(mean) == labels))

    for draw, width in itertools.product(range(2), range(2)):
        sample = suite.train(jax.random.split(jax.random.fold_in(jax.random.key(3), draw), 3)[0], 20)
        train = sma.attentioned_inputs(sample.inputs, network.attention, readout="mean")
        overlap, heat = theory["order_parameter"].values[draw, width].astype(float), HEATS[draw][width]
        whole = share(train, sample.labels, seen, overlap, heat)
        assert found["theory_accuracy"][0, draw, width] == pytest.approx(whole)
        for head in range(4):
            without = pruning.without_head(seen, head)
            left = np.flatnonzero(sma.path_indices((2, 2))[:, head // 2] != head % 2)
            # Cut: test inputs that do not come through the head.
            silent = sma.AttentionedInputs(seen.values.at[:, np.setdiff1d(range(4), left)].set(0.0), (2, 2))
            cut = share(train, sample.labels, silent, overlap, heat)
            assert found["theory_drop"][0, draw, width, head] == pytest.approx(whole - cut, abs=1e-12)
            smaller, block = pruning.without_head(train, head), overlap[np.ix_(left, left)]
            fitted = share(smaller, sample.labels, without, block, heat)
            assert found["theory_drop_fitted"][0, draw, width, head] == pytest.approx(whole - fitted, abs=1e-12)
            if width == 0:
                options = {"width": WIDTHS[0], "temperature": heat}
                anew = sma.solve(smaller, sample.labels, **options).order_parameter
                again = share(smaller, sample.labels, without, anew, heat)
                assert found["theory_anew_accuracy"][0, draw, head] == pytest.approx(again, abs=1e-12)


def test_every_choice_of_a_quarter_of_the_heads_is_tried(made, right):
    found = results.load(made[2])
    np.testing.assert_array_equal(found["choice_removed"].values[:, 0], range(4))
    for place, name in enumerate(found["test_set"].values):
        wanted = [right(name, [head]).mean() for head in range(4)]
        np.testing.assert_allclose(found["choice_accuracy"][place], wanted, atol=1e-12)


def test_scores_are_those_of_theory_and_weights(made):
    folder, network, path = made
    found, theory = results.load(path), results.load(folder / "theory-2x2-seed3.nc")["order_parameter"]
    np.testing.assert_array_equal(found["width"], WIDTHS)
    np.testing.assert_array_equal(found["definition"], ["both", "either", "weighted"])
    for kind, draw, width in itertools.product(["both", "either"], range(2), WIDTHS):
        scores = found["theory_score"].sel(definition=kind, width=width)[draw]
        wanted = sma.head_scores(theory.sel(width=width)[draw].values.astype(float), heads=(2, 2), definition=kind)
        np.testing.assert_allclose(scores, wanted)
        order = found["theory_order"].sel(definition=kind, width=width)[draw]
        np.testing.assert_array_equal(order, pruning.removal_order(wanted, heads=(2, 2)))
        np.testing.assert_allclose(
            found["score"].sel(criterion=f"trained, {kind}"),
            sma.head_scores(network.order_parameters[0], heads=(2, 2), definition=kind),
        )
    np.testing.assert_allclose(found["score"].sel(criterion="weights"), pruning.head_weight_norms(network))


def test_the_share_of_parameters_is_that_of_arrays_counted(made):
    _, network, path = made
    width, features = 12, 192

    def count(one):
        values = sum(len(layer) for layer in one.value_norms) * width**2
        return values + sum(layer.size for layer in (*one.queries, *one.keys)) + width * features + width

    share = results.load(path)["parameter_share"].values
    for removed, found in zip(([], [0], [0, 3]), share, strict=True):
        assert found == pytest.approx(1 - count(sma.prune(network, removed)) / count(network))


def test_the_record_is_small_and_says_what_it_rests_on(made):
    folder, _, path = made
    assert (
        path == experiments.experiment_file("pruning", folder, layers=2, heads=2, seed=3)
        and path.name == "pruning-2x2-seed3.nc"
    )
    record = results.record(path)
    assert path.stat().st_size < 500_000
    assert record["inputs"]["network"] == digest(folder / "network-2x2-seed3.nc")
    assert record["inputs"]["theory"] == digest(folder / "theory-2x2-seed3.nc")
    assert record["seed"] == 3 and record["maker"] == "pruning" and record["wall_seconds"] > 0


def test_it_is_done_once_and_again_when_a_parameter_changes(copied, counted):
    # As many as there are of a test set: most programs are there.
    for changed, wanted in [({}, 0), ({"examples": 60}, 1), ({"examples": 60}, 1)]:
        counted(copied, **{**NETWORK, **SIZES, **changed})
        assert counted.measured == wanted


def test_a_drop_measured_again_tells_another_network(made, copied, suite):
    folder, network, _ = made
    pruning = experiments.Pruning(folder=copied, suites=lambda name: suite, **NETWORK, **SIZES)
    again = pruning.again()
    assert again.difference < again.tolerance
    # Without the first head of layer 1 another network loses otherwise.
    recorded = results.load(folder / "pruning-2x2-seed3.nc")["drop"].values[0]
    assert np.unique(recorded).size > 1
    swapped = replace(network, vectors=network.vectors[[2, 3, 0, 1]])
    save_network(swapped, copied / "network-2x2-seed3.nc", parameters={})
    assert pruning.again().difference > again.tolerance


def test_it_is_done_again_when_network_or_theory_change(made, copied, counted):
    before = counted(copied, **NETWORK, **SIZES).read_bytes()
    network = made[1]
    # The same numbers, written anew, are no reason.
    save_network(network, copied / "network-2x2-seed3.nc", parameters={"trained": "elsewhere"})
    assert counted(copied, **NETWORK, **SIZES).read_bytes() == before and not counted.measured
    another = replace(network, vectors=2 * network.vectors)
    save_network(another, copied / "network-2x2-seed3.nc", parameters={})
    write_theory(copied)
    assert counted.asked(copied, **NETWORK, **SIZES).reason == "another network"
    counted(copied, **NETWORK, **SIZES)
    assert counted.measured == 1 and not counted.asked(copied, **NETWORK, **SIZES).reason
    theory = copied / "theory-2x2-seed3.nc"
    dataset, inputs = results.load(theory), results.record(theory)["inputs"]
    dataset["order_parameter"][0, 0, 0, 0] *= 2
    results.save(dataset, theory, parameters=THEORY, inputs=inputs)
    assert counted.asked(copied, **NETWORK, **SIZES).reason == "another theory"


def test_what_is_missing_or_does_not_fit_is_said(copied, pruned):
    theory = copied / "theory-2x2-seed3.nc"
    (copied / "pruning-2x2-seed3.nc").unlink()

    write_theory(copied, network_digest="of another one")
    with pytest.raises(ValueError, match="theory-2x2-seed3.nc: the theory of another network"):
        pruned(copied, **NETWORK, **SIZES)
    results.save(
        xr.Dataset({"accuracy": 0.5}), write_theory(copied), parameters={}, inputs=results.record(theory)["inputs"]
    )
    with pytest.raises(ValueError, match="wanted a theory with `order_parameter` over draw, width, .*got accuracy"):
        pruned(copied, **NETWORK, **SIZES)
    theory.unlink()
    with pytest.raises(FileNotFoundError, match="theory-2x2-seed3.nc: no recorded result there"):
        pruned(copied, **NETWORK, **SIZES)
    (copied / "network-2x2-seed3.nc").rename(copied / "network-2x4-seed3.nc")
    write_theory(copied).rename(copied / "theory-2x4-seed3.nc")
    with pytest.raises(ValueError, match=r"network-2x4-seed3.nc: wanted heads \(4, 4\), got \(2, 2\)"):
        pruned(copied, **{**NETWORK, "heads": 4}, **SIZES)
    for name, value in (("heads", 1), ("examples", 0), ("test_examples", -1), ("layers", 0)):
        with pytest.raises(ValueError, match=f"{name}: wanted"):
            pruned(copied, **{**NETWORK, **SIZES, name: value})


def test_samples_of_an_unknown_set_are_refused(suite):
    with pytest.raises(ValueError, match="name: wanted one of glyphs"):
        next(experiments.pruning_samples(suite, "letters", examples=1, seed=0))
