"""Large batches in pieces that stay in a core's cache, one thread per core."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from statmech_attention import checks
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.windows import Window, rings_of
from statmech_attention.installed import progress_bar

_PIECE = 256  # networks, fastest on CPUs as measured by `python -m benchmarks.dmft`
_FEWEST = 32  # below which neither a second thread nor a shorter piece is worth it


def in_pieces(function: Callable, model: Dynamics, window: Window, *, copies: int = 1) -> Any:
    """Return `function(laws, rings)` for a batch, computed in pieces and joined along the last axis.

    `copies` is the number of states that a network carries along: more of them, shorter pieces.
    Traced values, and all values on an accelerator, are not divided. A bar is on terminals only.
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

    with ThreadPoolExecutor(threads) as pool:
        begun = [pool.submit(piece, number) for number in range(pieces)]
        found = [one.result() for one in progress_bar(begun, "pieces", None)]
    # Results without axes are common to all pieces.
    return jax.tree.map(
        lambda *parts: parts[0] if not parts[0].ndim else jnp.concatenate(parts, -1)[..., :size], *found
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
