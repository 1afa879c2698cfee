"""Tasks: where inputs, labels and attention heads come from."""

from statmech_attention.tasks._encoder_layers import Encoder, Frozen
from statmech_attention.tasks._hidden_chains import HiddenMarkovSample, HiddenMarkovTrial
from statmech_attention.tasks.encoded import EncodedSentences, encoded_sentences
from statmech_attention.tasks.encoder import (
    Encoding,
    encode,
    encoded_batches,
    freeze,
    pretrained_encoder,
    random_encoder,
    replay,
)
from statmech_attention.tasks.glyph_images import glyph_split, glyphs
from statmech_attention.tasks.hidden_markov import HiddenMarkov
from statmech_attention.tasks.hidden_markov_classes import HiddenMarkovClasses
from statmech_attention.tasks.images import ImageSet, Split, omniglot_split
from statmech_attention.tasks.one_shot import OneShot, OneShotSample
from statmech_attention.tasks.one_shot_sets import OneShotSuite, TestSet, one_shot_suite
from statmech_attention.tasks.sentences import Sentences, SentenceSet, SentenceSplit, sentence_set
from statmech_attention.tasks.tokens import Tokens, tokenise

__all__ = [
    "EncodedSentences",
    "Encoder",
    "Encoding",
    "Frozen",
    "HiddenMarkov",
    "HiddenMarkovClasses",
    "HiddenMarkovSample",
    "HiddenMarkovTrial",
    "ImageSet",
    "OneShot",
    "OneShotSample",
    "OneShotSuite",
    "SentenceSet",
    "SentenceSplit",
    "Sentences",
    "Split",
    "TestSet",
    "Tokens",
    "encode",
    "encoded_batches",
    "encoded_sentences",
    "freeze",
    "glyph_split",
    "glyphs",
    "omniglot_split",
    "one_shot_suite",
    "pretrained_encoder",
    "random_encoder",
    "replay",
    "sentence_set",
    "tokenise",
]
