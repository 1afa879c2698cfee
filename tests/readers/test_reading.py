"""Attention read off networks of PyTorch and Hugging Face, against loops over their own weights."""

import math

import numpy as np
import pytest

import statmech_attention as sma

EXAMPLES, TOKENS, WIDTH, HEADS = 3, 5, 8, 2
INPUTS = np.random.default_rng(0).normal(size=(EXAMPLES, TOKENS, WIDTH)).astype("float32")
MASK = np.arange(TOKENS)[None] < np.array([5, 3, 4])[:, None]

# Only where somebody has them: the library needs neither.
torch = pytest.importorskip("torch", reason="needs PyTorch, as `make images` installs it")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*nested")


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def by_hand(attention, tokens, mask=None, causal=False):
    """(examples, heads, keys, queries) from the weights of a MultiheadAttention, a head at a time."""
    weight, bias = (one.detach().double().numpy() for one in (attention.in_proj_weight, attention.in_proj_bias))
    queries, keys, _ = np.split(tokens.astype(float) @ weight.T + bias, 3, axis=-1)
    size = tokens.shape[2] // attention.num_heads
    found = np.zeros((len(tokens), attention.num_heads, tokens.shape[1], tokens.shape[1]))
    for example, head in np.ndindex(found.shape[:2]):
        columns = slice(head * size, (head + 1) * size)
        logits = queries[example][:, columns] @ keys[example][:, columns].T / math.sqrt(size)
        if mask is not None:
            logits[:, ~mask[example]] = -np.inf
        if causal:
            logits[np.triu_indices(tokens.shape[1], 1)] = -np.inf
        found[example, head] = softmax(logits).T
    return found


def agree(found, wanted):
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def layer(seed=0, **options):
    torch.manual_seed(seed)
    return torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.5, **options)


def encoder(depth=2, **options):
    nested = options.get("batch_first", False) and not options.get("norm_first", False)
    return torch.nn.TransformerEncoder(layer(**options), depth, enable_nested_tensor=nested)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("mask", [None, MASK])
def test_a_multihead_attention(batch_first, mask):
    torch.manual_seed(1)
    model = torch.nn.MultiheadAttention(WIDTH, HEADS, dropout=0.5, batch_first=batch_first)
    given = INPUTS if batch_first else INPUTS.swapaxes(0, 1)
    options = {} if mask is None else {"key_padding_mask": torch.tensor(~mask)}
    read = sma.attention_from_torch(model, given, **options)
    agree(read.inputs, INPUTS)
    (matrix,) = read.attention
    agree(matrix, by_hand(model, INPUTS, mask))
    assert (read.mask is None) == (mask is None)
    if mask is not None:
        np.testing.assert_array_equal(read.mask, mask)
    assert model.training  # as it was


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_of_them(norm_first, batch_first):
    model = encoder(norm_first=norm_first, batch_first=batch_first).eval()
    given = torch.tensor(INPUTS if batch_first else INPUTS.swapaxes(0, 1))
    fused = model(given, src_key_padding_mask=torch.tensor(~MASK))
    read = sma.attention_from_torch(model, given, src_key_padding_mask=torch.tensor(~MASK))
    hidden = given
    for number, one in enumerate(model.layers):
        entering = one.norm1(hidden) if norm_first else hidden
        entering = entering.detach().numpy() if batch_first else entering.detach().numpy().swapaxes(0, 1)
        agree(read.attention[number], by_hand(one.self_attn, entering, MASK))
        hidden = one(hidden, src_key_padding_mask=torch.tensor(~MASK))
    agree(read.inputs, INPUTS)
    np.testing.assert_array_equal(read.mask, MASK)
    # The model is as it was, and nothing listens any more.
    torch.testing.assert_close(model(given, src_key_padding_mask=torch.tensor(~MASK)), fused)
    assert torch.backends.mha.get_fastpath_enabled()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_network_of_ones_own_with_a_causal_mask():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.encoder = torch.nn.Embedding(7, WIDTH), encoder(batch_first=True)

        def forward(self, ids, *, mask):
            return self.encoder(self.words(ids), mask=mask, is_causal=True)

    model = Network().train()
    ids = np.random.default_rng(1).integers(7, size=(EXAMPLES, TOKENS))
    causal = torch.nn.Transformer.generate_square_subsequent_mask(TOKENS)
    read = sma.attention_from_torch(model, ids, mask=causal, layers=[0])
    tokens = model.words.weight.detach().numpy()[ids]
    agree(read.inputs, tokens)
    (matrix,) = read.attention
    agree(matrix, by_hand(model.encoder.layers[0].self_attn, tokens, causal=True))
    assert read.mask is None and all(module.training for module in model.modules())
    assert len(sma.attention_from_torch(model, ids, mask=causal).attention) == 2


def test_what_was_read_goes_through_the_theory_and_padding_does_not_matter():
    model = encoder(batch_first=True).eval()
    read = sma.attention_from_torch(model, INPUTS, src_key_padding_mask=torch.tensor(~MASK))
    heads = (sma.SkipHeads(HEADS),) * 2
    seen = sma.attentioned_inputs(read.inputs, read.attention, readout="mean", layers=heads, mask=read.mask)
    for example, real in enumerate(MASK):
        alone = sma.attention_from_torch(model, INPUTS[example : example + 1, real])
        wanted = sma.attentioned_inputs(alone.inputs, alone.attention, readout="mean", layers=heads)
        np.testing.assert_allclose(seen.values[example], wanted.values[0], atol=1e-5)
    solution = sma.solve(sma.Problem(seen, np.array([1.0, -1.0, 1.0]), width=10, temperature=0.1))
    assert solution.order_parameter.shape == (9, 9)


class Crossed(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)

    def forward(self, inputs, others=None):
        return self.attention(inputs, inputs if others is None else others, inputs, need_weights=False)[0]


def test_bad_networks_are_refused_and_left_as_they_were():
    model = Crossed()
    with pytest.raises(ValueError, match="got NaN or infinity, as from a mask without any token"):
        sma.attention_from_torch(encoder(batch_first=True), INPUTS, src_key_padding_mask=MASK)  # the opposite
    with pytest.raises(ValueError, match="got queries and keys of different sequences"):
        sma.attention_from_torch(model, INPUTS, others=torch.tensor(2 * INPUTS))
    assert model.training and torch.backends.mha.get_fastpath_enabled() and not model.attention._forward_hooks
    for read, message in (
        (sma.attention_from_torch(Crossed(add_zero_attn=True), INPUTS), r"layer 1: wanted shape .* got \(3, 2, 6, 5\)"),
        (sma.attention_from_torch(model, INPUTS[0]), r"inputs: wanted .* got float64 values of shape \(5, 8\)"),
    ):
        with pytest.raises(ValueError, match=message):
            sma.attentioned_inputs(read)
    with pytest.raises(ValueError, match="model: wanted a network that uses torch.nn.MultiheadAttention, got Linear"):
        sma.attention_from_torch(torch.nn.Linear(WIDTH, 2), INPUTS)
    with pytest.raises(ValueError, match=r"layers: wanted different layers out of 0\.\.0, at least one, got \[1\]"):
        sma.attention_from_torch(model, INPUTS, layers=[1])


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers", reason="needs Hugging Face's transformers")


IDS = np.random.default_rng(2).integers(3, 20, size=(EXAMPLES, TOKENS))


def bert(transformers, **options):
    torch.manual_seed(3)
    sizes = {"vocab_size": 20, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=16, attn_implementation="eager", **options)
    return transformers.BertModel(config).eval()


def test_an_encoder_of_hugging_face(transformers):
    model = bert(transformers)
    batch = {"input_ids": torch.tensor(IDS), "attention_mask": torch.tensor(MASK.astype(int))}
    read = sma.attention_from_transformers(model, **batch)
    np.testing.assert_array_equal(read.mask, MASK)
    with torch.no_grad():
        tokens = model.embeddings(batch["input_ids"]).double().numpy()
    agree(read.inputs, tokens)
    parts = model.encoder.layer[0].attention.self
    queries, keys = (
        tokens @ one.weight.detach().double().numpy().T + one.bias.detach().double().numpy()
        for one in (parts.query, parts.key)
    )
    size = WIDTH // HEADS
    for example, head in np.ndindex(EXAMPLES, HEADS):
        columns, real = slice(head * size, (head + 1) * size), MASK[example]
        logits = queries[example][real, columns] @ keys[example][real, columns].T / math.sqrt(size)
        agree(read.attention[0][example, head][np.ix_(real, real)], softmax(logits).T)
    # Without padding every sequence alone.
    seen = sma.attentioned_inputs(read.inputs, read.attention, readout="last", mask=read.mask).values
    for example, real in enumerate(MASK):
        alone = sma.attention_from_transformers(model, input_ids=torch.tensor(IDS[example : example + 1, real]))
        assert alone.mask is None
        wanted = sma.attentioned_inputs(alone.inputs, alone.attention, readout="last").values[0]
        np.testing.assert_allclose(seen[example], wanted, atol=1e-5)
    (second,) = sma.attention_from_transformers(model, layers=[1], **batch).attention
    np.testing.assert_array_equal(second, read.attention[1])


def test_a_decoder_looks_back_alone(transformers):
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=8, n_embd=WIDTH, n_layer=1, n_head=HEADS, attn_implementation="eager"
    )
    read = sma.attention_from_transformers(transformers.GPT2Model(config).eval(), input_ids=torch.tensor(IDS))
    (matrix,) = read.attention
    assert np.all(matrix[:, :, np.tril_indices(TOKENS, -1)[0], np.tril_indices(TOKENS, -1)[1]] == 0)
    np.testing.assert_allclose(matrix.sum(axis=2), 1, atol=1e-6)
    assert sma.attentioned_inputs(read.inputs, read.attention).values.shape == (EXAMPLES, HEADS, WIDTH)
    with pytest.raises(ValueError, match="wanted a token at which heads differ.* readout='last'"):
        sma.attentioned_inputs(read, readout="first")


def test_bad_models_of_hugging_face_are_refused(transformers):
    ids = torch.tensor(IDS)
    with pytest.raises(ValueError, match=r"model: wanted all of it in evaluation.* Call model\.eval"):
        sma.attention_from_transformers(bert(transformers).train(), input_ids=ids)
    with pytest.raises(ValueError, match=r"input_ids: wanted numbers of one shape.* padding=True"):
        sma.attention_from_transformers(bert(transformers), input_ids=[[5, 6, 7], [8, 9]])
    with pytest.raises(ValueError, match="input_ids: wanted at least one example"):
        sma.attention_from_transformers(bert(transformers), input_ids=ids[:0])
    with pytest.raises(ValueError, match="model: wanted weights in memory, got some on the device 'meta'"):
        sma.attention_from_transformers(bert(transformers).to("meta"), input_ids=ids.to("meta"))


class Applied(torch.nn.Module):
    """Attentions used as a function of them says."""

    def __init__(self, use, count=1):
        super().__init__()
        self.use = use
        self.attentions = torch.nn.ModuleList(
            torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(count)
        )

    def forward(self, inputs):
        return self.use([lambda x, one=one: one(x, x, x)[0] for one in self.attentions], inputs)


@pytest.mark.parametrize(
    ("use", "count", "message"),
    [
        (lambda attend, x: attend[0](x) - attend[0](2 * x), 1, "got an attention that does not act, token"),
        (lambda attend, x: attend[0](x) + attend[1](x), 2, "got an attention that does not act, token"),
        (lambda attend, x: attend[2](attend[0](x) + attend[1](x)), 3, "got an attention that does not act, token"),
        (lambda attend, x: attend[1](attend[0](x).flip(1)), 2, "got an attention that does not act, token"),
        (lambda attend, x: attend[1](attend[0](x).cumsum(1)), 2, "got an attention that does not act, token"),
        (lambda attend, x: attend[0](x)[:, :2] + attend[1](x[:, :2]), 2, "got an attention that does not act, token"),
    ],
)
def test_attentions_that_are_no_chain_are_refused(use, count, message):
    with pytest.raises(ValueError, match=f"wanted a chain of attentions among the same tokens, {message}"):
        sma.attention_from_torch(Applied(use, count), INPUTS)


def test_one_attention_used_twice_in_a_row_is_two_layers():
    read = sma.attention_from_torch(Applied(lambda attend, x: attend[0](x + attend[0](x))), INPUTS)
    assert len(read.attention) == 2 and np.ptp(read.attention[0] - read.attention[1]) > 0.01


def test_a_large_negative_mask_is_padding_as_minus_infinity_is():
    model = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    padding = torch.tensor(~MASK)
    wanted, *found = (
        sma.attention_from_torch(model, INPUTS, key_padding_mask=mask)
        for mask in (padding, padding * -1e9, padding * torch.finfo(torch.float32).min)
    )
    for one in found:
        np.testing.assert_array_equal(one.mask, wanted.mask)
        agree(one.attention[0], wanted.attention[0])


def test_windows_of_keys_are_refused_although_they_are_as_many_as_tokens(transformers):
    sizes = {"vocab_size": 20, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": 1}
    config = transformers.LongformerConfig(**sizes, intermediate_size=16, attention_window=[4])
    with pytest.raises(ValueError, match="got other tokens, or none, behind attention 0"):
        sma.attention_from_transformers(transformers.LongformerModel(config).eval(), input_ids=torch.tensor(IDS))


def test_a_convolution_between_layers_is_refused(transformers):
    sizes = {"vocab_size": 20, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": 2}
    config = transformers.DebertaV2Config(**sizes, intermediate_size=16, conv_kernel_size=3, relative_attention=True)
    with pytest.raises(ValueError, match="of what comes from the first tokens carried to other tokens"):
        sma.attention_from_transformers(transformers.DebertaV2Model(config).eval(), input_ids=torch.tensor(IDS))


def test_lists_and_arrays_go_in_and_batches_give_the_same(transformers):
    model = bert(transformers)
    whole = sma.attention_from_transformers(model, input_ids=IDS.tolist(), attention_mask=MASK.astype(int))
    batch = {"input_ids": torch.tensor(IDS), "attention_mask": torch.tensor(MASK)}
    parts = sma.attention_from_transformers(model, batch_size=2, **batch)
    found, wanted = (sma.attentioned_inputs(one, readout="mean").values for one in (parts, whole))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_cross_attention_is_refused(transformers):
    model = bert(transformers, is_decoder=True, add_cross_attention=True)
    with pytest.raises(ValueError, match="got cross-attention"):
        sma.attention_from_transformers(
            model, input_ids=torch.tensor(IDS), encoder_hidden_states=torch.zeros(EXAMPLES, TOKENS, WIDTH)
        )
