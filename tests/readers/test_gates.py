"""Gates read off networks: with their own weights the frozen class gives their output; other blocks are refused."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import statmech_attention as sma
from statmech_attention.layers import Narrow

torch = pytest.importorskip("torch")
WIDTH, HEADS, UNITS, LAYERS = 12, 3, 10, 2
SHAPE = (3, 5, WIDTH)


def disturbed(model, seed=0):
    """All weights, biases and gains at random, in double precision."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=random, dtype=torch.float64)
    return model.eval()


def known(parameter):
    return np.asarray(parameter.detach())


def frozen(model, read, norm_first):
    """The output of layers `SkipHeads` and `Gated` with the network's weights, biases and gains, and frozen norms."""
    hidden = read.inputs
    for layer, attention, gates in zip(model.layers, read.attention, read.gates, strict=True):
        heads, size = sma.SkipHeads(HEADS, values=WIDTH // HEADS), WIDTH // HEADS
        own = layer.self_attn
        values, bias = known(own.in_proj_weight)[2 * WIDTH :], known(own.in_proj_bias)[2 * WIDTH :]
        out = known(own.out_proj.weight)
        narrow = Narrow(values.reshape(HEADS, size, WIDTH), out.reshape(WIDTH, HEADS, size).swapaxes(0, 1))
        first = (heads, narrow, attention, out @ bias + known(own.out_proj.bias), layer.norm1)
        narrow = Narrow(known(layer.linear1.weight)[:, None], known(layer.linear2.weight).T[:, :, None])
        inner = np.einsum("im,etm,m->eti", known(layer.linear2.weight), gates, known(layer.linear1.bias))
        second = (sma.Gated(UNITS), narrow, gates, inner + known(layer.linear2.bias), layer.norm2)
        for kind, weights, other, constant, norm in (first, second):
            scale = np.sqrt(WIDTH * len(weights.values) * weights.values.shape[1])
            weights = Narrow(jnp.asarray(scale * weights.values), jnp.asarray(weights.outputs))

            def through(tokens, kind=kind, weights=weights, other=other):
                return np.asarray(kind.forward(weights, jnp.asarray(tokens), jnp.asarray(other)))

            if norm_first:
                tokens = normed(hidden, norm)
                hidden = hidden + through(tokens) - tokens + constant
            else:
                hidden = normed(through(hidden) + constant, norm)
    return hidden


def normed(tokens, norm):
    """A layer norm, whose statistics are those of the tokens themselves."""
    tokens = tokens - tokens.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(tokens**2, axis=-1) + norm.eps)
    return known(norm.weight) * scale[..., None] * tokens + known(norm.bias)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_a_transformer_is_a_member_of_the_class(activation, norm_first):
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, UNITS, activation=activation, norm_first=norm_first, batch_first=True
    )
    model = disturbed(torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False))
    inputs = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    read = sma.attention_from_torch(model, inputs, gates=True)
    assert not inputs.requires_grad
    assert_allclose(frozen(model, read, norm_first), known(model(inputs)), rtol=0, atol=1e-13)
    halved = read._replace(gates=tuple(gates / 2 for gates in read.gates))
    assert np.abs(frozen(model, halved, norm_first) - known(model(inputs))).max() > 0.1
    layers = [sma.SkipHeads(HEADS), sma.Gated(UNITS)] * LAYERS
    rows = sma.token_inputs(read, layers=layers, readout="mean")
    by_hand = sma.token_inputs(read.inputs, read.attention, gates=read.gates, layers=layers, readout="mean")
    assert_allclose(sma.kernel(rows, rows), sma.kernel(by_hand, by_hand), rtol=1e-12)


class Block(torch.nn.Module):
    """A layer of attention and a block of one kind, with norms before them."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm = torch.nn.LayerNorm(WIDTH)
        both = 2 * UNITS if kind == "fused" else UNITS
        self.up, self.beside = torch.nn.Linear(WIDTH, both), torch.nn.Linear(WIDTH, UNITS, bias=False)
        self.down = torch.nn.Linear(UNITS, WIDTH)

    def forward(self, tokens):
        entered, tokens = tokens, tokens + self.attention(tokens, tokens, tokens)[0]
        normed = self.norm(entered if self.kind == "parallel" else tokens)
        units = self.up(normed)
        match self.kind:
            case "swiglu":
                units = torch.nn.functional.silu(self.beside(normed)) * units
            case "fused":
                units = torch.nn.functional.gelu(units[..., :UNITS]) * units[..., UNITS:]
            case "softmax":
                units = torch.softmax(units, dim=-1) * units
            case "silu" | "parallel" | "no skip":
                units = torch.nn.functional.silu(units)
        return self.down(units) + (0.0 if self.kind == "no skip" else tokens)


def network(kind):
    return disturbed(torch.nn.Sequential(Block(kind), Block(kind)))


def test_gated_linear_units_have_the_gate_of_their_other_branch():
    inputs = torch.randn(SHAPE, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for kind in ("swiglu", "fused", "silu"):
        model, heard = network(kind), []
        model[0].down.register_forward_pre_hook(lambda module, given: heard.append(known(given[0])))  # noqa: B023
        model[0].norm.register_forward_hook(lambda module, given, result: heard.append(result.detach()))  # noqa: B023
        read = sma.attention_from_torch(model, inputs, gates=True)
        heard.clear()
        model(inputs)
        normed, units = heard
        field = known(model[0].up(normed))[..., -UNITS:]
        assert_allclose(read.gates[0] * field, units, atol=1e-12)
        if kind == "swiglu":
            wanted = torch.nn.functional.silu(model[0].beside(normed))
            assert_allclose(read.gates[0], known(wanted), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "match"),
    [("softmax", "got 0 in which a matrix"), ("parallel", "of the output's derivative"), ("no skip", "derivative")],
)
def test_other_blocks_are_refused(kind, match):
    inputs = torch.randn(SHAPE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    with pytest.raises(ValueError, match=match):
        sma.attention_from_torch(network(kind), inputs, gates=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_models_of_transformers_give_their_gates():
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 20, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
    config = transformers.LlamaConfig(**sizes, intermediate_size=UNITS, attn_implementation="eager", pad_token_id=0)
    model, heard = transformers.LlamaModel(config).eval(), []
    ids = torch.arange(1, 16).reshape(3, 5)
    read = sma.attention_from_transformers(model, gates=True, layers=[1], input_ids=ids)
    model.layers[1].mlp.gate_proj.register_forward_hook(lambda module, given, result: heard.append(result))
    model(input_ids=ids)
    assert_allclose(read.gates[0], known(torch.nn.functional.silu(heard[0])), atol=1e-6)
    parallel = transformers.GPTJConfig(
        vocab_size=20, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, rotary_dim=2, attn_implementation="eager"
    )
    with pytest.raises(ValueError, match="derivative unexplained in block 0"):
        sma.attention_from_transformers(transformers.GPTJModel(parallel).eval(), gates=True, input_ids=ids)
