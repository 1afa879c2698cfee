"""A pretrained encoder beside the theory: sentences, attention as inputs, linear probes, and gates on its heads."""

from attention_book.encoder.encoding import Encoding, encode, encoded_batches, pretrained_encoder, random_encoder
from attention_book.encoder.gates import (
    FIRST,
    POOLED,
    Classifier,
    features,
    fine_tuned,
    gates_of,
    lowest_layers,
    taylor_in_encoder,
)
from attention_book.encoder.inputs import (
    TASKS,
    Words,
    disjoint,
    encoded_task,
    part_of,
    shuffled,
    tf_idf,
    uniform,
    words,
)
from attention_book.encoder.kernel_weights import kernel_weights, own_evidence
from attention_book.encoder.layers import Encoder
from attention_book.encoder.packed_sentences import PackedSentences, packed_sentences
from attention_book.encoder.probes import logistic, ridge
from attention_book.encoder.sentences import Sentences, SentenceSet, SentenceSplit, sentence_set
from attention_book.encoder.splits import SHARED
from attention_book.encoder.tokens import Tokens, tokenise
