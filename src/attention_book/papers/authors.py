"""The authors' own numbers, in `results/authors`, beside what the library gives for the same inputs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from attention_book.runs import results
from statmech_attention import Problem, dmft
from statmech_attention.model import AttentionedInputs
from statmech_attention.records import read_netcdf
from statmech_attention.sampling import posterior
from statmech_attention.tasks import HiddenMarkovTrial
from statmech_attention.theory import Solution, kernel, kernel_regression, solve_sweep

FOLDER = results.folder() / "authors"
LEVELS = ("order_parameter", "order_parameter_2", "order_parameter_readout")  # from the projection up


def chains() -> tuple[xr.Dataset, HiddenMarkovTrial]:
    """The first paper's numbers on hidden Markov chains, and these chains."""
    theirs = read_netcdf(FOLDER / "attention_paths.nc")
    train = AttentionedInputs(jnp.asarray(theirs["attentioned"].values, float), (2, 2))
    test = AttentionedInputs(jnp.asarray(theirs["test_attentioned"].values, float), (2, 2))
    labels, test_labels = jnp.asarray(theirs["labels"].values), jnp.asarray(theirs["test_labels"].values)
    return theirs, HiddenMarkovTrial(train, labels, test, test_labels)


def theory() -> tuple[xr.Dataset, HiddenMarkovTrial, Solution]:
    """The first paper's numbers, its chains, and our solutions at its seven widths."""
    theirs, trial = chains()
    widths = [float(width) for width in theirs["width"].values]
    solutions = solve_sweep(
        Problem(trial.train, trial.labels), widths=widths, temperatures=[theirs.attrs["temperature"]]
    )
    return theirs, trial, solutions[:, 0]


def label_overlaps(trial: HiddenMarkovTrial, order_parameter) -> Float[np.ndarray, " components"]:
    """Overlaps |v . Y| / |Y| of the principal components of the training kernel with the labels, the largest first."""
    values = kernel(trial.train, trial.train, order_parameter)
    components = np.linalg.eigh(values)[1][:, ::-1]
    return np.abs(trial.labels @ components) / np.linalg.norm(trial.labels)


class Distances(NamedTuple):
    """Largest distances between their theory and ours, at each width; of U relative to its largest entry."""

    order_parameter: Float[np.ndarray, " widths"]
    mean: Float[np.ndarray, " widths"]
    variance: Float[np.ndarray, " widths"]
    infinite_width: float


def theory_distances() -> Distances:
    """How far their order parameters and predictions are from ours on the same chains."""
    theirs, trial, solutions = theory()
    prediction = solutions.predict(trial.test)
    problem = Problem(trial.train, trial.labels, temperature=theirs.attrs["temperature"])
    limit = kernel_regression(problem, np.eye(4)).predict(trial.test).mean
    U = theirs["order_parameter"].values
    size = np.abs(U).max(axis=(1, 2))
    return Distances(
        np.abs(np.asarray(solutions.order_parameter) - U).max(axis=(1, 2)) / size,
        np.abs(np.asarray(prediction.mean) - theirs["mean"].values).max(axis=1),
        np.abs(np.asarray(prediction.variance) - theirs["variance"].values).max(axis=1),
        float(np.abs(np.asarray(limit) - theirs["gp_mean"].values).max()),
    )


class Sampled(NamedTuple):
    """Means of U over samples of the posterior, at one width: theirs with its standard error, ours, the theory's."""

    theirs: Float[np.ndarray, "paths paths"]
    error: Float[np.ndarray, "paths paths"]
    ours: Float[np.ndarray, "paths paths"]
    theory: Float[np.ndarray, "paths paths"]

    @property
    def scores(self) -> Float[np.ndarray, " pairs"]:
        """Distances between the two samplers in units of the standard error, a pair of paths once."""
        first, second = np.triu_indices(len(self.ours))
        return ((self.theirs - self.ours) / self.error)[first, second]


def sampled(width: int, key=None) -> Sampled:
    """Their 100 samples at one width beside 4000 draws of ours, whose own error is six times smaller."""
    theirs, trial = chains()
    problem = Problem(trial.train, trial.labels, width=float(width), temperature=theirs.attrs["temperature"])
    drawn = posterior(problem, key=jax.random.key(0) if key is None else key)
    U = theirs["sampled_order_parameter"].sel(sampled_width=width).values
    ours = drawn["order_parameter"].mean(("chain", "draw")).values
    error = U.std(axis=0, ddof=1) / np.sqrt(len(U))
    return Sampled(U.mean(axis=0), error, ours, theirs["order_parameter"].sel(width=width).values)


def networks() -> tuple[xr.Dataset, dmft.Dynamics]:
    """The second paper's numbers, and its 37 networks."""
    theirs = read_netcdf(FOLDER / "self_attention.nc")
    numbers = {name: float(theirs.attrs[name]) for name in ("gamma", "epsilon")}
    return theirs, dmft.dynamics(dmft.published_patterns(), beta=theirs["beta"].values, **numbers)


def window_at(step: int, theirs: xr.Dataset, model: dmft.Dynamics) -> dmft.Window:
    """The window of every network after a saved step, from 3 on."""
    newest_first = theirs["attention"].values[:, step - np.arange(4)]
    return dmft.window_from_attention(model, newest_first, slot=(3 + step) % 4)


class Followed(NamedTuple):
    """Distances of the second paper's attention from ours, largest over networks: after one step, and after many."""

    one_step: Float[np.ndarray, " steps"]
    from_the_start: Float[np.ndarray, " steps"]


def followed() -> Followed:
    """Step on from every saved window, and follow the first one to the last."""
    theirs, model = networks()
    attention = theirs["attention"].values
    last = attention.shape[1] - 1
    seen = dmft.trajectory(model, window_at(3, theirs, model), steps=last - 3, keep="attention").attention
    single = []
    for step in range(3, last):
        window, _ = dmft.step(model, window_at(step, theirs, model))
        single.append(np.abs(np.asarray(window.newest_first())[:, 0] - attention[:, step + 1]).max())
    return Followed(np.array(single), np.abs(np.asarray(seen) - attention[:, 4:]).max(axis=(0, 2)))


def exponents(
    steps: int = 75_000,
) -> tuple[Float[np.ndarray, "networks numbers"], Float[np.ndarray, "networks numbers"]]:
    """Six Lyapunov exponents per step of the 37 networks, theirs and ours, over as many steps as there."""
    theirs, model = networks()
    spectrum = dmft.lyapunov_spectrum(model, window_at(3, theirs, model), steps=steps - 4, count=6)
    return theirs["exponent"].values, np.asarray(spectrum.exponents)
