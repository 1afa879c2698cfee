"""The numbers of heads, and what pruning needs of the other rooms."""

import subprocess
import sys

import numpy as np

import statmech_attention as sma


def test_heads_are_numbered_layer_by_layer():
    np.testing.assert_array_equal(sma.pruning.head_indices((2, 3)), [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]])


def test_pruning_needs_neither_images_nor_optimiser_nor_records():
    code = (
        "import sys, statmech_attention.pruning; "
        "print(*(name for name in ('statmech_attention.tasks', 'attention_book.results', "
        "'attention_book.training.path_form', 'optax', 'xarray', 'torch', 'matplotlib') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
