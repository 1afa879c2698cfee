"""The predictor at a given order parameter, equations (9) and (30)."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.kernels.of_paths import check_order_parameter, diagonal_kernel, flat_kernel, inputs_like
from statmech_attention.theory.kernels.regression import Prediction, Regression
from statmech_attention.theory.kernels.rotations import first_rows, padded
from statmech_attention.theory.problem import Problem, need_problem


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KernelRegression:
    """Regression on the labels of a problem with the kernel (10) of an order parameter; a pytree.

    Attributes:
        problem: the training data, reduced, and padded by rows of zeros.
        order_parameter: $U$.
        regression: the factorised kernel matrix.
    """

    problem: Problem
    order_parameter: Float[Array, "paths paths"]
    regression: Regression

    def predict(self, test: AttentionedInputs | ArrayLike, *, paths: ArrayLike | None = None) -> Prediction:
        r"""$\langle f(x^*)\rangle = k^\top (K + T I)^{-1} Y$, (9), and
        $\mathrm{Var} f = \kappa(x^*, x^*) - k^\top (K + T I)^{-1} k$, (30).

        Args:
            test: test inputs, `AttentionedInputs`, or an array `(examples, paths, features)`.
            paths: use only pairs within this subset of paths, by index; all of them if None.

        Returns:
            `Prediction(mean, variance)`, each `(test examples,)`, or `(test examples, outputs)`. The
            variance is that of the output $f$; a noisy label adds $T$. All NaN if $K + T I$ is not
            positive definite to working precision, for too small a $T$.

        Source: Tiberi et al. (2024), equations (9), (10), (29), (30).
        """
        train = self.problem.attentioned
        test, chain = inputs_like("test", test, train), train.chain
        if paths is not None:
            chosen = np.isin(np.arange(chain.paths), checks.indices("paths", paths, chain.paths, least=1))
            chosen = np.repeat(chosen.astype(float), chain.outputs)  # a row per path and output
            return kernel_regression(self.problem, self.order_parameter * np.outer(chosen, chosen)).predict(test)
        rows = replace(test, values=padded(test.values))
        prediction = _predicted(self.regression, train, rows, self.order_parameter, self.problem.variance[0])
        shape, count = (-1, *chain.readout.axes), len(test.values)
        mean, variance = jnp.reshape(prediction.mean, shape), jnp.reshape(prediction.variance, shape)
        return Prediction(first_rows(mean, count), first_rows(variance, count))


def kernel_regression(problem: Problem, order_parameter: ArrayLike) -> KernelRegression:
    """Kernel regression at a given order parameter, ready to `predict`; $K + T I$ is factorised here, once.

    Args:
        problem: a `Problem` with a temperature; its width does not matter.
        order_parameter: $U$, `(paths, paths)`, with a row per path and output, positive semi-definite.

    Source: Tiberi et al. (2024), equations (9) and (10).
    """
    problem = need_problem(problem, "temperature").reduce().padded()  # where the data are known
    order_parameter = check_order_parameter(order_parameter, problem.attentioned.chain.partial_paths[0])
    numbers = order_parameter, problem.temperature, problem.variance[0]
    return KernelRegression(
        problem, order_parameter, _factorised(problem.attentioned, problem.labels, *numbers, problem.energy)
    )


@quick_jit()
def _factorised(train, labels, order_parameter, temperature, input_variance, energy) -> Regression:
    gram = input_variance * flat_kernel(train, train, order_parameter, 1.0)
    fitted = Regression.of if energy is None else energy.fitted
    return fitted(gram, temperature, labels.reshape(-1))


@quick_jit()
def _predicted(regression: Regression, train, test, order_parameter, input_variance) -> Prediction:
    across = input_variance * flat_kernel(train, test, order_parameter, 1.0)
    return regression.predict(across, input_variance * diagonal_kernel(test, order_parameter, 1.0))
