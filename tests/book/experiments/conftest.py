"""A small suite of glyphs, networks that were not trained, and experiments on them."""

import jax
import pytest

from attention_book import experiments, results
from attention_book.experiments.networks import OnNetwork
from attention_book.tasks import OneShot, OneShotSuite, TestSet, glyph_split, glyphs
from attention_book.training import save_network, trained_network
from attention_book.training.path_form import initial


def pytest_generate_tests(metafunc):
    if "wrong" in metafunc.fixturenames:
        metafunc.parametrize("wrong", metafunc.module.WRONG, ids=str)


@pytest.fixture(scope="module")
def make(request, small):
    """The file's `EXPERIMENT` with its `SETTINGS`, in a folder with all that the file's `prepare` puts there."""
    module = request.module

    def make(folder, **changes):
        if hasattr(module, "prepare") and not list(folder.glob("*.nc")):
            module.prepare(folder)
        return small(module.EXPERIMENT, folder, **{**module.SETTINGS, **changes})

    return make


@pytest.fixture(scope="module")
def recorded(make, tmp_path_factory):
    """A record of the file's experiment."""
    return make(tmp_path_factory.mktemp("recorded")).run(progress=False)


@pytest.fixture(scope="module")
def found(recorded):
    return results.load(recorded)


@pytest.fixture(scope="session")
def suite():
    """As the suite of glyphs, with few of them, and a second test set: other images, but the same programs."""
    task = OneShot(glyphs(24, 4))
    split = glyph_split(task.images)
    other = OneShot(glyphs(24, 4, seed=1))
    tests = {name: TestSet(images, split.test, split.test) for name, images in (("new", task), ("others", other))}
    return OneShotSuite(task, split, tests)


@pytest.fixture(scope="session")
def small(suite):
    """Experiments by name; those on networks on the suite, without the tedious part of their parameters."""

    def small(name, folder, **parameters):
        kind, common = getattr(experiments, name), {"data": "glyphs", "kind": "heads", "seed": 0}
        common["suites"] = {"glyphs": suite}.__getitem__
        return kind(folder=folder, **((common if issubclass(kind, OnNetwork) else {}) | parameters))

    return small


def random_network(heads, seed=7, dimension=8):
    """A network that was not trained: the theory takes any queries and keys."""
    return trained_network(initial(jax.random.key(seed), heads, 16, dimension, 192))


def network_in(folder, heads, seed=7):
    """Such a network as a record."""
    network = random_network(heads, seed)
    path = experiments.experiment_file("network", folder, layers=len(heads), heads=heads[0], seed=0)
    save_network(network, path, parameters={"made": "at random"}, maker="network")
    return network
