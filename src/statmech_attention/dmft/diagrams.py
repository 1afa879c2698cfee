r"""Diagrams of the mean field over its parameters: bifurcations and regimes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from statmech_attention import checks
from statmech_attention.dmft._batches import in_pieces
from statmech_attention.dmft.lyapunov import Regime, lyapunov_spectrum, regimes, spectrum_numbers
from statmech_attention.dmft.mean_field import advance, advance_rings, run_rings
from statmech_attention.dmft.model import Dynamics
from statmech_attention.dmft.orbits import period
from statmech_attention.dmft.windows import Window, batch_first, window_of

_CHUNK = 500  # steps that are processed together


class Bifurcation(NamedTuple):
    r"""Visited values of the semantic output overlaps $\langle W^o_a \tanh \rangle$, on a grid.

    Attributes:
        visited: `(*batch, features, levels)`, whether an overlap took a value.
        sections: `(*batch, pairs, levels)`, the same at times when another overlap was close to zero.
        limit: levels go evenly from minus `limit` to `limit`.
        window: the last `Window`.
    """

    visited: Bool[np.ndarray, "*batch features levels"]
    sections: Bool[np.ndarray, "*batch pairs levels"]
    limit: float
    window: Window

    @property
    def values(self) -> Float[np.ndarray, " levels"]:
        """The value of each level."""
        return np.linspace(-self.limit, self.limit, self.visited.shape[-1])


class Attractors(NamedTuple):
    """Attractors of a batch of networks.

    Attributes:
        regime: `(*batch,)`, `Regime` as a whole number.
        period: `(*batch,)`, 0 where the state did not return.
        exponents, errors, rounding: `(*batch, count)`, as in `LyapunovSpectrum`.
        window: the last `Window`.
    """

    regime: Int[np.ndarray, "*batch"]
    period: Int[np.ndarray, "*batch"]
    exponents: Float[Array, "*batch count"]
    errors: Float[Array, "*batch count"]
    rounding: Float[Array, "*batch count"]
    window: Window


@checks.objects
def bifurcation_diagram(
    model: Dynamics,
    window: Window,
    *,
    transient: int,
    steps: int,
    pairs: Sequence | np.ndarray | None = None,
    thickness: float = 1e-3,
    levels: int = 2001,
    limit: float = 1.0,
) -> Bifurcation:
    r"""Mark the values that $m^{o}_a = \langle W^o_a \tanh \rangle$ takes after a transient, and in sections.

    The section of a pair $(a, b)$ holds the values of $m^o_a$ at times when $|m^o_b| \le$ `thickness`.
    Memory does not grow with the number of steps.

    Args:
        model: `Dynamics`, for example a batch over $\beta$.
        window: the initial `Window`, one for all networks or one per network.
        transient: steps that are dropped.
        steps: steps that are marked.
        pairs: pairs $(a, b)$ of features for `sections`; if None, (0, 1), (0, 2), (1, 0), (2, 0), as far
            as there are features.
        thickness: of the sections.
        levels: number of values, evenly from -`limit` to `limit`; an overlap counts for the nearest.
        limit: 1 holds all overlaps; those beyond a smaller limit are left out.

    Raises:
        ValueError: pairs of other features.
    """
    transient, steps = checks.whole("transient", transient, 0), checks.whole("steps", steps)
    levels = checks.whole("levels", levels, 2)
    thickness, limit = checks.positive("thickness", thickness), checks.positive("limit", limit)
    pairs = _pairs(pairs, model.features)

    def run(laws, rings):
        rings = advance_rings(laws, rings, transient)
        visited = np.zeros((model.features, laws.beta.size, levels), dtype=bool)
        sections = np.zeros((len(pairs), laws.beta.size, levels), dtype=bool)
        for done in range(0, steps, _CHUNK):
            rings, kept = run_rings(laws, rings, steps=min(_CHUNK, steps - done), keep=("output_words",))
            overlaps = np.moveaxis(np.asarray(kept["output_words"]), 1, 0)
            places = np.rint((overlaps / limit + 1) * (levels - 1) / 2).astype(np.int32)
            inside = (places >= 0) & (places < levels)
            for table, place, where in zip(visited, places, inside, strict=True):
                _mark(table, place, where)
            for table, (feature, other) in zip(sections, pairs, strict=True):
                _mark(table, places[feature], inside[feature] & (np.abs(overlaps[other]) <= thickness))
        return np.moveaxis(visited, 1, 2), np.moveaxis(sections, 1, 2), rings

    visited, sections, rings = in_pieces(run, model, window)
    visited, sections = (np.asarray(batch_first(part, model.shape)) for part in (visited, sections))
    return Bifurcation(visited, sections, limit, window_of(rings, model))


def _pairs(pairs, features: int) -> Int[np.ndarray, "pairs 2"]:
    """Return the pairs of features for sections."""
    if pairs is None:
        pairs = [pair for pair in ((0, 1), (0, 2), (1, 0), (2, 0)) if max(pair) < features]
        return np.array(pairs, int).reshape(-1, 2)
    found = checks.known("pairs", pairs, "pairs 2")
    if found.shape[1] != 2 or not np.all((found % 1 == 0) & (found >= 0) & (found < features)):
        raise ValueError(f"pairs: wanted pairs (a, b) of features in 0..{features - 1}, got {pairs!r}.")
    return found.astype(int)


def _mark(table, places, where) -> None:
    """Set `table[network, place]` for the steps and networks in `where`."""
    networks = np.broadcast_to(np.arange(table.shape[0]), places.shape)
    table[networks[where], places[where]] = True


@checks.objects
def attractors(
    model: Dynamics,
    window: Window,
    *,
    transient: int,
    steps: int,
    count: int = 2,
    longest: int = 1024,
) -> Attractors:
    r"""Return period, Lyapunov exponents and regime after a transient.

    The parts are `advance`, `period`, `lyapunov_spectrum` and `regimes`; call these for other options.
    Where the state returns and no exponent is above zero, the regime is periodic however slowly it
    attracts.

    Args:
        model: `Dynamics`, for example a batch over $\beta$ and $\gamma$.
        window: the initial `Window`, one for all networks or one per network.
        transient: steps that are dropped.
        steps, count: of `lyapunov_spectrum`; at least 2 exponents.
        longest: the longest period looked for.
    """
    # All of them before the transient, which may take long.
    transient, longest = checks.whole("transient", transient, 0), checks.whole("longest", longest)
    steps, count, *_ = spectrum_numbers(model, steps, count, fewest=2)
    window = advance(model, window, steps=transient)
    returns = period(model, window, longest=longest)
    spectrum = lyapunov_spectrum(model, window, steps=steps, count=count)
    found = regimes(spectrum)
    growing = (found == Regime.CHAOTIC) | (found == Regime.HYPERCHAOTIC)
    return Attractors(np.where((returns > 0) & ~growing, int(Regime.PERIODIC), found), returns, *spectrum)
