"""The one-shot task on glyphs and untrained parameters that the tests of training share."""

import jax
import jax.numpy as jnp
import pytest

from attention_book.one_shot.glyphs import glyph_split, glyphs
from attention_book.one_shot.path_form import initial
from attention_book.one_shot.task import OneShot
from statmech_attention.layers import SkipHeads

SKIPS = (SkipHeads(2), SkipHeads(3))


@pytest.fixture(scope="module")
def task():
    return OneShot(glyphs(24, 5, seed=2))


@pytest.fixture(scope="module")
def split(task):
    return glyph_split(task.images)


def parameters_of(heads, scale=3.0):
    # Larger than initial ones, so that attention is far from uniform.
    return jax.tree.map(lambda array: scale * array, initial(jax.random.key(1), heads, 20, 8, 192))


def relative(found, wanted):
    return float(jnp.max(jnp.abs(found - wanted)) / jnp.max(jnp.abs(wanted)))
