"""Theory and exact posterior for few and many paths: the sampler against the library's density and weighted points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.experiments import many_paths
from statmech_attention.sampling import importance
from statmech_attention.sampling._bartlett import bartlett, order_parameter_of_normals
from statmech_attention.sampling._density import label_energy, posterior_density

from .shared import *  # noqa: F403

EXPERIMENT = "ManyPaths"
SETTINGS = dict(
    task="chains", seed=1, examples=8, test_examples=5, paths=[1, 6], widths=[20, 2], temperature=0.3, populations=2
)
SETTINGS["particles"] = 6
WRONG = [{"task": "none"}, {"paths": []}, {"temperature": 0.0}, {"populations": 1}, {"particles": 2}]


def test_the_record_has_the_theory_and_its_correction(recorded, found, make):
    assert recorded.name == "paths-chains-seed1.nc" and found.exact.dims == ("paths", "width")
    experiment = make(recorded.parent)
    problem, _ = experiment.problem(experiment.seen(), 6, 2)
    assert problem.layers == (2, 3)
    one, solution = found.sel(paths=6, width=2), sma.solve(problem)
    assert float(one.theory) == pytest.approx(float(sma.log_evidence(solution)), rel=1e-9)
    assert float(one.corrected) == pytest.approx(float(sma.log_evidence(solution, corrected=True)), rel=1e-9)


@pytest.mark.parametrize("width", [2, 5, 9])
def test_value_and_gradient_are_those_of_the_library(make, tmp_path, width):
    experiment = make(tmp_path)
    problem, test = experiment.problem(experiment.seen(), 6, width)
    density, data = many_paths.Density(problem, test), posterior_density(problem)
    points = np.random.default_rng(0).standard_normal((3, density.size))
    values, slopes = density(points)
    if width < 3:  # the library has no triangular factor there either, so that the normals are the same
        overlaps = [
            order_parameter_of_normals(jnp.asarray(point), (width,) * 3, bartlett(problem.architecture))
            for point in points
        ]
        np.testing.assert_allclose(values, [0.5 * label_energy(one, data) for one in overlaps], rtol=1e-10)
    step = 1e-6 * np.eye(density.size)
    differences = (density(points[0] + step)[0] - density(points[0] - step)[0]) / 2e-6
    np.testing.assert_allclose(slopes[0], differences, atol=1e-6 * np.abs(slopes[0]).max())


def test_evidence_and_means_are_those_of_weighted_points(make, tmp_path):
    experiment = make(tmp_path, populations=8, particles=100)
    seen = experiment.seen()
    problem, test = experiment.problem(seen, 4, 20)
    exact = importance(problem, test=test, key=jax.random.key(0), points=128)
    found = experiment.case(seen, 4, 20)
    assert abs(float(found.exact) - exact.log_evidence.mean) < 4 * float(found.exact_error) < 0.2
    plain = sma.solve(problem).predict(test)
    off = np.sqrt(np.mean((plain.mean - exact.output.mean) ** 2) / np.mean(plain.variance))
    assert abs(float(found.output_off) - off) < 4 * float(found.output_off_error) < 0.1
