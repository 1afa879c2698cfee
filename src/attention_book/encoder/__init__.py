"""A pretrained encoder beside the theory: its attention as inputs, linear probes, and gates on its heads."""

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
from attention_book.encoder.inputs import TASKS, Words, encoded_task, part_of, shuffled, tf_idf, uniform, words
from attention_book.encoder.probes import logistic, ridge
