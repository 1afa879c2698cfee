"""The lines of the page on somebody's own network, as they stand there, on a tiny model."""

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
transformers = pytest.importorskip("transformers", reason="needs Hugging Face's transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

PAGE = Path(__file__).resolve().parents[2] / "book" / "use" / "your_own_network.md"
IDS = np.random.default_rng(0).integers(5, 20, size=(40, 6))
LABELS = np.where((IDS < 8).any(axis=1), 1.0, -1.0)


def tokeniser(rows, padding, return_tensors):
    """Stands for one: the texts are rows of identifiers."""
    assert padding and return_tensors == "pt"
    ids = torch.tensor(np.array(rows))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 24, "num_attention_heads": 12, "num_hidden_layers": 3}
    return transformers.BertModel(transformers.BertConfig(**sizes, intermediate_size=32)).eval()


def test_from_texts_to_a_smaller_model(capsys):
    assert "{literalinclude} smaller_model.py" in PAGE.read_text()
    code, names = (PAGE.parent / "smaller_model.py").read_text(), {}
    exec(compile(code, "smaller_model.py", "exec"), names)
    whole = model()
    names["compare"](whole, tokeniser, IDS.tolist(), LABELS, keep=12)
    said = capsys.readouterr().out
    counts = re.findall(r"^(\w+) +(\d+) heads: accuracy ([01]\.\d{3})$", said, re.MULTILINE)
    assert [(name, int(count)) for name, count, _ in counts] == [("all", 36), ("best", 12), ("any", 12)]
    with torch.no_grad():
        rows = whole(torch.tensor(IDS)).last_hidden_state.mean(dim=1).numpy()
    probe = names["LogisticRegression"]().fit(rows[:20], LABELS[:20])
    assert float(counts[0][2]) == pytest.approx(probe.score(rows[20:], LABELS[20:]), abs=0.051)


def test_the_lines_on_hugging_face():
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "AutoModel" in block
    )
    import statmech_attention as sma

    auto = type("AutoModel", (), {"from_pretrained": staticmethod(lambda name: model())})
    names = {
        "sma": sma,
        "AutoModel": auto,
        "name": "tiny",
        "tokeniser": tokeniser,
        "texts": IDS[:16],
        "labels": LABELS[:16],
    }
    small = code.replace("layers=[0, 2]", "layers=[2]")  # of its heads alone, for the time that tests may take
    exec(compile(small, "page", "exec"), names)
    assert len(names["found"].kept) == 6 and names["found"].heads.shape == (12, 2)
