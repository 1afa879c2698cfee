"""Diagrams against the trajectories they sum up."""

import numpy as np
import pytest

from statmech_attention import dmft
from statmech_attention.dmft import Regime, diagrams


@pytest.fixture(scope="module")
def pair(published):
    """Two values of beta and a start."""
    model = dmft.dynamics(published, beta=np.array([1.27, 3.0]), gamma=220.0, epsilon=0.02)
    return model, dmft.advance(model, dmft.initial_window(model), steps=5000)


def test_a_bifurcation_diagram_holds_the_values_of_the_trajectory(pair):
    model, window = pair
    options = dict(transient=10, steps=700, thickness=0.05, levels=401, limit=0.8, pairs=((0, 1), (2, 0)))
    found = dmft.bifurcation_diagram(model, window, **options)
    assert found.visited.shape == (2, 3, 401) and found.sections.shape == (2, 2, 401)
    words = np.asarray(
        dmft.trajectory(model, dmft.advance(model, window, steps=10), steps=700, keep="output_words").output_words
    )
    for network in range(2):
        for feature in range(3):
            assert _values(found.values, found.visited[network, feature]) == _rounded(
                words[network, :, feature], 0.8, 401
            )
        for number, (feature, other) in enumerate(options["pairs"]):
            close = np.abs(words[network, :, other]) <= 0.05
            wanted = _rounded(words[network, close, feature], 0.8, 401)
            assert _values(found.values, found.sections[network, number]) == wanted
    assert np.any(found.sections)
    last = dmft.advance(model, window, steps=710)
    np.testing.assert_allclose(found.window.newest_first(), last.newest_first(), atol=1e-9)


def _values(values, marked):
    return set(np.round(values[marked], 9))


def _rounded(series, limit, levels):
    step = 2 * limit / (levels - 1)
    inside = series[np.abs(series) <= limit + step / 2]
    return set(np.round(np.round((inside + limit) / step) * step - limit, 9))


def test_attractors_over_two_parameters(published):
    model = dmft.dynamics(published, beta=np.array([0.5, 3.0]), gamma=np.array([[100.0], [220.0]]), epsilon=0.02)
    found = dmft.attractors(model, dmft.initial_window(model), transient=5000, steps=2000, longest=64)
    assert found.regime.shape == (2, 2) and found.exponents.shape == (2, 2, 2)
    assert found.regime[1].tolist() == [Regime.PERIODIC, Regime.PERIODIC]
    assert found.period[:, 0].tolist() == [4, 4] and found.period[1, 1] == 24


def test_what_comes_back_is_periodic_however_slowly_it_attracts(published):
    """Just below the onset the first exponent is within the threshold, which alone would leave it open."""
    model = dmft.dynamics(published, beta=1.243, gamma=220.0, epsilon=0.02)
    found = dmft.attractors(model, dmft.initial_window(model), transient=200_000, steps=2000, longest=8)
    assert abs(found.exponents[0]) < dmft.THRESHOLD and found.period == 4 and found.regime == Regime.PERIODIC


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m, w: dmft.bifurcation_diagram(m, w, transient=-1, steps=5), "transient: wanted a whole number of at"),
        (
            lambda m, w: dmft.bifurcation_diagram(m, w, transient=0, steps=0),
            "steps: wanted a whole number of at least 1",
        ),
        (lambda m, w: dmft.bifurcation_diagram(m, w, transient=0, steps=5, levels=1), "levels: wanted a whole number"),
        (
            lambda m, w: dmft.bifurcation_diagram(m, w, transient=0, steps=5, thickness=0.0),
            "thickness: wanted a positive",
        ),
    ],
)
def test_bad_input_is_refused(pair, call, message):
    with pytest.raises(ValueError, match=message):
        call(*pair)


@pytest.mark.parametrize("changed", [{"count": 1}, {"longest": 0}], ids=str)
def test_bad_numbers_are_refused_before_the_transient(pair, changed, monkeypatch):
    monkeypatch.setattr(diagrams, "advance", lambda *_, **__: pytest.fail("the transient was run"))
    with pytest.raises(ValueError, match=f"{next(iter(changed))}: wanted"):
        dmft.attractors(*pair, transient=1, steps=5, **changed)
