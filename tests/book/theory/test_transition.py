"""Barriers by the library against plain numpy, and the networks' dynamics against what the posterior must be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize, minimize_scalar

import statmech_attention as sma
from attention_book.theory import transition


def _action(along, rest, kernels, y, width, temperature):
    """(11) of two rotated paths, U = R R^T, R = ((sqrt along, 0), (a, e^b)), with the readout's number at its best."""
    root = np.array([[np.sqrt(along), 0.0], [rest[0], np.exp(rest[1])]])
    U = root @ root.T
    K = U[0, 0] * kernels[0] + U[0, 1] * kernels[1] + U[1, 1] * kernels[2]
    factor, lower = cho_factor(K + temperature * np.eye(len(y)))
    energy = 2 * np.log(np.diagonal(factor)).sum() + y @ cho_solve((factor, lower), y)
    u = (np.sqrt(1 + 4 * np.trace(U)) - 1) / 2  # where tr U / u + u + ln u is smallest
    return np.trace(U) / u + np.log(u) + u - np.log(np.linalg.det(U)) + energy / width


def _barrier(data, width, temperature):
    """N / 2 times the highest of the lowest points at given U along (1, -1), minus the prior's minimum."""
    first, second = data.x[:, 0], data.x[:, 1]
    minus, plus = (first - second) / np.sqrt(2), (first + second) / np.sqrt(2)
    both = minus @ plus.T
    kernels = [one / (2 * data.features) for one in (minus @ minus.T, both + both.T, plus @ plus.T)]
    start = np.zeros(2)

    def floor(along):
        found = minimize(lambda rest: _action(along, rest, kernels, data.y, width, temperature), start, method="BFGS")
        start[:] = found.x
        return found.fun

    grid = np.geomspace(1, 30, 18)
    heights = [floor(along) for along in grid]
    low = next(i for i in range(1, 17) if heights[i] < min(heights[i - 1], heights[i + 1]))
    top = next(i for i in range(low, 17) if heights[i] > max(heights[i - 1], heights[i + 1]))
    how = {"method": "bounded", "options": {"xatol": 1e-3}}
    bottom = minimize_scalar(floor, bounds=grid[[low - 1, low + 1]], **how)
    summit = minimize_scalar(lambda along: -floor(along), bounds=grid[[top - 1, top + 1]], **how)
    return width / 2 * (-summit.fun - bottom.fun)


@pytest.mark.parametrize("draw", range(5))
def test_barriers_are_those_of_separate_code(draw):
    width, examples = 20, 120
    data = transition.draw(np.random.default_rng([draw, width, examples]), examples, 4 * examples, 0.995, 0.7)
    _, action = transition.landscape(transition.action_of(data, width, 0.05))
    barrier = width / 2 * (action[1] - action[0])
    assert barrier == pytest.approx(_barrier(data, width, 0.05), abs=2e-4)


def test_the_landscape_begins_at_the_action_of_the_solution():
    data = transition.draw(np.random.default_rng([0, 20, 120]), 120, 480, 0.995, 0.7)
    _, action = transition.landscape(transition.action_of(data, 20, 0.05))
    inputs = data.x * np.sqrt(data.x.shape[-1] / data.features)
    problem = sma.Problem(inputs, data.y, layers=(2,), width=20, temperature=0.05)
    assert float(sma.solve(problem).action) == pytest.approx(action[0], rel=1e-7)


def test_next_order_is_that_of_separate_code():
    """By (D1) instead of good coordinates: half the action and the rest of (D5), curvatures by differences."""
    width, examples, temperature = 20, 120, 0.05
    data = transition.draw(np.random.default_rng([1, width, examples]), examples, 4 * examples, 0.995, 0.7)
    first, second = data.x[:, 0], data.x[:, 1]
    rotated = np.stack([first - second, first + second], axis=1) / np.sqrt(2)
    kernels = np.einsum("apf,bqf->pqab", rotated, rotated) / (2 * data.features)

    def half(point):
        U, u = np.array([[point[0], point[1]], [point[1], point[2]]]), point[3]
        K = np.tensordot(U, kernels, 2) + temperature * np.eye(examples)
        energy = np.linalg.slogdet(K)[1] + data.y @ np.linalg.solve(K, data.y)
        return (width * (np.trace(U) / u + np.log(u) - np.linalg.slogdet(U)[1] + u) + energy) / 2

    def lowest(along):
        """(U_11, U_12, U_22, u) where half the action is lowest at given U_11."""
        point = lambda rest: np.array([along, rest[0], rest[0] ** 2 / along + np.exp(rest[1]), np.exp(rest[2])])  # noqa: E731
        return point(minimize(lambda rest: half(point(rest)), np.zeros(3), method="BFGS", options={"gtol": 1e-4}).x)

    def beyond(point):
        steps = 1e-3 * np.diag(np.abs(point) + 0.1)
        rows = [
            [half(point + a + b) - half(point + a - b) - half(point - a + b) + half(point - a - b) for b in steps]
            for a in steps
        ]
        hessian = np.array(rows) / (4 * np.outer(steps.diagonal(), steps.diagonal()))
        return (
            1.5 * np.log(point[0] * point[2] - point[1] ** 2) + np.log(point[3]) + 0.5 * np.linalg.slogdet(hessian)[1]
        )

    action = transition.action_of(data, width, temperature)
    well, saddle, _ = transition.landscape(action)[0]
    assert transition.next_order(action) == pytest.approx(beyond(lowest(saddle)) - beyond(lowest(well)), abs=2e-3)


def test_weakly_correlated_noise_has_one_minimum():
    data = transition.draw(np.random.default_rng(0), 120, 480, 0.9, 0.7)
    assert np.isnan(transition.landscape(transition.action_of(data, 20, 0.05))).all()


def test_action_of_some_examples_is_that_of_their_problem():
    data = transition.draw(np.random.default_rng(0), 30, 120, 0.995, 0.7)
    fewer = data._replace(x=data.x[:20], y=data.y[:20])
    whole, part = (transition.action_of(one, 10, 0.05) for one in (data, fewer))
    point = jnp.array([0.3, -0.2, 0.1, 0.4])
    difference = transition.among(whole, 20).value(point) - part.value(point)
    assert float(difference) == pytest.approx(10 * np.log(0.05) / 10)


@pytest.mark.parametrize("attention", [True, False])
def test_network_is_the_sum_over_paths(attention):
    width, data = 5, transition.draw(np.random.default_rng(0), 6, 8, 0.9, 0.7)
    x = data.x.reshape(6, -1)
    state = transition.weights(jax.random.key(0), width, x.shape[1] // 2, attention)
    outputs, U = transition.network(state, *transition.single(x), width, 8)
    state = np.asarray(state, float)
    first, above = state[: width * data.x.shape[2]].reshape(width, -1), state[width * data.x.shape[2] :]
    w = above[-2 * width :].reshape(2, width)
    if attention:
        w = [above[-width:] @ values.reshape(width, width) / width**0.5 for values in np.split(above[:-width], 2)]
    found = sum(data.x[:, h] @ first.T @ w[h] for h in (0, 1)) / np.sqrt(2 * width * 8)
    assert np.asarray(outputs) == pytest.approx(found, abs=1e-5)
    assert np.asarray(U) == pytest.approx(np.array(w) @ np.array(w).T / width, abs=1e-5)


def test_dynamics_without_examples_sample_the_prior():
    width, dimensions = 4, 6
    x = np.zeros((3, 2 * dimensions))
    phase = tuple(transition.weights(jax.random.key(k), width, dimensions) for k in (0, 1))
    squares, given = [], {"width": width, "features": 6, "step": 0.1}
    for number in range(400):
        key = jax.random.fold_in(jax.random.key(2), number)
        phase, *_ = transition.stay(phase, key, 0.0, *transition.single(x, np.ones(3), x), 0.1, 5, **given)
        squares.append(float((phase[0] ** 2).mean()))
    # 60 weights, 400 nearly independent draws: a standard error of 0.01
    assert np.mean(squares) == pytest.approx(1, abs=0.04)


class ByHand:
    """The dynamics of one network in NumPy: derivatives by hand, the same random kicks, in double precision."""

    x: np.ndarray
    y: np.ndarray
    seen: np.ndarray

    def __init__(self, x, y, seen, width, step):
        self.x, self.y, self.seen, self.width, self.step = x, y, np.broadcast_to(seen, len(y)), width, step
        self.scale = np.sqrt(2 * width * FEATURES)

    def parts(self, state):
        """V0, V1 and a, and the readout of each path."""
        N = self.width
        V0, V1, a = np.split(state, [state.size - 2 * N * N - N, state.size - N])
        V0, V1 = V0.reshape(N, -1), V1.reshape(2, N, N)
        return V0, V1, a, np.array([a @ V1[h] for h in (0, 1)]) / np.sqrt(N)

    def overlap(self, state):
        w = self.parts(state)[3]
        return w @ w.T / self.width

    def outputs(self, state, x):
        V0, _, _, w = self.parts(state)
        return sum(x[:, h] @ V0.T @ w[h] for h in (0, 1)) / self.scale

    def slope(self, state):
        """Of half the squared misfit of the examples seen over T, and half the squared weights."""
        V0, V1, a, w = self.parts(state)
        misfit = self.seen * (self.outputs(state, self.x) - self.y) / TEMPERATURE
        pulled = [misfit @ self.x[:, h] / self.scale for h in (0, 1)]
        of_w = [V0 @ pulled[h] / np.sqrt(self.width) for h in (0, 1)]
        of_a = sum(V1[h] @ of_w[h] for h in (0, 1))
        of_V1 = [np.outer(a, of_w[h]) for h in (0, 1)]
        return state + np.concatenate([np.ravel(one) for one in (w.T @ pulled, of_V1, of_a)])

    def relax(self, phase, key):
        """Four kicks, a quarter of a relaxation time apart."""
        state, velocity = (np.asarray(one, float) for one in phase)
        for own in jax.random.split(key, 4):
            for _ in range(round(0.25 / self.step)):
                state = state + self.step / 2 * velocity
                velocity = velocity - self.step * self.slope(state)
                state = state + self.step / 2 * velocity
            noise = np.asarray(jax.random.normal(own, state.shape, jnp.float32), float)
            velocity = np.exp(-0.25) * velocity + np.sqrt(1 - np.exp(-0.5)) * noise
        return state, velocity


WIDTH, FEATURES, TEMPERATURE, STEP = 3, 5, 0.5, 0.05
GIVEN = {"width": WIDTH, "features": FEATURES}


@pytest.fixture
def few():
    data = transition.draw(np.random.default_rng(3), 8, FEATURES, 0.9, 1.5, tests=4)
    return data, *transition.single(data.x.reshape(8, -1), data.y, data.x_test.reshape(4, -1))


def test_the_time_of_escape_is_that_of_dynamics_by_hand(few):
    data, x, y, _ = few
    hand, key = ByHand(data.x, data.y, 1.0, WIDTH, STEP), jax.random.key(5)
    first, second, kicks = jax.random.split(key, 3)
    phase = [transition.weights(one, WIDTH, data.x.shape[-1]) for one in (first, second)]
    along, misfit = [], []
    for time in range(8):
        phase = hand.relax(phase, jax.random.fold_in(kicks, time))
        along.append(np.array([1, -1]) @ hand.overlap(phase[0]) @ np.array([1, -1]) / 2)
        misfit.append(np.mean((data.y - hand.outputs(phase[0], data.x)) ** 2))
    record = next(time for time in range(2, 8) if along[time] > max(along[:time]))  # neither at once nor at the end
    beyond = (max(along[:record]) + along[record]) / 2
    for barrier, times in ((beyond, record + 1), (np.inf, 8)):
        found = transition.escape(key, x, y, TEMPERATURE, barrier, 8, **GIVEN, step=STEP)
        assert int(found[0]) == times
        np.testing.assert_allclose(found[1], along[times - 1], rtol=1e-3)
        np.testing.assert_allclose(found[2], [np.mean(along[:times]), np.mean(misfit[:times])], rtol=1e-3)


def test_means_of_a_stay_are_those_of_its_second_half_by_hand(few):
    data, x, y, x_test = few
    seen = np.arange(8) < 6
    hand, key = ByHand(data.x, data.y, seen, WIDTH, STEP), jax.random.key(6)
    phase = tuple(transition.weights(jax.random.key(k), WIDTH, data.x.shape[-1], size=2.0) for k in (0, 1))
    found = transition.stay(phase, key, *transition.single(seen), x, y, x_test, TEMPERATURE, 5, **GIVEN, step=STEP)
    U, outputs = [], []
    for time in range(5):
        phase = hand.relax(phase, jax.random.fold_in(key, time))
        U.append(hand.overlap(phase[0]))
        outputs.append(hand.outputs(phase[0], data.x_test))
    np.testing.assert_allclose(found[0], phase, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found[1], np.mean(U[2:], axis=0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found[2], np.mean(outputs[2:], axis=0), rtol=1e-3, atol=1e-3)


def test_descent_is_adam_by_hand(few):
    data, x, y, x_test = few
    seen, rate, steps = np.arange(8) < 6, 0.03, 40
    hand = ByHand(data.x, data.y, seen, WIDTH, STEP)
    start = transition.weights(jax.random.key(0), WIDTH, data.x.shape[-1])
    given = (*transition.single(seen), x, y, x_test, TEMPERATURE, steps)
    found, U, outputs = transition.descend(start, *given, **GIVEN, rate=rate)
    state, mean, square = np.asarray(start, float), 0.0, 0.0
    for step in range(1, steps + 1):
        slope = hand.slope(state)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        state = state - rate * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(found, state, atol=1e-3)
    np.testing.assert_allclose(U, hand.overlap(state), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(outputs, hand.outputs(state, data.x_test), rtol=1e-2, atol=1e-3)


def test_derivatives_by_hand_are_those_of_differences(few):
    """The rule that the tests above rest on."""
    data, *_ = few
    hand = ByHand(data.x, data.y, np.arange(8) < 6, WIDTH, STEP)
    state, way = np.random.default_rng(0).normal(size=(2, 2 * WIDTH**2 + WIDTH * (1 + data.x.shape[-1])))

    def potential(state):
        misfit = hand.seen * (hand.outputs(state, data.x) - data.y) ** 2
        return misfit.sum() / (2 * TEMPERATURE) + state @ state / 2

    slope = (potential(state + 1e-5 * way) - potential(state - 1e-5 * way)) / 2e-5
    assert hand.slope(state) @ way == pytest.approx(slope, rel=1e-7)


def test_minima_are_followed_as_examples_come_and_go():
    """Up to the learned minimum and back, by a minimiser of its own from each minimum to the next."""
    width, examples, counts = 20, 120, [60, 90, 120, 110, 100]
    data = transition.draw(np.random.default_rng([0, width, examples]), examples, 4 * examples, 0.995, 0.7)
    action = transition.action_of(data, width, 0.05)
    overlaps, point = transition.follow(action, jnp.array(counts), jnp.zeros(4))
    np.testing.assert_array_equal(overlaps[-1], action.overlap(point))
    place, found = np.zeros(3), []
    for count in counts:
        minus, plus = ((data.x[:count, 0] + sign * data.x[:count, 1]) / np.sqrt(2) for sign in (-1, 1))
        both = minus @ plus.T
        kernels = [one / (2 * data.features) for one in (minus @ minus.T, both + both.T, plus @ plus.T)]

        def height(at, kernels=kernels, count=count):
            return _action(np.exp(at[0]), at[1:], kernels, data.y[:count], width, 0.05)

        place = minimize(height, place, method="BFGS").x
        found.append(np.exp(place[0]))
    np.testing.assert_allclose(overlaps[:, 0, 0], found, rtol=1e-3)
