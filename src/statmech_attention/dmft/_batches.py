"""Large batches in pieces that stay in a core's cache, one thread a core."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
from tqdm import tqdm

from statmech_attention import checks
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.windows import Window, rings_of

# Networks, fastest on CPUs as measured by `python -m benchmarks.dmft`.
_PIECE = 256
_FEWEST = 32  # below which neither a second thread nor a shorter piece is worth it


def in_pieces(
    function: Callable,
    model: Dynamics,
    window: Window,
    *,
    copies: int = 1,
    progress: bool | None = None,
    unit: str = "piece",
) -> Any:
    """`function(laws, rings)` on pieces of the batch, the results put together along their last axis.

    Args:
        function: of the laws and rings of a piece; compiled, and of results with the batch last, or scalars common to all.
        model: the batch.
        window: where to start.
        copies: of the state that a network carries along, such as its tangent vectors; the more, the shorter the pieces.
        progress: True or False for a progress bar or none, None for one on a terminal.
        unit: what the bar counts.

    Returns:
        What `function` would return for all of the batch; at once where values are traced, and on an accelerator.
    """
    laws, rings = laws_of(model), rings_of(window, model)
    size = laws.beta.size
    threads = _cores()
    longest = max(_FEWEST, _PIECE // copies)
    pieces = threads * -(-size // (longest * threads))
    alone = size <= (longest if threads == 1 else _FEWEST) or jax.default_backend() != "cpu"
    if alone or not checks.concrete(*jax.tree.leaves((laws, rings))):
        return function(laws, rings)
    length = -(-size // pieces)

    def piece(number: int):
        # All of one length, so that they share one compilation: the last are filled up with copies.
        some = jnp.minimum(jnp.arange(number * length, (number + 1) * length), size - 1)
        mine = laws._replace(beta=laws.beta[some], sharpness=laws.sharpness[some], epsilon=laws.epsilon[some])
        windows = {name: getattr(rings, name)[..., some] for name in ("keys", "values", "attention")}
        return jax.block_until_ready(function(mine, rings._replace(**windows)))

    shown = None if progress is None else not progress
    with tqdm(total=pieces, unit=unit, disable=shown) as bar, ThreadPoolExecutor(threads) as pool:
        found = []
        for one in [pool.submit(piece, number) for number in range(pieces)]:
            found.append(one.result())
            bar.update()
    return jax.tree.map(
        lambda *parts: parts[0] if not parts[0].ndim else jnp.concatenate(parts, -1)[..., :size], *found
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
