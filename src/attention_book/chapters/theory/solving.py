"""Finding the saddle point: the solver's gradient step by step, and its derivatives against automatic ones."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import cg

import statmech_attention as sma
from attention_book import plotting
from attention_book.notebooks.comparisons import exact
from statmech_attention.theory import coordinates, derivatives

TITLES = {"dense": "dense Hessian", "products": "Hessian-vector products"}


def traces(problem: sma.Problem, widths=(1000, 30), tolerance: float = 1e-8) -> dict:
    """Largest entry of the gradient after each step, by width and method."""
    found = {}
    for method in TITLES:
        for width in widths:
            norms: list[float] = []
            while not norms or norms[-1] > tolerance:
                one = sma.solve(problem.replace(width=width), max_steps=len(norms) + 1, method=method, throw=False)
                norms.append(float(one.gradient_norm))
            found[width, method] = norms
    return found


def draw(found, tolerance: float = 1e-8) -> None:
    """Draw the gradients against the steps."""
    _, panels = plotting.new_figure(1, 2, figsize=(6.5, 3.1), sharey=True)
    for panel, (method, title) in zip(panels, TITLES.items(), strict=True):
        for (width, one), norms in found.items():
            if one == method:
                colour = "0.6" if width == 1000 else "0.1"
                panel.semilogy(range(1, len(norms) + 1), norms, "o-", color=colour, label=f"$N = {width}$")
        panel.axhline(tolerance, color="0.6", linestyle=":")
        panel.set(xlabel="steps", title=title)
        panel.xaxis.get_major_locator().set_params(integer=True)
    panels[0].legend()
    panels[0].set_ylabel("largest gradient entry")


class Sampled(NamedTuple):
    """The cost of a trace from random vectors of signs."""

    rows: int
    off: float  # the spread over 50 estimates from 100 vectors, over the formula for it, minus 1
    vectors: float  # for a relative error of 0.001
    products: float  # of conjugate gradients for each, to the same error
    pays: float  # rows beyond which this costs less than a factorisation and an inverse, if vectors fall as 1 / rows


def sampled(examples: int = 300, width: float = 10, temperature: float = 0.1, error: float = 1e-3) -> Sampled:
    r"""The trace of $R$ times the kernel of a path with itself."""
    trial, random = sma.tasks.HiddenMarkov().trial(jax.random.key(0), examples, 1), np.random.default_rng(0)
    problem = sma.Problem(trial.train, trial.labels, width=width, temperature=temperature)
    overlap = sma.solve(problem).order_parameter
    regular = np.asarray(sma.kernel(trial.train, trial.train, overlap)) + temperature * np.eye(examples)
    one = np.zeros(overlap.shape)
    one[0, 0] = 1
    matrix = np.linalg.solve(regular, np.asarray(sma.kernel(trial.train, trial.train, one)))
    trace, apart = np.trace(matrix), (matrix + matrix.T) / 2
    spread = np.sqrt(2 * (np.sum(apart**2) - np.sum(np.diag(apart) ** 2)))  # of one vector
    signs = random.choice([-1.0, 1.0], (50, 100, examples))
    found = np.einsum("rsi,ij,rsj->r", signs, matrix, signs, optimize=True) / 100
    steps: list[int] = []
    for start in signs[0, :5]:
        steps.append(0)
        cg(regular, start, rtol=error, callback=lambda _: steps.append(steps.pop() + 1))
    vectors, products = (spread / trace / error) ** 2, float(np.mean(steps))
    pays = np.sqrt(2 * vectors * examples * products)
    return Sampled(examples, float(found.std() / (spread / 10)) - 1, float(vectors), products, float(pays))


def off_automatic(seed: int = 7) -> float:
    """(S2) to (S4), and a product of the Hessian with a vector, against automatic differentiation at a random point."""
    random = np.random.default_rng(seed)
    inputs, labels = random.normal(size=(12, 4, 6)), np.where(np.arange(12) % 2, 1.0, -1.0)
    numbers: dict[str, Any] = {"width": (8.0, 5.0, 6.0), "temperature": 0.1, "variance": (1.0, 0.5, 2.0, 1.5)}
    small = sma.Problem(jnp.asarray(inputs), jnp.asarray(labels), layers=(2, 2), **numbers)
    factors = coordinates.full_rank(small.architecture)
    reduced, _ = derivatives.action_problem(small, "auto")
    point, direction = (jnp.asarray(random.normal(size=14)) for _ in range(2))
    action = lambda at: sma.theory.action(small, coordinates.order_parameters(at, factors))  # noqa: E731

    @jax.jit
    def both(point, direction):
        value, gradient, curvature = derivatives.dense_hessian(point, reduced, factors)
        *_, factored = derivatives.factored_derivatives(point, reduced, factors)
        product = derivatives.hessian_product(direction, factored, reduced, factors)
        hessian = jax.hessian(action)(point)
        return (
            (value, gradient, curvature.hessian, product),
            (action(point), jax.grad(action)(point), hessian, hessian @ direction),
        )

    return exact(*zip(*both(0.4 * point, direction), strict=True))
