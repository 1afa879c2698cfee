"""A table of heads from texts and labels, against its two columns by hand, as a function and as a command."""

import re

import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.__main__ import main
from statmech_attention.reading.table import HeadReport

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
transformers = pytest.importorskip("transformers", reason="needs Hugging Face's transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "the", "a", "was"]
RANDOM = np.random.default_rng(0)
TEXTS = [" ".join(RANDOM.choice(WORDS[4:], RANDOM.integers(3, 7))) for _ in range(24)]
LABELS = ["nice" if "good" in text else "not" for text in TEXTS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model and its tokeniser, as a user has them on disk."""
    path = tmp_path_factory.mktemp("model")
    (path / "vocab.txt").write_text("\n".join(WORDS))
    tokeniser = transformers.BertTokenizer(str(path / "vocab.txt"))
    torch.manual_seed(0)
    sizes = {"vocab_size": 10, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2}
    model = transformers.BertModel(transformers.BertConfig(**sizes, intermediate_size=32, initializer_range=0.3))
    model.save_pretrained(path)
    tokeniser.save_pretrained(path)
    return path


def test_a_report_has_what_the_model_loses_and_what_networks_lose_that_learn_again(folder):
    model, tokeniser = (
        transformers.AutoModel.from_pretrained(folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    found = sma.report(model.eval(), tokeniser, TEXTS, LABELS, batch_size=10)
    batch, targets = tokeniser(TEXTS, padding=True, return_tensors="pt"), np.where(np.array(LABELS) == "not", 1.0, -1.0)
    np.testing.assert_allclose(found.own, sma.reading.own_slopes(model, batch, targets).slopes, rtol=1e-3, atol=1e-4)
    seen = sma.token_inputs(
        sma.attention_from_transformers(model, **batch), layers=[sma.SkipHeads(4)] * 2, readout="mean"
    )
    worth = sma.pruning.kernel_worth(sma.kernel(seen, seen), sma.pruning.head_kernels(seen, seen), targets)
    np.testing.assert_allclose(found.learned, worth.losses, rtol=1e-4, atol=1e-5)
    lines = str(found).splitlines()
    assert len(lines) == 9 and lines[6].split() == ["1", "1", f"{found.own[5]:.2f}", f"{found.learned[5]:.2f}"]
    assert "no head" not in str(found)
    none = HeadReport(found.heads, -np.abs(found.own), found.learned)
    assert str(none).splitlines()[9:] == ["as it is: no head has a positive worth."]
    tokeniser.padding_side = "left"
    with pytest.raises(ValueError, match=r"read as it is alone.* Or leave out .* theory=False"):
        sma.report(model, tokeniser, TEXTS, LABELS)
    left = sma.report(model, tokeniser, TEXTS, LABELS, theory=False)
    assert left.learned is None and len(str(left).splitlines()[0].split()) == 5
    for texts, labels, message in (
        (TEXTS, LABELS[:3], "labels: wanted the same number in labels and texts"),
        (TEXTS, ["one"] * 24, "labels: wanted at least two classes"),
        ([3] * 24, LABELS, "texts: wanted a list of texts"),
    ):
        with pytest.raises(ValueError, match=message):
            sma.report(model, tokeniser, texts, labels)


def test_the_command_prints_the_table_and_draws_it(folder, tmp_path, capsys):
    table = tmp_path / "texts.csv"
    table.write_text("text,label\n" + "\n".join(f"{text},{label}" for text, label in zip(TEXTS, LABELS, strict=True)))
    main(["heads", str(folder), str(table), "--picture", str(tmp_path / "heads.svg")])
    assert len(re.findall(r"^ +[01] +[0-3] ", capsys.readouterr().out, re.MULTILINE)) == 8
    assert (tmp_path / "heads.svg").stat().st_size > 1000
    table.write_text("words\nx\n")
    with pytest.raises(SystemExit):
        main(["heads", str(folder), str(table)])
    assert "wanted columns text and label, got words" in capsys.readouterr().err
