"""Sequences of three drawings, and the compact form of their tokens, for the one-shot task."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Shaped, UInt8

from statmech_attention.checks import Key

CHANNELS = 3


class Sequences(NamedTuple):
    """The drawings of each example, and its labels."""

    # Indices into the images' `pixels`; the third image is the one to be labelled.
    drawings: Int32[Array, "*examples images"]
    first: Float[Array, "*examples"]  # label of the first image, +1 or -1; the second has the other one
    labels: Float[Array, "*examples"]  # the right answer


class CompactTokens(NamedTuple):
    r"""The parts of tokens, in float32: $x_t = u_t \otimes 1_3 + c_t + y_1 g_t \delta$."""

    patches: UInt8[Array, "drawings patches pixels"]  # of every drawing, unnormalised
    constants: Float[Array, "tokens features"]  # $c_t$, position code plus the mean label vector of the image
    signs: Float[Array, " tokens"]  # $g_t$
    difference: Float[Array, " features"]  # $\delta$, half the difference of the two label vectors
    epsilon: Float[Array, ""]  # added to a patch's variance in layer normalisation


def normalised_patches(
    compact: CompactTokens, drawings: Int32[Array, "*examples images"], dtype
) -> Float[Array, "*examples tokens pixels"]:
    """Layer-normalised grey patches $u_t$ of sequences; 0 where a patch is empty."""
    grey = compact.patches[drawings].astype(dtype) / 255
    grey = grey.reshape(*drawings.shape[:-1], -1, grey.shape[-1])
    centred = grey - jnp.mean(grey, axis=-1, keepdims=True)
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    return centred / jnp.sqrt(variance + compact.epsilon.astype(dtype))


@jax.jit
def draw_sequences(
    key: Key,
    pairs: Int32[Array, "examples 2"],
    asked: Int32[Array, "examples 2"],
    starts: Int32[Array, " boundaries"],
) -> Sequences:
    """Draw one sequence per pair of classes; the same in single and double precision."""
    order, label, which, drawing, other = jax.random.split(key, 5)
    examples = len(pairs)
    swap = _coins(order, examples)[:, None]
    pairs, asked = jnp.where(swap, pairs[:, ::-1], pairs), jnp.where(swap, asked[:, ::-1], asked)
    first = jnp.where(_coins(label, examples), jnp.float32(1), jnp.float32(-1))
    third = _coins(which, examples).astype(jnp.int32)  # 0: as the first image, 1: as the second

    most = (starts[pairs + 1] - starts[pairs]).reshape(-1)
    labelled = jax.random.randint(drawing, (2 * examples,), 0, most, dtype=jnp.int32).reshape(examples, 2)
    shown, target = _pick(pairs, third), _pick(asked, third)
    count, same = starts[target + 1] - starts[target], shown == target
    # Of the labelled image's own class: one of the others, counted from the drawing that is shown already.
    number = jax.random.randint(other, (examples,), 0, count - same, dtype=jnp.int32)
    number = jnp.where(same, (number + 1 + _pick(labelled, third)) % count, number)
    drawings = jnp.concatenate([starts[pairs] + labelled, (starts[target] + number)[:, None]], axis=1)
    return Sequences(drawings, first, jnp.where(third == 0, first, -first))


def random_pairs(key: Key, examples: int, classes: int) -> Int32[Array, "examples 2"]:
    """Draw pairs of different numbers below `classes`."""
    first_key, second_key = jax.random.split(key)
    first = jax.random.randint(first_key, (examples,), 0, classes, dtype=jnp.int32)
    step = jax.random.randint(second_key, (examples,), 1, classes, dtype=jnp.int32)
    return jnp.stack([first, (first + step) % classes], axis=1)


def _coins(key: Key, number: int) -> Bool[Array, " number"]:
    # The probability's type decides which random numbers are drawn; the default type would change with JAX's precision.
    return jax.random.bernoulli(key, jnp.float32(0.5), (number,))


def _pick(of_both: Shaped[Array, "examples 2"], which: Int32[Array, " examples"]) -> Shaped[Array, " examples"]:
    return jnp.take_along_axis(of_both, which[:, None], axis=1)[:, 0]
