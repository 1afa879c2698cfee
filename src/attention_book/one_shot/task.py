r"""One-shot image classification: two labelled images and a third to be labelled like one of them.

Section 4.2 and appendix H of Tiberi et al. (2024). A token is a patch of an image plus a code of
its position and of its image's label: $x_t = u_t \otimes 1_3 + c_t + y_1 g_t \delta$ with the
layer-normalised patch $u_t$ (grey, its channel repeated three times), $y_1 = \pm 1$ the label of
the first image, $g_t = 1, -1, 0$ on the first, second and third image. Training uses this compact
form.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Int32

from attention_book.one_shot.images import ImageSet
from attention_book.one_shot.sequences import (
    CHANNELS,
    CompactTokens,
    Sequences,
    draw_sequences,
    normalised_patches,
    random_pairs,
)
from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.compiling import quick_jit

_IMAGES = 3
_BASE = 1e4


class OneShotSample(NamedTuple):
    """Examples of the task."""

    inputs: Float[Array, "examples tokens features"]
    labels: Float[Array, " examples"]  # +1 and -1
    sequences: Sequences


@dataclass(frozen=True, eq=False)
class OneShot:
    """The task on a set of images."""

    images: ImageSet  # square images
    patch: int = 8  # side of a patch in pixels, a divisor of the image's side
    epsilon: float = 1e-5  # added to the variance of a patch's grey values; an empty patch becomes 0
    label_seed: int = 0  # of the label vectors, the same for all examples

    def __post_init__(self):
        height, width = self.images.pixels.shape[1:]
        if height != width or height % self.patch:
            raise ValueError(f"patch: wanted a divisor of the side of square images, got {self.patch!r}.")

    @property
    def tokens(self) -> int:
        """Number of tokens: the patches of three images, row by row."""
        return _IMAGES * (self.images.pixels.shape[1] // self.patch) ** 2

    @property
    def features(self) -> int:
        """$N_0$, entries of a token: pixels of a patch times three, the channel fastest."""
        return CHANNELS * self.patch**2

    @cached_property
    def positions(self) -> Float[np.ndarray, "tokens features"]:
        """Sines and cosines of each token's place, with mean 0 and variance 1 in all."""
        rate = _BASE ** -(2 * (np.arange(self.features) // 2) / self.features)
        angle = np.arange(self.tokens)[:, None] * rate[None, :]
        code = np.where(np.arange(self.features) % 2 == 0, np.sin(angle), np.cos(angle))
        return (code - code.mean()) / code.std()

    @cached_property
    def label_vectors(self) -> Float[np.ndarray, "3 features"]:
        """The vectors of "+", "-" and "?": standard normal entries."""
        return np.random.default_rng(self.label_seed).standard_normal((3, self.features))

    @cached_property
    def compact(self) -> CompactTokens:
        """Patches of the drawings and constant parts of the tokens, on the device."""
        side = self.images.pixels.shape[1] // self.patch
        patches = self.images.pixels.reshape(-1, side, self.patch, side, self.patch).swapaxes(2, 3)
        plus, minus, unknown = self.label_vectors
        means = np.stack([(plus + minus) / 2, (plus + minus) / 2, unknown])
        each = self.tokens // _IMAGES
        return CompactTokens(
            jnp.asarray(patches.reshape(-1, side**2, self.patch**2)),
            jnp.asarray(self.positions + np.repeat(means, each, axis=0), jnp.float32),
            jnp.asarray(np.repeat([1, -1, 0], each), jnp.float32),
            jnp.asarray((plus - minus) / 2, jnp.float32),
            jnp.asarray(self.epsilon, jnp.float32),
        )

    @cached_property
    def starts(self) -> Int32[Array, " boundaries"]:
        """First drawing of each class, on the device."""
        return jnp.asarray(self.images.starts, jnp.int32)

    def sample(self, key: Key, examples: int, classes: ArrayLike, asked: ArrayLike | None = None) -> OneShotSample:
        """Draw examples: pairs of different classes at random, and the rest as in `sequences`.

        `asked` stand for `classes` in the third image: `classes=(0, 1), asked=(2, 3)` asks for MNIST's
        tests.
        """
        key, examples = checks.key("key", key), checks.whole("examples", examples)
        classes = self._classes("classes", classes)
        asked = classes if asked is None else self._classes("asked", asked)
        checks.same("asked", "asked", len(asked), "classes", len(classes))
        sequences, labels = _random_sequences(key, classes, asked, self.starts, examples)
        return OneShotSample(self.inputs(sequences), labels, sequences)

    def sequences(self, key: Key, pairs: Int[Array, "examples 2"] | Int[np.ndarray, "examples 2"]) -> Sequences:
        """Draw one sequence per pair of classes; its three drawings are different."""
        pairs = self._pairs(pairs)
        return draw_sequences(checks.key("key", key), pairs, pairs, self.starts)

    def all_pairs(self, classes: ArrayLike) -> Int32[np.ndarray, "pairs 2"]:
        """Return every pair of different classes once: 527,878 pairs of 1028 classes."""
        classes = np.asarray(self._classes("classes", classes))
        return classes[np.stack(np.triu_indices(len(classes), 1), axis=1)]

    def inputs(self, sequences: Sequences) -> Float[Array, "examples tokens features"]:
        """Return the tokens of sequences, in JAX's default precision."""
        self.images.require(sequences.drawings)
        return _tokens(self.compact, sequences)

    def _pairs(self, pairs) -> Int32[Array, "examples 2"]:
        indices, most = np.asarray(pairs), self.images.classes - 1
        if indices.min() < 0 or indices.max() > most or np.any(indices[:, 0] == indices[:, 1]):
            raise ValueError(f"pairs: wanted pairs of different indices in 0..{most}, got {pairs!r}.")
        return jnp.asarray(indices, jnp.int32)

    def _classes(self, name: str, classes) -> Int32[Array, " classes"]:
        chosen = checks.indices(name, classes, self.images.classes, least=2)
        if np.diff(self.images.starts)[chosen].min() < 2:
            raise ValueError(f"{name}: wanted at least two drawings of every class of {self.images.name}.")
        return jnp.asarray(chosen, jnp.int32)


@quick_jit(static=("examples",))
def _random_sequences(key, classes, asked, starts, examples):
    """Draw sequences of pairs of different classes, and their labels in JAX's default precision."""
    pair, rest = jax.random.split(key)
    pairs = random_pairs(pair, examples, len(classes))
    sequences = draw_sequences(rest, classes[pairs], asked[pairs], starts)
    return sequences, sequences.labels.astype(float)


@quick_jit()
def _tokens(compact: CompactTokens, sequences: Sequences) -> Float[Array, "examples tokens features"]:
    dtype = jnp.result_type(float)
    patches = jnp.repeat(normalised_patches(compact, sequences.drawings, dtype), CHANNELS, axis=-1)
    signs = sequences.first.astype(dtype)[:, None] * compact.signs.astype(dtype)[None]
    labels = signs[:, :, None] * compact.difference.astype(dtype)[None, None]
    return patches + compact.constants.astype(dtype)[None] + labels
