"""Own networks that try to pass the tests of reading, one thing at a time."""

import numpy as np
import pytest

import statmech_attention as sma

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
networks = pytest.importorskip("readers.own_networks")

INPUTS = torch.tensor(np.random.default_rng(0).normal(size=(2, 7, 8)), dtype=torch.float32)
FITS = [
    "",
    "three",
    "positions",
    "beside",
    "beside, a bare matrix",
    "beside without a matrix",
    "inner tokens, a kernel of one",
]
INSIDE = [
    "gate of tokens",
    "gate of one half",
    "gate behind a norm",
    "gate by direction",
    "gate as an argument",
    "weak gate",
    "norm",
    "convolution of values",
    "values of the first layer",
    "experts that agree",
    "beside, a gate",
    "beside, a bare gate",
    "beside, norms of groups",
    "beside, a norm and a gate",
]
BETWEEN = ["inner tokens", "inner tokens of what goes past", "detached", "rounded", "sorted", "mean of examples"]


def model(extra):
    torch.manual_seed(0)
    return networks.Model(extra).eval()


@pytest.mark.parametrize("extra", FITS)
def test_networks_that_fit_are_read_and_leave_nothing(extra):
    for one in sma.reading.read_residuals(model(extra), hidden=INPUTS):
        assert max(one.values, one.heads, one.tokens) < 1e-12
    read = sma.attention_from_transformers(model(extra), hidden=INPUTS)
    np.testing.assert_allclose(np.sum(read.attention[1], axis=2), 1, atol=1e-6)
    assert read.mask is None


@pytest.mark.parametrize("extra", INSIDE + BETWEEN)
def test_networks_made_to_pass_are_refused_unless_one_asks_for_them(extra):
    message = "of the output of attention . unexplained" if extra in INSIDE else "% of what comes from .* other tokens"
    with pytest.raises(ValueError, match=f"{message}.*or take it as it is with test=False"):
        sma.attention_from_transformers(model(extra), hidden=INPUTS)
    read = sma.attention_from_transformers(model(extra), hidden=INPUTS, test=False)
    np.testing.assert_allclose(np.sum(read.attention[1], axis=2), 1, atol=1e-6)


def test_only_wanted_layers_are_tested():
    mixed = model("")
    mixed.layers[1] = model("norm").layers[1]
    assert len(sma.attention_from_transformers(mixed, hidden=INPUTS, layers=[0]).attention) == 1
    with pytest.raises(ValueError, match="of the output of attention 1 unexplained"):
        sma.attention_from_transformers(mixed, hidden=INPUTS, layers=[1])
    assert len(sma.attention_from_transformers(model("inner tokens"), hidden=INPUTS, layers=[0]).attention) == 1


class Gated(torch.nn.MultiheadAttention):
    """With a gate that happens to be one half."""

    def __init__(self):
        super().__init__(8, 2, batch_first=True)
        self.gate = torch.nn.Parameter(torch.zeros(8, 8))

    def forward(self, query, key, value, **options):
        found, weights = super().forward(query, key, value, **options)
        return found * (query @ self.gate).sigmoid(), weights


class Convolved(torch.nn.TransformerEncoderLayer):
    """With a convolution before the attention, or cut off from the graph behind it."""

    def __init__(self, before):
        super().__init__(8, 2, 16, batch_first=True)
        self.before, self.convolution = before, torch.nn.Conv1d(8, 8, 3, padding=1)

    def _sa_block(self, x, *given, **options):
        return super()._sa_block(x + self.convolution(x.mT).mT if self.before else x, *given, **options)

    def _ff_block(self, x):
        return super()._ff_block(x) + (0 if self.before else self.convolution(x.mT).mT.detach())


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Gated, "of the output of attention 0 unexplained"),
        (lambda: Convolved(before=True), "is carried to other tokens, at attention 0"),
        (lambda: torch.nn.TransformerEncoder(Convolved(before=False), 2), "is carried to other tokens, at attention 1"),
    ],
)
def test_what_is_derived_from_parts_of_pytorch_is_tested_too(network, message):
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=message):
        sma.attention_from_torch(network(), INPUTS)
    assert len(sma.attention_from_torch(network(), INPUTS, test=False).attention) > 0


def test_padding_without_a_mask_of_it_is_what_no_layer_looks_at():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.both = torch.nn.ModuleList(torch.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

        def forward(self, x, first, second):
            for attend, mask in zip(self.both, (first, second), strict=True):
                x = x + attend(x, x, x, attn_mask=mask)[0]
            return x

    torch.manual_seed(0)
    hidden, none = torch.zeros(7, 7), torch.zeros(7, 7)
    hidden[:, 5:] = -1000.0
    network = Network()
    both = sma.attention_from_torch(network, INPUTS, first=hidden, second=hidden)
    np.testing.assert_array_equal(both.mask.sum(axis=1), 5)
    one = sma.attention_from_torch(network, INPUTS, first=hidden, second=none, layers=[0])
    assert one.mask is None


@pytest.mark.parametrize("large", [-1000.0, -10000.0, -1e9])
def test_masks_of_numbers_mean_what_the_softmax_makes_of_them(large):
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    padding = torch.zeros(2, 7)
    padding[0, 4:] = large
    read = sma.attention_from_torch(model, INPUTS, key_padding_mask=padding)
    np.testing.assert_array_equal(read.mask, (padding == 0).numpy())
    weak = sma.attention_from_torch(model, INPUTS, key_padding_mask=padding / large * -5.0)
    assert weak.mask.all()


def test_values_without_positions_and_a_pooling_head_that_is_not_wanted():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.pool = (torch.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
            self.positions, self.query = torch.randn(7, 8), torch.randn(1, 8)

        def forward(self, x):
            x = x + self.first(x + self.positions, x + self.positions, x)[0]
            return self.pool(self.query.expand(len(x), 1, 8), x, x)[0]

    torch.manual_seed(0)
    model = Network()
    read = sma.attention_from_torch(model, INPUTS, layers=[0])
    np.testing.assert_array_equal(read.inputs, INPUTS.double())
    with pytest.raises(ValueError, match="queries and keys of different sequences"):
        sma.attention_from_torch(model, INPUTS)
