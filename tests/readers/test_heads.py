"""A model with some heads alone, against one whose other heads are set to zero by hand, and what heads are worth."""

import copy

import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.reading import only_heads, own_slopes

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*nested")

WIDTH, HEADS, TOKENS = 16, 4, 7
SIZE = WIDTH // HEADS
RANDOM = np.random.default_rng(0)
IDS = torch.tensor(RANDOM.integers(5, 60, size=(12, TOKENS)))
MASK = (torch.arange(TOKENS) < torch.tensor(RANDOM.integers(3, TOKENS + 1, size=(12, 1)))).long()
KEPT = ((1, 3), (0,))
TEXT = {"vocab_size": 64, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS}
TEXT |= {"intermediate_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.3}
IMAGE = {name: size for name, size in TEXT.items() if name not in ("vocab_size", "pad_token_id")}
MODELS = {  # sizes, output matrix of a layer, whether its columns are what it takes
    "Bert": (TEXT, "encoder.layer.{}.attention.output.dense", True),
    "GPT2": (TEXT | {"n_embd": WIDTH, "n_layer": 2, "n_head": HEADS}, "h.{}.attn.c_proj", False),
    "Llama": (TEXT | {"num_key_value_heads": 2, "head_dim": SIZE}, "layers.{}.self_attn.o_proj", True),
    "ViT": (IMAGE | {"image_size": 16, "patch_size": 4}, "layers.{}.attention.o_proj", True),
}


def made(name, attention="eager"):
    transformers = pytest.importorskip("transformers", reason="needs Hugging Face's transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**MODELS[name][0])
    model = getattr(transformers, f"{name}Model")._from_config(config, attn_implementation=attention).eval()
    if name == "ViT":
        return model, {"pixel_values": torch.randn(3, 3, 16, 16)}
    return model, {"input_ids": IDS, "attention_mask": MASK}


def by_hand(matrix, columns, kept):
    """Zeros for the other heads in what a matrix takes."""
    for head in set(range(HEADS)) - set(kept):
        part = slice(head * SIZE, (head + 1) * SIZE)
        with torch.no_grad():
            matrix.weight[(slice(None), part) if columns else part] = 0


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(name, attention):
    model, batch = made(name, attention)
    _, path, columns = MODELS[name]
    smaller = copy.deepcopy(model)
    for layer, kept in enumerate(KEPT):
        by_hand(smaller.get_submodule(path.format(layer)), columns, kept)
    with torch.no_grad():
        whole, wanted = model(**batch).last_hidden_state, smaller(**batch).last_hidden_state
        with only_heads(model, KEPT, **batch):
            torch.testing.assert_close(model(**batch).last_hidden_state, wanted, rtol=1e-5, atol=1e-6)
        assert (wanted - whole).abs().max() > 1e-2
        torch.testing.assert_close(model(**batch).last_hidden_state, whole, rtol=0, atol=0)
        if "input_ids" in batch:  # neither heads by layer nor a batch are needed
            handle = only_heads(model, [4, 3, 1])
            torch.testing.assert_close(model(**batch).last_hidden_state, wanted, rtol=1e-5, atol=1e-6)
            handle.close()
        with only_heads(model, np.array([[0, 1], [1, 0], [0, 3]]), **batch):
            torch.testing.assert_close(model(**batch).last_hidden_state, wanted, rtol=1e-5, atol=1e-6)
        with only_heads(model, [3, 1], layers=[0], **batch), only_heads(model, [0], layers=[1], **batch):
            torch.testing.assert_close(model(**batch).last_hidden_state, wanted, rtol=1e-5, atol=1e-6)
    assert model.config._attn_implementation == attention
    assert not any(module._forward_pre_hooks for module in model.modules())


class Added(torch.nn.Module):
    """A matrix with another of low rank beside it, as LoRA wraps it."""

    def __init__(self, base):
        super().__init__()
        self.base, self.dropout = base, torch.nn.Dropout(0.1)
        self.down, self.up = torch.nn.Linear(WIDTH, 3, bias=False), torch.nn.Linear(3, WIDTH, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(self.dropout(x)))

    def merged(self):
        with torch.no_grad():
            self.base.weight += self.up.weight @ self.down.weight
        return self.base


def test_what_is_added_to_an_output_matrix_is_silenced_with_it():
    """Against the model in which both are one matrix; and a matrix that is made of a length and a direction."""
    model, batch = made("Bert")
    outputs = [layer.attention.output for layer in model.encoder.layer]
    for output in outputs:
        output.dense = Added(output.dense)
    model.eval()
    options = {"labels": LABELS, "temperature": 0.3}
    with torch.no_grad(), only_heads(model, KEPT):
        found = model(**batch).last_hidden_state
    slopes = own_slopes(model, batch, **options).slopes
    for output in outputs:
        output.dense = output.dense.merged()
    for again in (lambda one: one, torch.nn.utils.parametrizations.weight_norm):
        for output in outputs:
            output.dense = again(output.dense)
        with torch.no_grad(), only_heads(model.eval(), KEPT):
            torch.testing.assert_close(model(**batch).last_hidden_state, found, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(own_slopes(model, batch, **options).slopes, slopes, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_gradients_are_found_where_none_are_kept(without):
    model, batch = made("Bert")
    network, tokens = torch.nn.TransformerEncoder(layer(batch_first=True, dropout=0.0), 2).eval(), torch.randn(2, 7, 16)
    wanted = own_slopes(model, batch, LABELS, temperature=0.3).slopes
    with without():
        made_here = {name: value.clone() for name, value in batch.items()}
        read = sma.attention_from_transformers(model, gates=True, **made_here)
        assert len(sma.attention_from_torch(network, tokens.clone()).attention) == len(read.gates) == 2
        found = own_slopes(model, made_here, LABELS, temperature=0.3).slopes
        other = copy.deepcopy(model) if without is torch.inference_mode else None
        assert not torch.is_grad_enabled()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    if other is not None:
        with pytest.raises(ValueError, match=r"model: wanted weights that gradients pass.* Take copy\.deepcopy"):
            only_heads(other, KEPT)
        only_heads(copy.deepcopy(other), KEPT).close()


@pytest.mark.parametrize(("kind", "rounding"), [("bfloat16", 0.06), ("float16", 0.01)])
def test_a_model_in_half_precision(kind, rounding):
    model, batch = made("Bert")
    with torch.no_grad(), only_heads(model, KEPT):
        wanted = model(**batch).last_hidden_state
    model = model.to(getattr(torch, kind))
    with torch.no_grad(), only_heads(model, KEPT):
        found = model(**batch).last_hidden_state.float()
    assert (found - wanted).abs().max() < rounding * wanted.abs().max()


def layer(**options):
    torch.manual_seed(1)
    return torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, **options)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_an_encoder_of_pytorch(batch_first, train):
    model = torch.nn.TransformerEncoder(layer(batch_first=batch_first, dropout=0.0), 2).train(train)
    tokens, padding = torch.randn(12, TOKENS, WIDTH), MASK == 0
    tokens = tokens if batch_first else tokens.transpose(0, 1)
    smaller = copy.deepcopy(model)
    for one, kept in zip(smaller.layers, KEPT, strict=True):
        by_hand(one.self_attn.out_proj, True, kept)
    real = MASK.bool() if batch_first else MASK.bool().T
    with torch.set_grad_enabled(train):
        wanted = smaller(tokens, src_key_padding_mask=padding)[..., :, :][real[:, : tokens.shape[1]]]
        with only_heads(model, KEPT):
            found = model(tokens, src_key_padding_mask=padding)[real]
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    if train:  # weights learn with heads silent, and the silent ones do not
        found.square().sum().backward()
        steep = model.layers[0].self_attn.out_proj.weight.grad.unflatten(1, (HEADS, SIZE)).abs().amax(dim=(0, 2))
        assert ((steep > 0) == torch.tensor([False, True, False, True])).all()
    assert torch.backends.mha.get_fastpath_enabled()
    assert set(model.state_dict()) == set(smaller.state_dict())


class Twice(torch.nn.Module):
    """Attentions made in another order than used, one of them twice."""

    def __init__(self):
        super().__init__()
        self.last, self.first = (torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))

    def forward(self, tokens):
        for attention in (self.first, self.last, self.first):
            tokens = tokens + attention(tokens, tokens, tokens)[0]
        return tokens


def test_an_attention_used_twice_has_heads_of_its_own_each_time():
    torch.manual_seed(2)
    model, tokens = Twice(), torch.randn(5, TOKENS, WIDTH)
    kept, wanted = ((1, 3), (0,), (2,)), tokens
    for attention, some in zip((model.first, model.last, model.first), kept, strict=True):
        one = copy.deepcopy(attention)
        by_hand(one.out_proj, True, some)
        wanted = wanted + one(wanted, wanted, wanted)[0]
    with only_heads(model, kept, tokens):
        for _ in range(2):
            torch.testing.assert_close(model(tokens), wanted, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_silenced_is_refused():
    model = Twice()
    for kept, message in (
        ([12], r"kept: wanted different heads, counted through the layers, out of 0\.\.11"),
        ([[0], [4], []], r"kept: wanted different heads of a layer out of 0\.\.3"),
        ([[0], [1]], "kept: wanted the same number in kept and the layers, got 2 and 3"),
        (3, "kept: wanted numbers of heads"),
        (np.array([[0, 1], [3, 0]]), r"kept: wanted different layers out of 0\.\.2"),
    ):
        with pytest.raises(ValueError, match=message):
            only_heads(model, kept, torch.randn(2, TOKENS, WIDTH))
    with pytest.raises(ValueError, match="model: wanted attention of torch.nn.MultiheadAttention, got none in Linear"):
        only_heads(torch.nn.Linear(2, 2), [0])
    with pytest.raises(ValueError, match="model: wanted a network of PyTorch or transformers, got str"):
        only_heads("bert", [0])
    with pytest.raises(ValueError, match="batch: wanted a few inputs of the model"):
        only_heads(made("ViT")[0], [0])


FIVE = {
    -2: 1 / 12,
    -1: -2 / 3,
    1: 2 / 3,
    2: -1 / 12,
}  # the slope by five points; parts of Llama are in single precision
LABELS = np.resize([1.0, -1.0, -1.0], len(IDS))


@pytest.mark.parametrize("name", ["Bert", "GPT2", "Llama"])
def test_own_slopes_are_those_of_small_changes_of_the_heads_and_predict_removals(name):
    model, batch = made(name)
    batches = [{name: value[rows] for name, value in batch.items()} for rows in (slice(0, 5), slice(5, 12))]
    options = {"readout": "last" if name != "Bert" else "mean", "temperature": 0.3}
    found = own_slopes(model, batches, LABELS, removal=True, **options)
    np.testing.assert_allclose(own_slopes(model, batch, LABELS, **options).slopes, found.slopes, rtol=1e-4, atol=1e-5)
    _, path, columns = MODELS[name]

    def nats(factor, layer, head):
        """Log evidence with the head's part of the output matrix multiplied, everything in double precision."""
        other = copy.deepcopy(model).double()
        matrix, part = other.get_submodule(path.format(layer)), slice(head * SIZE, (head + 1) * SIZE)
        with torch.no_grad():
            matrix.weight[(slice(None), part) if columns else part] *= factor
            hidden = other(**batch).last_hidden_state.numpy()
        mask = MASK.numpy()
        ends = np.arange(TOKENS) == mask.sum(axis=1)[:, None] - 1
        weights = mask / mask.sum(axis=1, keepdims=True) if name == "Bert" else ends
        rows = np.einsum("et,etf->ef", weights, hidden)
        covariance = rows @ rows.T / WIDTH + 0.3 * np.eye(len(rows))
        return -0.5 * (LABELS @ np.linalg.solve(covariance, LABELS) + np.linalg.slogdet(covariance)[1])

    for number, (layer, head) in enumerate(found.heads):
        slope = sum(weight * nats(1 + 0.02 * step, layer, head) for step, weight in FIVE.items()) / 0.02
        np.testing.assert_allclose(found.slopes[number], slope, rtol=2e-3, atol=2e-4)
        loss = nats(1, layer, head) - nats(0, layer, head)
        np.testing.assert_allclose(found.losses[number], loss, rtol=2e-3, atol=2e-4)
    assert found.heads.tolist() == [[layer, head] for layer in range(2) for head in range(HEADS)]


def test_own_slopes_of_a_network_of_pytorch_choose_the_temperature():
    torch.manual_seed(3)
    model = torch.nn.TransformerEncoder(layer(batch_first=True, dropout=0.0), 2).eval()
    tokens = torch.randn(12, TOKENS, WIDTH)
    found = own_slopes(model, [tokens[:4], tokens[4:]], LABELS, removal=True)
    again = own_slopes(model, tokens, LABELS, embed=lambda result, _: found.scale**0.5 * result.mean(dim=1),
                       temperature=found.temperature)  # fmt: skip
    np.testing.assert_allclose(again.slopes, found.slopes, rtol=1e-4, atol=1e-6)
    assert np.sign(found.slopes[np.abs(found.losses).argmax()]) == np.sign(found.losses[np.abs(found.losses).argmax()])
    for given, labels, message in (
        ([], LABELS, "batches: wanted arguments of the model"),
        ("texts", LABELS, "batches: wanted arguments of the model"),
        ([(tokens, tokens)], LABELS, "batches: wanted arguments by name, or a tensor of inputs, got a tuple"),
        (tokens, LABELS[:5], "labels: wanted the same number"),
    ):
        with pytest.raises(ValueError, match=message):
            own_slopes(model, given, labels)
    with pytest.raises(ValueError, match=r"model: wanted all of it in evaluation.* Call model\.eval"):
        own_slopes(model.train(), tokens, LABELS)
