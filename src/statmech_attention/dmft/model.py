r"""A network in the limit $N \to \infty$, or a batch of networks: patterns and parameters together.

$\beta$, $\gamma$, $\epsilon$ may be arrays, one network per entry; their axes come first in all results.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.patterns import MATRICES, Patterns, Terms, positional_code, site_terms


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dynamics:
    r"""A network in the limit $N \to \infty$, or a batch with the same patterns; made by `dynamics`.

    Attributes:
        patterns: `Patterns`.
        terms: the average over sites as a short sum.
        codes: `(4, slots, features)`, positional overlaps $\pi^\alpha_a(c)$ of query, key, value, output.
        beta: $\beta$, the inverse temperature of the tokens, a number or an array.
        gamma: $\gamma$, the inverse temperature of the attention.
        epsilon: $\epsilon$, the weight of the positional bits.
    """

    patterns: Patterns
    terms: Terms
    codes: Float[Array, "4 slots features"]
    beta: Float[Array, "*betas"]
    gamma: Float[Array, "*gammas"]
    epsilon: Float[Array, "*epsilons"]

    @property
    def window(self) -> int:
        """$L$, tokens that are attended to."""
        return self.codes.shape[1]

    @property
    def features(self) -> int:
        """$M$, patterns in each matrix."""
        return self.codes.shape[2]

    @property
    def shape(self) -> tuple[int, ...]:
        r"""Shape of the batch, that of $\beta$, $\gamma$ and $\epsilon$ together: `()` for one network."""
        return np.broadcast_shapes(self.beta.shape, self.gamma.shape, self.epsilon.shape)

    def __getitem__(self, index) -> "Dynamics":
        """Take one network, or a smaller batch, out of a batch."""
        np.broadcast_to(0, self.shape)[index]  # raises IndexError, where JAX would take the last one
        parameters = (self.beta, self.gamma, self.epsilon)
        beta, gamma, epsilon = (jnp.broadcast_to(part, self.shape)[index] for part in parameters)
        return replace(self, beta=beta, gamma=gamma, epsilon=epsilon)

    def at(
        self, *, beta: ArrayLike | None = None, gamma: ArrayLike | None = None, epsilon: ArrayLike | None = None
    ) -> "Dynamics":
        """Return the same patterns with other parameters; those not given stay."""
        mine = (self.beta, self.gamma, self.epsilon)
        new = (old if value is None else value for value, old in zip((beta, gamma, epsilon), mine, strict=True))
        return replace(self, **_parameters(*new))


def dynamics(patterns: Patterns, *, beta: ArrayLike, gamma: ArrayLike, epsilon: ArrayLike) -> Dynamics:
    r"""Combine patterns and parameters.

    Args:
        patterns: `Patterns` with known values, not traced.
        beta: $\beta \ge 0$, a number or an array, broadcast with those of `gamma` and `epsilon`.
        gamma: $\gamma \ge 0$; logits are $\gamma / \sqrt M$ times the overlap of query and key.
        epsilon: $\epsilon$ in [0, 1]; $N_P / (N + N_P)$ is plain concatenation of words and positions.
    """
    checks.instance("patterns", patterns, Patterns, instead="Write dmft.patterns_from_arrays(..).")
    parameters = _parameters(beta, gamma, epsilon)
    code = np.asarray(positional_code(patterns.window))
    codes = np.stack([code @ np.asarray(getattr(patterns, name).positions).T / patterns.bits for name in MATRICES])
    return Dynamics(patterns, site_terms(patterns), jnp.asarray(codes), **parameters)


def laws_of(model: Dynamics) -> _map.Laws:
    """Return the parameters of a step with the batch as the last axis."""
    return _laws_of(need_dynamics(model))


def need_dynamics(model) -> Dynamics:
    """Validate a model."""
    return checks.instance("model", model, Dynamics, instead="Write dmft.dynamics(patterns, beta=.., ..).")


@jax.jit
def _laws_of(model: Dynamics) -> _map.Laws:
    parameters = (model.beta, model.gamma, model.epsilon)
    beta, gamma, epsilon = (jnp.broadcast_to(part, model.shape).reshape(-1) for part in parameters)
    return _map.Laws(*model.terms, model.codes, beta, gamma / np.sqrt(model.features), epsilon)


def _parameters(beta, gamma, epsilon) -> dict:
    """Return the parameters as arrays whose shapes broadcast."""
    given = {"beta": beta, "gamma": gamma, "epsilon": epsilon}
    for name, value in given.items():
        given[name] = value = checks.array(name, value, " ".join(["batch"] * np.ndim(value)), double=True)
        most = 1 if name == "epsilon" else np.inf
        if checks.concrete(value) and not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= most)):
            raise ValueError(f"{name}: wanted numbers in [0, {most}], got {value}.")
    np.broadcast_shapes(*(value.shape for value in given.values()))  # raises ValueError
    return given
