"""Tasks: where inputs, labels and attention heads come from."""

from statmech_attention.tasks._hidden_chains import HiddenMarkovSample, HiddenMarkovTrial
from statmech_attention.tasks.glyph_images import glyph_split, glyphs
from statmech_attention.tasks.hidden_markov import HiddenMarkov
from statmech_attention.tasks.hidden_markov_classes import HiddenMarkovClasses
from statmech_attention.tasks.images import ImageSet, Split, omniglot_split
from statmech_attention.tasks.one_shot import OneShot, OneShotSample
from statmech_attention.tasks.one_shot_sets import OneShotSuite, TestSet, one_shot_suite

__all__ = [
    "HiddenMarkov",
    "HiddenMarkovClasses",
    "HiddenMarkovSample",
    "HiddenMarkovTrial",
    "ImageSet",
    "OneShot",
    "OneShotSample",
    "OneShotSuite",
    "Split",
    "TestSet",
    "glyph_split",
    "glyphs",
    "omniglot_split",
    "one_shot_suite",
]
