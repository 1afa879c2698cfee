"""Recorded samples on images: those of the samplers called directly, once, resumed, refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import results
from attention_book.experiments import samples as module
from attention_book.measures import mean_accuracy
from statmech_attention import sampling

from .conftest import network_in, random_network
from .shared import *  # noqa: F403

THEORY = dict(layers=1, heads=2, draws=2, examples=30, test_examples=40, widths=(50, 10), temperatures=(0.5, 0.05))
SETTINGS = dict(layers=1, heads=2, sampler="posterior", number=1, widths=(50, 10), chains=2, warmup=60, draws=60)
SETTINGS |= dict(thinning=1)
WRONG = [
    {"sampler": "gibbs"},
    {"widths": (10.5,)},
    ({"widths": (10, 11)}, r"widths: wanted some of the theory's, \[10.0, 50.0\], got also \[11\]"),
    ({"number": 2}, "number: wanted a draw of the theory's 2, from 0, got 2"),
    {"chains": 1},
    {"draws": 2},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """A network that was not trained, and the theory on its queries and keys."""
    place = tmp_path_factory.mktemp("samples")
    network_in(place, (2,))
    small("Theory", place, **THEORY).run(progress=False)
    return place


@pytest.fixture(scope="module")
def make(folder, small):
    def make(place, **changes):
        for path in [*folder.glob("network-*"), *folder.glob("theory-*")]:
            if not (place / path.name).exists():
                (place / path.name).write_bytes(path.read_bytes())
        return small("Samples", place, **{**SETTINGS, **changes})

    return make


def test_sequences_are_those_of_the_theorys_draw(recorded, make, suite):
    network, found = random_network((2,)), make(recorded.parent).draw(1)
    train_key, _, *keys = jax.random.split(jax.random.fold_in(jax.random.key(0), 1), 4)
    samples = suite.train(train_key, 30), *map(suite.test, keys, (40, 40), suite.test_sets)
    for one, sample in zip((found.train, *found.tests.values()), samples, strict=True):
        xi = sma.attentioned_inputs(sample.inputs, network.attention, readout="mean")
        np.testing.assert_allclose(one.inputs.values, xi.values, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(one.labels, sample.labels)


def test_the_record_sums_up_the_draws_at_the_theorys_temperature(recorded, found, make):
    drawn = make(recorded.parent).draw(1)
    (xi, labels), tests = drawn.train, drawn.tests.values()
    test = sma.AttentionedInputs(jnp.concatenate([seen.inputs.values for seen in tests]), (2,))
    test_labels = np.stack([seen.labels for seen in tests])
    assert recorded.name == "posterior-1x2-seed0.nc"
    theory = results.load(recorded.with_name("theory-1x2-seed0.nc"))
    assert found["width"].values.tolist() == [10, 50]
    one = found.sel(width=10)
    assert one["temperature"] == theory["best_temperature"].sel(draw=1, width=10)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 1), 10)
    chains = sma.Chains(draws=60, count=2, warmup=60, warn=False)
    problem = sma.Problem(xi, labels, width=10, temperature=float(one["temperature"]))
    wanted = sampling.posterior(problem, key=key, test=test, chains=chains)
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
        accuracy = mean_accuracy(sampling.Estimate(means.mean[mine], means.error[mine]), test_labels[place])
        assert one["accuracy"][place] == accuracy.mean
        np.testing.assert_allclose(one["accuracy_error"][place], accuracy.error, rtol=1e-3, atol=1e-12)
    assert one["seconds"] > 0


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, make, tmp_path, monkeypatch):
    """Stopped while the second width is summed up: the first is kept."""
    original, calls = module._summary, []

    def killed_at_the_second(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    samples = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_summary", killed_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            samples.run(progress=False)
    left = {file.name for file in (tmp_path / "checkpoints").rglob("*") if file.is_file()}
    assert left == {"width10.nc", "width10.seconds", "width50.seconds"}
    path = samples.run(progress=False)
    found, wanted = (results.load(one).drop_vars("seconds") for one in (path, recorded))
    assert found.identical(wanted) and not list((tmp_path / "checkpoints").iterdir())
