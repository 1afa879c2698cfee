"""Models and batches as people hand them over: padded on either side, wrapped, with fused attention, run before."""

from types import SimpleNamespace

import numpy as np
import pytest

import statmech_attention as sma

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*nested")

WIDTH, HEADS = 16, 4
RANDOM = np.random.default_rng(0)
IDS = torch.tensor(RANDOM.integers(5, 60, size=(3, 9)))
LEFT = torch.tensor([[1] * 9, [0] * 5 + [1] * 4, [0] * 2 + [1] * 7])
TEXT = {"vocab_size": 64, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS}
TEXT |= {"intermediate_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = TEXT | {"num_key_value_heads": 2, "head_dim": 4}
DECODER = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}
MODELS = {
    "Bert": TEXT,
    "GPT2": DECODER | {"n_embd": WIDTH, "n_layer": 2, "n_head": HEADS},
    "Llama": GROUPED,
    "GPTNeoX": TEXT,
    "OPT": TEXT | {"ffn_dim": 32, "word_embed_proj_dim": WIDTH},
    "Bloom": DECODER | {"hidden_size": WIDTH, "n_layer": 2, "n_head": HEADS},
    "Mistral": GROUPED | {"sliding_window": 3},
    "ModernBert": TEXT | {"local_attention": 4, "cls_token_id": 1, "sep_token_id": 2},
}


def made(name, attention="eager"):
    transformers = pytest.importorskip("transformers", reason="needs Hugging Face's transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**MODELS[name])
    return getattr(transformers, f"{name}Model")._from_config(config, attn_implementation=attention).eval()


def seen(read):
    return sma.attentioned_inputs(read, readout="last", layers=[sma.SkipHeads(HEADS)] * 2).values


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_a_padded_text_is_read_as_it_is_alone_or_refused(name, side):
    """Where a window or padding on the left hides every key from a token of padding, too."""
    model, mask = made(name), LEFT if side == "left" else LEFT.flip(1)
    batch = {"input_ids": IDS, "attention_mask": mask}
    if side == "left" and name in ("Bert", "GPT2"):
        with pytest.raises(ValueError, match="text is read as it is alone.* of example 1 .* position_ids="):
            sma.attention_from_transformers(model, **batch)
        batch["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    found = seen(sma.attention_from_transformers(model, **batch))
    for example, real in enumerate(mask.bool()):
        alone = seen(sma.attention_from_transformers(model, input_ids=IDS[example : example + 1, real]))[0]
        np.testing.assert_allclose(found[example], alone, atol=2e-6 * np.abs(alone).max())


def test_later_batches_are_compared_too():
    reads = sma.attention_from_transformers(
        made("GPT2"), input_ids=torch.cat([IDS] * 2), attention_mask=torch.cat([LEFT.flip(1), LEFT]), batch_size=3
    )
    next(reads)
    with pytest.raises(ValueError, match="text is read as it is alone.* of example 1 "):
        next(reads)


class Words(torch.nn.Module):
    """An encoder of PyTorch on token identifiers, with learned positions or something that mixes texts."""

    def __init__(self, extra):
        super().__init__()
        self.words, self.places, self.extra = torch.nn.Embedding(64, WIDTH), torch.nn.Embedding(9, WIDTH), extra
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, ids, padding=None):
        tokens = self.words(ids)
        if self.extra == "positions":
            tokens = tokens + self.places(torch.arange(ids.shape[1]))
        if self.extra == "mean of texts":
            tokens = tokens + tokens.mean(dim=0)
        if self.extra == "dropout":
            tokens = torch.nn.functional.dropout(tokens, 0.5)
        return self.encoder(tokens, src_key_padding_mask=padding)


def test_a_network_of_pytorch_is_compared_with_a_text_alone():
    torch.manual_seed(1)
    for extra, mask, message in (
        ("positions", LEFT, "of example 1 .* Pad on the right"),
        ("mean of texts", LEFT, "of example 1"),
        ("mean of texts", None, "of example 0 .* read one text at a time"),
        ("dropout", None, "of example 0 .* or is drawn at random"),
    ):
        options = {} if mask is None else {"padding": mask == 0}
        with pytest.raises(ValueError, match=f"text is read as it is alone.* {message}"):
            sma.attention_from_torch(Words(extra), IDS, **options)
    for extra, mask in (("", LEFT), ("positions", LEFT.flip(1))):
        model = Words(extra)
        found = seen(sma.attention_from_torch(model, IDS, padding=mask == 0))
        for example, real in enumerate(mask.bool()):
            alone = seen(sma.attention_from_torch(model, IDS[example : example + 1, real]))[0]
            np.testing.assert_allclose(found[example], alone, atol=2e-6 * np.abs(alone).max())


@pytest.mark.parametrize("name", ["Bert", "GPT2", "Llama"])
def test_fused_attention_is_changed_for_the_time_of_reading(name):
    eager, fused = made(name), made(name, "sdpa")
    fused.load_state_dict(eager.state_dict())
    wanted, found = (sma.attention_from_transformers(model, input_ids=IDS) for model in (eager, fused))
    for left, right in zip(found.attention, wanted.attention, strict=True):
        np.testing.assert_array_equal(left, right)
    assert fused.config._attn_implementation == "sdpa"
    with pytest.raises(ValueError, match="layers: "):
        sma.attention_from_transformers(fused, input_ids=IDS, layers=[7])
    assert fused.config._attn_implementation == "sdpa"


def test_the_model_in_a_wrapper_is_found():
    model = made("Bert")
    wanted = sma.attention_from_transformers(model, input_ids=IDS).attention
    sentences = torch.nn.Sequential(torch.nn.ModuleDict({"auto_model": model}), torch.nn.Identity()).eval()
    sentences.config = SimpleNamespace()  # as a SentenceTransformer has
    for wrapper in (sentences, SimpleNamespace(model=model, tokenizer=None)):
        np.testing.assert_array_equal(sma.attention_from_transformers(wrapper, input_ids=IDS).attention, wanted)
    with pytest.raises(ValueError, match="model: wanted a model of transformers and its inputs.* got Identity"):
        sma.attention_from_transformers(torch.nn.Identity(), input_ids=IDS)


class Keeps(torch.nn.MultiheadAttention):
    """Keeps what it returned last, as people do for plots."""

    def forward(self, *arguments, **options):
        self.last = {"maps": [super().forward(*arguments, **options)]}
        return self.last["maps"][0]


def test_a_module_that_keeps_its_attention_is_read_after_a_run():
    model, tokens = Keeps(WIDTH, HEADS, batch_first=True), torch.tensor(RANDOM.normal(size=(5, 7, WIDTH))).float()
    before = sma.attention_from_torch(model, tokens)
    model(tokens, tokens, tokens)
    kept = model.last["maps"][0][1]
    after = sma.attention_from_torch(model, tokens)
    np.testing.assert_array_equal(before.attention, after.attention)
    assert model.last["maps"][0][1] is kept and kept.requires_grad
    model.deeper = SimpleNamespace(maps=2 * kept)
    with pytest.raises(ValueError, match=r"model: wanted modules that can be copied.* under torch\.no_grad"):
        sma.attention_from_torch(model, tokens)


def test_a_list_of_reads_is_taken_as_an_iterator_is():
    encoder = Words("").encoder
    batches = [torch.tensor(RANDOM.normal(size=(3, tokens, WIDTH))).float() for tokens in (5, 7)]
    reads = [sma.attention_from_torch(encoder, batch) for batch in batches]
    for make in (
        lambda given: seen(given),
        lambda given: sma.token_inputs(given, layers=[sma.Heads(HEADS)] * 2).tokens,
    ):
        np.testing.assert_array_equal(make(reads), make(iter(reads)))
    for given, got in ((iter([]), "none"), (iter([batches[0].numpy()]), "ndarray"), ([*reads, 3], "int")):
        with pytest.raises(ValueError, match=f"inputs: wanted batches that attention_from_torch.* got {got}"):
            sma.token_inputs(given)
