"""Figure panels of the book, beside those of the library."""

from attention_book.pages.plotting.cones import in_cone, positive_cone
from attention_book.pages.plotting.panels import (
    HIDDEN_MARKOV_PATHS,
    MUTED,
    REGIME_COLOURS,
    REGIMES,
    attention_matrix,
    groups,
    legend_above,
    new_figure,
    path_blocks,
    path_correlations,
    principal_overlaps,
    reference_line,
)
from attention_book.pages.plotting.schematics import architecture
from attention_book.pages.plotting.sliders import slider
from attention_book.pages.plotting.tasks import hidden_chains, noisy_tokens, one_shot_sequence, switching
from statmech_attention.plotting import *  # noqa: F403
