"""The solvable model against data drawn from its law, the solver, brute force and differences: (I1) to (I8)."""

import json
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.theory.levels.levels import excess_entropy
from statmech_attention.theory.levels.paths import full_rank, least_entropy, order_parameters

NOISE = np.array([[1.0, 0.6], [0.6, 0.8]])
SIZES = {"examples": 400, "features": 240, "temperature": 0.1, "width": 25.0}
MODELS = {
    "one direction": SolvableModel(NOISE, [[1.8, 0.4], [0, 0]], **SIZES),
    "two directions": SolvableModel(NOISE, [[1.5, 0.0], [0.3, 1.2]], **SIZES),
    "offset": SolvableModel(NOISE, [[1.8, 0.0], [0, 0]], offset=[[1.5, 0.2], [0, 2.0]], **SIZES),
    "skip": SolvableModel(NOISE, [1.2, 0.5], layers=(sma.SkipHeads(1),), variance=(0.7, 1.3, 0.9), **SIZES),
}


@pytest.fixture(params=["two directions", "offset", "skip"], scope="module")
def model(request):
    return MODELS[request.param]


def within(found, values, bias=0.0):
    """Four standard errors of the mean over draws, and what is left out at these sizes."""
    error = np.std(values, ddof=1) / len(values) ** 0.5
    return abs(float(found) - np.mean(values)) < 4 * error + bias


@pytest.mark.usefixtures("optimised")
def test_solvable_energy_and_outputs_are_those_of_data(model):
    overlap = np.array([[1.3, -0.5], [-0.5, 0.9]])
    rows = []
    for key in jax.random.split(jax.random.key(1), 12):
        problem, test, labels = model.sample(key, 2000)
        mean, variance = sma.kernel_regression(problem, overlap).predict(test)
        means = [float(np.mean(mean[labels == sign])) for sign in (1, -1)]
        spread = np.mean([np.var(mean[labels == sign]) for sign in (1, -1)])
        right, error = float(sma.theory.accuracy(mean, labels)), np.mean((mean - labels) ** 2)
        slope, offset = (means[0] - means[1]) / 2, sum(means) / 2
        rows.append([sma.theory.energy(problem, overlap), slope, offset, spread, np.mean(variance), right, error])
    measured = np.array(rows, float).T
    found = [model.energy(overlap), *model.predict(overlap)]
    # What is left out is of order 1/P: the signals' own part of the volume, and their part of the variance.
    for name, one, values in zip(("energy", *model.predict(overlap)._fields), found, measured, strict=True):
        assert within(one, values, 0.01 if name in ("energy", "variance") else 0.003), name


def test_squared_error_is_that_of_the_law_of_outputs_by_quadrature(model):
    law = model.predict(np.array([[1.3, -0.5], [-0.5, 0.9]]))
    normals, weights = np.polynomial.hermite_e.hermegauss(5)
    outputs = {sign: sign * law.slope + law.offset + np.sqrt(law.spread) * normals for sign in (1, -1)}
    errors = [np.average((output - sign) ** 2, weights=weights) for sign, output in outputs.items()]
    assert float(law.squared_error) == pytest.approx(np.mean(errors), rel=1e-12)


def test_solvable_saddle_point_is_the_lowest_point_of_the_action(model):
    found = model.solve()
    factors = full_rank(model.architecture)

    @jax.jit
    def action(point):
        bulk = excess_entropy(point, jnp.ones(len(factors.shapes)), factors)
        return bulk + 16 * model.energy(order_parameters(point, factors)[0])

    points = np.random.default_rng(7).uniform(-2, 2, (4000, factors.coordinates))
    values = np.asarray(jax.lax.map(action, jnp.asarray(points), batch_size=500))
    best = minimize(action, points[np.argmin(values)], method="Powell", options={"xtol": 1e-6, "ftol": 1e-12})
    assert best.fun == pytest.approx(float(found.minimum.value), abs=1e-6) and best.fun <= values.min()


def test_solvable_saddle_point_is_that_of_the_solver_on_data():
    model = SolvableModel([[1, 0.9], [0.9, 1]], [2.0, 0], examples=400, features=300, width=20.0, temperature=0.1)
    wanted = model.solve().order_parameters[0]
    draws = [sma.solve(model.sample(key, 1)[0]).order_parameter for key in jax.random.split(jax.random.key(2), 4)]
    error = np.std(draws, axis=0, ddof=1) / len(draws) ** 0.5
    assert np.all(np.abs(np.mean(draws, axis=0) - wanted) < 4 * error + 0.01 * np.linalg.norm(wanted))


@pytest.mark.slow
def test_several_layers_differ_by_the_entropy_alone():
    noise, signal = np.eye(4) + 0.4 * np.eye(4)[::-1], np.array([1.5, 0.2, 0.0, -0.3])
    model = SolvableModel(
        noise, signal, layers=(2, 2), width=(20.0, 30.0, 25.0), **{k: SIZES[k] for k in SIZES if k != "width"}
    )
    found = model.solve()
    entropy = sma.theory.entropy(found.order_parameters, layers=(2, 2), width=model.width)
    excess = entropy - least_entropy(model.architecture) + found.nats / 30  # S - S_0
    assert float(found.minimum.value) == pytest.approx(float(excess))
    assert model.solve(start=found.order_parameters).minimum.steps == 0
    flat = SolvableModel(noise, signal, **SIZES)
    assert float(flat.energy(found.order_parameters[0])) == pytest.approx(float(found.nats / flat.examples), rel=1e-12)


def test_solvable_model_of_infinite_width_is_the_limit():
    limit = MODELS["one direction"].replace(width=np.inf).solve()
    assert np.allclose(limit.order_parameters[0], np.eye(2)) and float(limit.minimum.value) == 0.0


def test_solvable_model_has_the_moments_of_a_problem():
    model = MODELS["offset"].replace(examples=2000, features=300)
    found = SolvableModel.of(model.sample(jax.random.key(5), 1)[0])
    assert np.allclose(found.noise, model.noise, atol=0.01)
    for one, two in (("signal", "signal"), ("signal", "offset"), ("offset", "offset")):
        grams = [getattr(at, one).T @ getattr(at, two) for at in (model, found)]
        assert np.allclose(*grams, atol=0.15), (one, two)
    assert (found.examples, found.features, found.width, found.layers) == (2000, 300, (25.0, 25.0), (2,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": [[1, 2.0], [2.0, 1]]}, "semi-definite"),
        ({"offset": [[1.0, 2.0]]}, "shape of the signal"),
        ({"temperature": 0.0}, "positive"),
        ({"layers": (2, sma.Outputs(3))}, "one output"),
    ],
)
def test_solvable_model_of_bad_numbers_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        MODELS["one direction"].replace(**changes)


SCRIPT = Path(__file__).parents[3] / "_static" / "solvable.js"
EACH = """models => models.map(model => {
    const u = solvable.overlap(solvable.minimum(model));
    return [...u, solvable.accuracy(u, model), solvable.accuracy([1, 0, 1], model)];
})"""


def in_javascript(models, each=EACH):
    """What the page computes for each model, by default entries of U, accuracies of the network and of the limit."""
    if node := shutil.which("node"):
        source = f"const solvable = require({json.dumps(str(SCRIPT))});"
        source += f"console.log(JSON.stringify(({each})({json.dumps(models)})))"
        return json.loads(subprocess.run([node, "-"], input=source, capture_output=True, text=True, check=True).stdout)
    playwright = pytest.importorskip("playwright.sync_api", reason="neither node nor playwright is installed")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("neither node nor Chromium is installed")
    with playwright.sync_playwright() as started:
        page = started.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.add_script_tag(path=str(SCRIPT))
        return page.evaluate(each, models)


def test_javascript_of_the_solvable_page_computes_what_the_library_does():
    rng, count = np.random.default_rng(5), 200
    signs = {"rho": (-0.95, 0.95), "first": (0, 3), "second": (-3, 3)}
    sizes = {"gamma": (0.1, 10), "load": (0.1, 100), "heat": (0.003, 100)}
    drawn = {name: rng.uniform(*ends, count) for name, ends in signs.items()}
    drawn |= {name: np.exp(rng.uniform(*np.log(ends), count)) for name, ends in sizes.items()}

    def one(rho, first, second, gamma, load, heat):
        noise = jnp.eye(2) + rho * (1 - jnp.eye(2))
        numbers = {"examples": 400.0, "features": 400 / gamma, "width": 400 / load, "temperature": heat}
        model = SolvableModel(noise, jnp.stack([first, second]), **numbers)
        u = model.solve(throw=False, tolerance=1e-11).order_parameters[0]
        both = model.predict(u).accuracy, model.predict(jnp.eye(2)).accuracy
        return jnp.stack([u[0, 0], u[0, 1], u[1, 1], *both])

    wanted = jax.jit(jax.vmap(one))(*drawn.values())
    found = in_javascript(
        [dict(zip(drawn, map(float, numbers), strict=True)) for numbers in zip(*drawn.values(), strict=True)]
    )
    assert np.max(np.abs(np.array(found) - np.asarray(wanted))) < 1e-8


@pytest.mark.parametrize(
    ("rho", "signal", "load", "heat"), [(0.99, 0.5, 10, 0.05), (0.99, 1.0, 3, 0.03), (0.999, 0.5, 10, 0.05)]
)
def test_javascript_of_the_solvable_page_finds_both_minima(rho, signal, load, heat):
    def model(load):
        numbers = {"examples": 400.0, "features": 1600.0, "width": 400 / load, "temperature": heat}
        return SolvableModel([[1, rho], [rho, 1]], [signal, 0.0], **numbers)

    narrow = model(20 * load).solve().order_parameters
    wanted = [model(load).solve(start=start) for start in (None, narrow)]
    each = """models => models.map(model => {
        const {points, lowest, two} = solvable.minima(model);
        return [two, lowest, ...points.map(point => solvable.overlap(point)[0])];
    })"""
    given = {"rho": rho, "first": signal, "second": 0.0, "gamma": 0.25, "load": load, "heat": heat}
    ((two, lowest, *found),) = in_javascript([given], each)
    assert two and lowest == int(wanted[1].minimum.value < wanted[0].minimum.value)
    assert found == pytest.approx([float(one.order_parameters[0][0, 0]) for one in wanted], rel=1e-6)


def test_javascript_of_the_solvable_page_says_where_a_minimum_begins_and_where_it_is_the_lowest():
    def actions(rho):
        numbers = {"examples": 400.0, "features": 1600.0, "temperature": 0.05}
        model = SolvableModel([[1, rho], [rho, 1]], [0.5, 0.0], width=40.0, **numbers)
        narrow = model.replace(width=2.0).solve().order_parameters
        return [float(model.solve(start=start).minimum.value) for start in (None, narrow)]

    each = """models => [found => found.two, found => found.lowest === 1].map(holds => (
        solvable.edge(models[0], 0.97, 0.995, holds)))"""
    begins, changes = in_javascript([{"first": 0.5, "second": 0.0, "gamma": 0.25, "load": 10, "heat": 0.05}], each)
    before, after = actions(begins - 1e-4), actions(begins + 1e-4)
    assert abs(before[1] - before[0]) < 1e-6 < abs(after[1] - after[0])
    before, after = actions(changes - 1e-4), actions(changes + 1e-4)
    assert before[0] < before[1] and after[0] > after[1]
    text = (Path(__file__).parents[3] / "book" / "theory" / "solvable.md").read_text()
    assert f'"begins">{begins:.3f}<' in text and f'"changes">{changes:.3f}<' in text
