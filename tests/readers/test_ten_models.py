"""Ten tiny models of transformers come out as the record of all of them says."""

import json
from pathlib import Path

import pytest
import read_models

pytest.importorskip("transformers", reason="needs Hugging Face's transformers, as `make read` installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

RECORD = json.loads(read_models.TABLE.read_text()) if Path(read_models.TABLE).exists() else {"models": []}
TEN = ["Bert", "DebertaV2", "XLNet", "Llama", "GptOss", "JetMoe", "DiffLlama", "ViT", "Wav2Vec2Conformer", "Lfm2"]


@pytest.mark.parametrize("name", TEN)
def test_a_model_comes_out_as_recorded(name):
    kind, _, sizes = next(one for one in read_models.MODELS if one[1] == name)
    found = read_models.tried(kind, name, sizes)
    recorded = next(row for row in RECORD["models"] if row["model"] == name and row["with"] == found["with"])
    assert (found["outcome"] == "read") == (recorded["outcome"] == "read"), found
    for one in ("values", "heads", "tokens"):
        assert (found[one] < 1e-5) == (recorded[one] < 1e-5), found
