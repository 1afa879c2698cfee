"""Recorded diagrams at tiny size: what is in them, and that they go on where they stopped."""

import numpy as np
import pytest

from attention_book import results
from attention_book.dynamics import attractors, bifurcation_diagram
from attention_book.experiments import Diagram, marked
from attention_book.experiments.diagrams import PAIRS
from statmech_attention import dmft

from .shared import *  # noqa: F403

TINY = dict(seed=1, window=4, gamma=220.0, epsilon=0.02, low=2.6, high=3.0, start=3.0, limit=1.0, gammas=3)
TINY |= dict(networks=5, transient=40, steps=60, levels=51, count=2, parts=2)
WRONG = [
    {"diagram": "map"},
    {"networks": 1},
    {"ensemble": "many"},
    ({"low": 3.0, "high": 2.0}, "low, high, parts: wanted 0 <= low < high"),
    ({"parts": 6}, "at most 5 parts"),
    ({"diagram": "patterns", "sets": 1}, "at most 1 parts"),
]


@pytest.fixture(scope="module", params=["bifurcation", "continuation", "exponents", "phases"])
def make(request):
    return lambda folder, **changes: Diagram(folder=folder, **{**TINY, "diagram": request.param, **changes})


def load(folder, **parameters):
    return results.load(Diagram(folder=folder, **(TINY | parameters)).run(progress=False))


@pytest.fixture(scope="module")
def begin():
    model = dmft.dynamics(dmft.published_patterns(seed=1), beta=3.0, gamma=220.0, epsilon=0.02)
    return model, dmft.advance(model, dmft.initial_window(model), steps=40)


def test_a_bifurcation_diagram_is_recorded(tmp_path, begin):
    found, (model, window) = load(tmp_path, diagram="bifurcation"), begin
    np.testing.assert_allclose(found.beta, np.linspace(2.6, 3.0, 5))
    assert (tmp_path / "bifurcation-seed1-beta2.6-3.nc").is_file() and found.seconds.shape == (2,)
    wanted = bifurcation_diagram(
        model.at(beta=found.beta.values), window, transient=40, steps=60, levels=51, pairs=PAIRS
    )
    np.testing.assert_array_equal(marked(found.visited, 51), wanted.visited[:, 0])
    np.testing.assert_array_equal(marked(found.sections, 51), wanted.sections)


def test_both_ways_of_a_continuation_begin_at_their_ends(tmp_path, begin):
    found, (model, window) = load(tmp_path, diagram="continuation"), begin
    assert found.visited.dims == ("way", "network", "byte")
    np.testing.assert_allclose(found.beta, np.linspace(2.6, 3.0, 5))
    for way, place, beta in (("up", 0, 2.6), ("down", -1, 3.0)):
        wanted = bifurcation_diagram(model.at(beta=beta), window, transient=40, steps=60, levels=51, pairs=PAIRS)
        np.testing.assert_array_equal(marked(found.visited.sel(way=way)[place], 51), wanted.visited[0])


@pytest.mark.parametrize("diagram", ["exponents", "phases"])
def test_exponents_and_regimes_are_recorded(tmp_path, begin, diagram):
    found, (model, window) = load(tmp_path, diagram=diagram), begin
    if diagram == "phases":
        np.testing.assert_allclose(found.gamma, [0.0, 110.0, 220.0])
        found = found.isel(gamma=2)
    wanted = attractors(model.at(beta=found.beta.values), window, transient=40, steps=60)
    np.testing.assert_allclose(found.exponents, wanted.exponents, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(found.regime, wanted.regime)
    np.testing.assert_array_equal(found.period, wanted.period)


def test_the_life_of_transients_is_recorded(tmp_path, begin):
    options = dict(diagram="lifetimes", networks=3, starts=4, blocks=3)
    found, (model, window) = load(tmp_path, **options), begin
    assert found.block_exponent.shape == (3, 4, 3)
    # Until rounding has grown, all starts are one trajectory: the first block is that of the state.
    model = model.at(beta=found.beta.values)
    there = dmft.window_from_attention(model, window.newest_first(), slot=int(window.slot))
    alone = dmft.lyapunov_spectrum(model, there, steps=18, count=1, discard=2, blocks=2)
    for start in range(4):
        np.testing.assert_allclose(found.block_exponent[:, start, 0], alone.exponents[:, 0], rtol=1e-4, atol=1e-6)
    assert Diagram(folder=tmp_path, **(TINY | options)).recheck().difference < 1e-6


@pytest.mark.parametrize("ensemble", ["segments", "independent"])
def test_other_patterns_are_recorded(tmp_path, ensemble):
    options = dict(ensemble=ensemble, low=0.9, high=1.2, networks=3, starts=3, sets=2, steps=1000, diagram="patterns")
    found = load(tmp_path, **options)
    assert (tmp_path / f"patterns-{'' if ensemble == 'segments' else 'independent-'}seed1-beta0.9-1.2.nc").is_file()
    assert found.regime.shape == (2, 3, 3) and found["set"].values.tolist() == [1, 2]
    for seed in (1, 2):
        patterns = dmft.published_patterns(seed=seed, segments={"segments": 3, "independent": None}[ensemble])
        one = found.sel(set=seed)
        assert float(one.onset) == pytest.approx(dmft.onset(patterns).beta)
        model = dmft.dynamics(patterns, beta=float(one.onset) / 0.98 * one.scale.values, gamma=220.0, epsilon=0.02)
        wanted = attractors(model, dmft.initial_window(model), transient=3 + 40, steps=1000)
        np.testing.assert_allclose(one.exponents[:, 0], wanted.exponents, rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(one.regime[:, 0], wanted.regime)
    recheck = Diagram(folder=tmp_path, **(TINY | options)).recheck()
    assert recheck.what == "the first patterns below their onset" and recheck.difference < recheck.tolerance
