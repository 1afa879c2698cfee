"""Image and sentence tasks."""

from attention_book.tasks._encoder_layers import Encoder
from attention_book.tasks.encoder import Encoding, encode, encoded_batches, pretrained_encoder, random_encoder
from attention_book.tasks.glyph_images import glyph_split, glyphs
from attention_book.tasks.images import ImageSet, Split, omniglot_split
from attention_book.tasks.one_shot import OneShot, OneShotSample
from attention_book.tasks.one_shot_sets import OneShotSuite, TestSet, one_shot_suite
from attention_book.tasks.packed_sentences import PackedSentences, packed_sentences
from attention_book.tasks.sentences import Sentences, SentenceSet, SentenceSplit, sentence_set
from attention_book.tasks.tokens import Tokens, tokenise
