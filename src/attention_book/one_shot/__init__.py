"""One-shot classification: images and sequences, training in path form, attention as inputs, removal of heads."""

from attention_book.one_shot.baselines import Removals, every_removal, head_confidence, taylor_importance
from attention_book.one_shot.files import load_network, save_network
from attention_book.one_shot.glyphs import glyph_split, glyphs
from attention_book.one_shot.images import ImageSet, Split, omniglot_split
from attention_book.one_shot.network import CURVE, TrainedNetwork
from attention_book.one_shot.path_form import Parameters, trained_network
from attention_book.one_shot.removal import (
    head_drops,
    masked_outputs,
    path_contributions,
    path_gates,
    predictor_vectors,
    pruning_curve,
    whole_and_without_each,
)
from attention_book.one_shot.seen import accuracies, aligned, draw_of, pruning_samples, seen_by
from attention_book.one_shot.suites import OneShotSuite, TestSet, one_shot_suite
from attention_book.one_shot.task import OneShot, OneShotSample
from attention_book.one_shot.training import Training, train
