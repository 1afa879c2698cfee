"""Recorded samples on images: those of the samplers called directly, done once, resumed by blocks and widths, refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import experiments
from attention_book.experiments import samples as module
from statmech_attention import results, sampling

from .conftest import network_in, random_network

THEORY = dict(layers=1, heads=2, draws=2, examples=30, test_examples=40, widths=(50, 10), temperatures=(0.5, 0.05))
SETTINGS = dict(layers=1, heads=2, sampler="posterior", number=1, widths=(50, 10), chains=2, warmup=60, draws=60)
SETTINGS |= dict(thinning=1)
WEIGHTS = {**SETTINGS, "sampler": "weights", "widths": (10,), "warmup": 60, "draws": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """A network that was not trained, and the theory on its queries and keys."""
    place = tmp_path_factory.mktemp("samples")
    network_in(place, (2,))
    small("Theory", place, **THEORY).run(progress=False)
    return place


@pytest.fixture(scope="module")
def recorded(folder, small):
    return small("Samples", folder, **SETTINGS).run(progress=False)


@pytest.fixture(scope="module")
def sequences(suite):
    """The theory's second draw, drawn here once more: training inputs, labels, test inputs and labels by set."""
    network = random_network((2,))
    train_key, _, *keys = jax.random.split(jax.random.fold_in(jax.random.key(0), 1), 4)
    train = suite.train(train_key, 30)
    tests = [suite.test(key, 40, name) for key, name in zip(keys, suite.test_sets, strict=True)]
    xi, *seen = (sma.attentioned_inputs(one.inputs, network.attention, readout="mean") for one in (train, *tests))
    test = sma.AttentionedInputs(jnp.concatenate([one.values for one in seen]), (2,))
    return xi, train.labels, test, np.stack([one.labels for one in tests])


@pytest.mark.parametrize("sampler", ["posterior", "weights"])
def test_the_record_sums_up_the_draws_at_the_theorys_temperature(
    folder, recorded, small, sequences, sampler, monkeypatch
):
    xi, labels, test, test_labels = sequences
    if sampler == "posterior":
        settings, draw, path = SETTINGS, sampling.posterior, recorded
    else:
        settings, drawn = WEIGHTS, []

        def sampled(*data, **options):
            found = sampling.weights_posterior(*data, **options)
            if options["draws"] == WEIGHTS["draws"]:  # not the opening
                drawn.append((data, options, found))
            return found

        monkeypatch.setattr(module, "weights_posterior", sampled)
        path = small("Samples", folder, **WEIGHTS).run(progress=False)

        def draw(*data, **options):
            """What was drawn, after a look at what it was drawn from: long trajectories do not bear other last bits."""
            ((used, used_options, result),) = drawn
            for one, other in zip(
                jax.tree.leaves((used, used_options["attentioned_test"])), jax.tree.leaves((data, test)), strict=True
            ):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            assert jnp.array_equal(jax.random.key_data(used_options["key"]), jax.random.key_data(options["key"]))
            same = ("width", "temperature", "chains", "warmup", "draws")
            assert [used_options[name] for name in same] == [options[name] for name in same]
            return result

    assert path == folder / f"{sampler}-1x2-seed0.nc"
    found = results.load(path)
    theory = results.load(experiments.experiment_file("theory", folder, layers=1, heads=2, seed=0))
    assert found["width"].values.tolist() == sorted(settings["widths"])
    one = found.sel(width=10)
    assert one["temperature"] == theory["best_temperature"].sel(draw=1, width=10)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 1), 10)
    counts = {name: settings[name] for name in ("chains", "warmup", "draws")}
    temperature = float(one["temperature"])
    wanted = draw(xi, labels, width=10, temperature=temperature, key=key, attentioned_test=test, warn=False, **counts)
    np.testing.assert_allclose(one["steps"], wanted["steps"])
    np.testing.assert_allclose(
        one["order_parameter"], wanted["order_parameter"].mean(("chain", "draw")), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(one["order_parameter_r_hat"], wanted["order_parameter_r_hat"], rtol=1e-4)
    np.testing.assert_allclose(
        one["output"].values.ravel(), wanted["output"].mean(("chain", "draw")), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_array_equal(one["test_labels"], test_labels)
    means = sampling.estimate(wanted["output"])
    for place, mine in enumerate((slice(0, 40), slice(40, 80))):
        accuracy = sampling.mean_accuracy(sampling.Estimate(means.mean[mine], means.error[mine]), test_labels[place])
        assert one["accuracy"][place] == accuracy.mean
        np.testing.assert_allclose(one["accuracy_error"][place], accuracy.error, rtol=1e-3, atol=1e-12)
    assert one["seconds"] > 0


def test_it_is_done_once_and_again_for_another_theory(folder, recorded, small, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "posterior", lambda *_, **__: pytest.fail("sampled again"))
    assert small("Samples", folder, **SETTINGS).run() == recorded
    for name in ("network", "theory", "posterior"):
        path = experiments.experiment_file(name, folder, layers=1, heads=2, seed=0)
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert small("Samples", tmp_path, **SETTINGS).reason == ""
    network_in(tmp_path, (2,), seed=5)
    again = small("Samples", tmp_path, **SETTINGS)
    assert again.reason == "another network"
    with pytest.raises(ValueError, match="the theory of another network"):
        again.run()


def test_an_interrupted_run_goes_on(folder, recorded, small, tmp_path, monkeypatch):
    """Stopped while the second width is summed up: the first is kept, and of the second all draws."""
    for name in ("network", "theory"):
        path = experiments.experiment_file(name, folder, layers=1, heads=2, seed=0)
        (tmp_path / path.name).write_bytes(path.read_bytes())
    original, calls = module._summary, []

    def killed_at_the_second(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    samples = small("Samples", tmp_path, **SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_summary", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            samples.run(progress=False)
    left = {file.name for file in (tmp_path / "checkpoints").rglob("*") if file.is_file()}
    assert left == {"width10.nc", "width10.npz", "width10.seconds", "width50.npz", "width50.seconds"}
    path = samples.run(progress=False)
    found, wanted = (results.load(one).drop_vars("seconds") for one in (path, recorded))
    assert found.identical(wanted) and not list((tmp_path / "checkpoints").iterdir())


def test_the_opening_is_drawn_again(folder, recorded, small):
    again = small("Samples", folder, **SETTINGS).recheck()
    assert again.what == "4 draws of 2 chains" and again.difference <= 1e-12 < again.tolerance
    assert small("Samples", folder, **(SETTINGS | {"seed": 0, "number": 0})).recheck().difference > again.tolerance


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampler": "gibbs"}, "sampler: wanted one of posterior, weights, got 'gibbs'"),
        ({"widths": ()}, "widths: wanted different whole numbers"),
        ({"widths": (10, 10)}, "widths: wanted different whole numbers"),
        ({"widths": (10.5,)}, "widths: wanted different whole numbers"),
        ({"widths": (10, 11)}, r"widths: wanted some of the theory's, \[10.0, 50.0\], got also \[11.0\]"),
        ({"number": 2}, "number: wanted a draw of the theory's 2, from 0, got 2"),
        ({"chains": 1}, "chains: wanted a whole number of at least 2"),
        ({"draws": 2}, "draws: wanted a whole number of at least 4"),
    ],
)
def test_bad_input_is_refused(folder, small, change, message):
    with pytest.raises(ValueError, match=message):
        small("Samples", folder, **{**SETTINGS, **change}).run()


def test_without_a_theory_it_says_so(small, tmp_path):
    network_in(tmp_path, (2,))
    with pytest.raises(FileNotFoundError, match=r"theory-1x2-seed0\.nc: no recorded result"):
        small("Samples", tmp_path, **SETTINGS).run()
