"""Each argument of each reader is fed what is wrong, as in `test_bad_inputs`."""

import numpy as np
import pytest
from test_bad_inputs import complaints, without_checks_of_types  # noqa: F401

from statmech_attention import reading

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
transformers = pytest.importorskip("transformers", reason="needs Hugging Face's transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*nested")

torch.manual_seed(0)
SIZES = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
MODEL = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
NETWORK = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2).eval()
IDS, TOKENS = torch.arange(20).reshape(4, 5), torch.randn(4, 5, 8)
LABELS = np.array([1.0, -1.0, -1.0, 1.0])
TEXTS = ["a", "b", "c", "d"]


def tokeniser(texts, **options):
    return {"input_ids": torch.cat([IDS[[ord(text) - ord("a")]] for text in texts])}


CALLS = {
    reading.attention_from_torch: {"model": NETWORK, "inputs": TOKENS, "layers": [0], "test": True, "gates": False},
    reading.attention_from_transformers: {
        "model": MODEL,
        "input_ids": IDS,
        "layers": [0],
        "batch_size": 4,
        "test": True,
        "gates": False,
    },
    reading.read_residuals: {"model": MODEL, "input_ids": IDS, "layers": [0]},
    reading.only_heads: {"model": NETWORK, "kept": [0], "inputs": TOKENS, "layers": [0]},
    reading.own_slopes: {
        "model": MODEL,
        "batches": {"input_ids": IDS},
        "labels": LABELS,
        "readout": "mean",
        "embed": None,
        "temperature": 0.1,
        "removal": False,
    },
    reading.report: {
        "model": MODEL,
        "tokeniser": tokeniser,
        "texts": TEXTS,
        "labels": LABELS,
        "batch_size": 4,
        "readout": "mean",
        "theory": False,
        "progress": print,
    },
}
RIGHT = {
    "half": ("temperature",),
    "none of them": ("kept",),
    "five axes": ("inputs", "input_ids", "batches"),  # refused by the model
    "a function": ("embed", "progress", "tokeniser"),
    "text": ("labels",),
}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_what_is_wrong_is_refused_by_name(call):
    def all_of_it(**arguments):
        found = call(**arguments)
        return list(found) if hasattr(found, "__next__") else found

    said = complaints(all_of_it, CALLS[call], RIGHT)
    assert not said, "\n" + "\n".join(said)


def test_the_list_has_every_reader():
    public = {name for name in reading.__all__ if not isinstance(getattr(reading, name), type)}
    assert public == {call.__name__ for call in CALLS}
