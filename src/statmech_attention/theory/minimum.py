"""The minimum of the action for one problem or a batch: which second derivatives to use, and how."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.derivatives import (
    Problem,
    dense_derivatives,
    energy_and_entropy,
    entropy_curvature,
    factored_derivatives,
    hessian_product,
)
from statmech_attention.theory.kernels import kernel_scale
from statmech_attention.theory.trust_region import exact_step, minimise, truncated_step

_MAX_PRODUCTS = 200
_PRODUCTS_PER_STEP = 20  # 12 to 19 were counted on one-shot images seen along 64 paths
_LARGEST_HESSIAN = 2**27  # entries of the matrices that the dense Hessian is made from
_LARGEST_DOUBLE = 2**24  # entries of the inputs; of larger ones the Hessian's products are in single precision


@partial(jax.jit, static_argnames=("layout", "dense"))
def minimise_action(problem, start, tolerance, max_steps, layout: Architecture, dense: bool):
    """The minimum of one action, its energy and its entropy."""
    if dense:

        def local(point):
            return dense_derivatives(point, problem, layout)

        step = exact_step
    else:
        # Newton's steps are inexact anyway; value and gradient, which say where the minimum is, stay in double precision.
        large = problem.inputs.size > _LARGEST_DOUBLE
        rough = problem._replace(inputs=problem.inputs.astype(jnp.float32)) if large else problem

        def local(point):
            return factored_derivatives(point, problem, layout)

        def step(gradient, curvature, radius):
            def product(vector):
                return hessian_product(vector, curvature, rough, layout)

            # Half the entropy's Hessian, which is diagonal, and one at the Gaussian-process limit.
            scale = 0.5 * entropy_curvature(curvature.point, problem, layout)
            return truncated_step(gradient, product, scale, radius, _MAX_PRODUCTS)

    minimum = minimise(local, step, start, tolerance, max_steps)
    return minimum, *energy_and_entropy(minimum.point, problem, layout)


def minimise_batch(problems: list, starts, tolerance, max_steps, layout: Architecture, dense: bool):
    """One compiled loop over a batch of small problems; large ones one after the other, to spare memory."""
    if not dense:
        found = [
            minimise_action(problem, start, tolerance, max_steps, layout, dense)
            for problem, start in zip(problems, starts, strict=True)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
    shared = problems[0]._replace(temperature=jnp.stack([problem.temperature for problem in problems]))
    axes = Problem(None, None, 0, None, None, None)
    return jax.vmap(
        lambda problem, start: minimise_action(problem, start, tolerance, max_steps, layout, dense), (axes, 0)
    )(shared, starts)


def problem_of(seen, inputs: AttentionedInputs, labels, temperature, layout: Architecture):
    """The problem with the inputs `seen` as its kernel sees them, `kernel_inputs` or fewer features of the same kernel."""
    return Problem(
        seen,
        labels.reshape(-1),
        jnp.asarray(temperature, float),
        jnp.asarray(kernel_scale(inputs, layout.variances)),
        jnp.asarray(labels.size / layout.widest, float),
        jnp.stack([jnp.asarray(share, float) for share in layout.shares]),
    )


def compressed(values):
    """The same Gram matrices from fewer features: directions that no example has are rotated away."""
    if not checks.concrete(values):
        return values
    flat = np.asarray(values).reshape(-1, values.shape[-1])
    eigenvalues, directions = np.linalg.eigh(flat.T @ flat)
    kept = eigenvalues > flat.shape[1] * np.finfo(float).eps * eigenvalues[-1]
    kept[-1] = True
    if kept.all():
        return values
    return jnp.asarray(np.asarray(values) @ directions[:, kept])


def is_dense(method: str, values) -> bool:
    """Whether forming the Hessian costs less than the products that would replace it."""
    if method != "auto":
        return method == "dense"
    examples, paths, features = values.shape
    size, coordinates = paths * features, paths * (paths + 1) // 2
    # The energy's share, its way to the coordinates, and the eigenvectors.
    hessian = paths**4 * (features**2 + coordinates) + size**2 * examples + 8 * coordinates**3
    product = 2 * examples**2 * (size + examples)
    return hessian < _PRODUCTS_PER_STEP * product and size**2 + paths**4 < _LARGEST_HESSIAN
