r"""What labels are, given a kernel: the part of an energy that a user can change.

Without one, labels are outputs with Gaussian noise of one variance $T$. Another is a frozen dataclass, a
pytree, with these four; `weighted` and `logistic` are examples. It goes to `solve(problem, energy=..)`, or into
the problem itself, and evidence, minima and predictions follow.
"""

from typing import Any, Protocol

from jaxtyping import Array, Float

from statmech_attention.theory.kernels.regression import Regression


class Labels(Protocol):
    """How unlikely labels are for a kernel, and the regression that predicts from them."""

    @property
    def gaussian(self) -> bool:
        """True if exact given the kernel, so that samplers may use it, and of the form of (12)."""

    def checked(self, labels: Any) -> "Labels":
        """This energy, or a sentence on what does not fit these labels, `(examples,)` or `(examples, outputs)`."""

    def fitted(self, kernel: Float[Array, "rows rows"], temperature: Any, labels: Float[Array, " rows"]) -> Regression:
        """The Gaussian process that predicts, given labels of every (example, output)."""

    def nats(self, kernel: Float[Array, "rows rows"], temperature: Any, labels: Float[Array, " rows"]) -> Any:
        r"""$-2 \ln p(Y | K)$ minus $\ln 2\pi$ per row, differentiable twice."""
