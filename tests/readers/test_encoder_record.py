"""The recorded slopes of the book's encoder, found in JAX, against those that the library finds in PyTorch."""

import json

import numpy as np
import pytest

from attention_book import encoder
from attention_book.encoder import installed
from attention_book.runs import results
from statmech_attention.reading import own_slopes

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
transformers = pytest.importorskip("transformers", reason="needs Hugging Face's transformers")
safetensors = pytest.importorskip("safetensors.torch", reason="needs the packages of `make text`")
pytestmark = pytest.mark.skipif(bool(installed.missing()), reason="needs the packages of `make text`")


def embedded(found, batch):
    """The mean token, of length 1."""
    counted = batch["attention_mask"][..., None].to(found.last_hidden_state)
    mean = (counted * found.last_hidden_state).sum(dim=1) / counted.sum(dim=1)
    return mean / mean.norm(dim=1, keepdim=True)


def test_slopes_are_those_of_the_record():
    config = transformers.BertConfig(**json.loads(installed.content("settings")))
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    assert not model.load_state_dict(safetensors.load(installed.content("weights")), strict=False).missing_keys
    read = encoder.disjoint("description-entity", 0, 5, 20, 250)
    tokens = read.tokens[:100]
    batch = {"input_ids": torch.tensor(tokens.ids), "attention_mask": torch.tensor(tokens.mask.astype(int))}
    found = own_slopes(model, batch, read.labels[:100], embed=embedded)
    record = results.load("../../results/encoder/as-it-is-description-entity.nc").isel(seed=0)
    np.testing.assert_allclose(found.slopes, record.score.sel(name="own slope"), atol=1e-4)
