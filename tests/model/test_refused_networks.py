"""Own networks that try to pass the tests of reading, one thing at a time."""

from types import SimpleNamespace

import numpy as np
import pytest

import statmech_attention as sma

RNG = np.random.default_rng(0)

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")
INPUTS = torch.tensor(RNG.normal(size=(2, 7, 8)), dtype=torch.float32)


class Attention(torch.nn.Module):
    """Attention as models of transformers have it, with one thing more, by its name."""

    def __init__(self, extra):
        super().__init__()
        self.extra, self.parts = (
            extra,
            torch.nn.ModuleDict(
                {name: torch.nn.Linear(8, 8) for name in ("query", "key", "value", "output", "other", "gate")}
            ),
        )
        self.router, self.norm = torch.nn.Linear(8, 2, bias=False), torch.nn.LayerNorm(8)
        with torch.no_grad():
            if extra == "gate of one half":
                self.parts["gate"].weight.zero_()
                self.parts["gate"].bias.zero_()
            if extra == "experts that agree":
                self.parts["other"].load_state_dict(self.parts["output"].state_dict())

    def forward(self, hidden):
        split = [self.parts[one](hidden).unflatten(-1, (2, 4)).transpose(1, 2) for one in ("query", "key", "value")]
        weights = (split[0] @ split[1].mT / 2).softmax(-1)
        seen = (weights @ split[2]).transpose(1, 2).flatten(2)
        if self.extra.startswith("gate"):
            seen = seen * self.parts["gate"](hidden).sigmoid()
        if self.extra == "norm":
            seen = self.norm(seen)
        found = self.parts["output"](seen)
        if self.extra == "experts that agree":
            found = torch.where(self.router(hidden).diff() > 0, found, self.parts["other"](seen))
        return found, weights


class Model(torch.nn.Module):
    """Two layers, each with a convolution at inner tokens, if `extra` asks for it, behind or beside it."""

    config = SimpleNamespace()

    def __init__(self, extra=""):
        super().__init__()
        self.layers = torch.nn.ModuleList([Attention(extra), Attention(extra)])
        self.extra, self.convolution = (
            extra,
            torch.nn.Conv1d(8, 8, 3 if extra.endswith("inside") else 1, padding="same"),
        )

    def forward(self, hidden, **_):
        states, matrices = [hidden], []
        for layer in self.layers:
            found, weights = layer(hidden)
            after = hidden + found
            source = hidden if self.extra == "beside inside" else after
            inner = self.convolution(source[:, 2:-2].mT).mT
            hidden = torch.cat([after[:, :2], after[:, 2:-2] + inner, after[:, -2:]], dim=1)
            matrices.append(weights)
            states.append(hidden)
        return SimpleNamespace(attentions=tuple(matrices), hidden_states=tuple(states))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("gate", "of the output of attention . unexplained"),
        ("gate of one half", "of the output of attention . unexplained"),
        ("norm", "of the output of attention . unexplained"),
        ("experts that agree", "of the output of attention . unexplained"),
        ("inside", "% of what comes from .* carried to other tokens"),
        ("beside inside", "% of what comes from .* carried to other tokens"),
    ],
)
def test_networks_made_to_pass_are_refused_unless_one_asks_for_them(extra, message):
    torch.manual_seed(0)
    model = Model(extra).eval()
    with pytest.raises(ValueError, match=f"{message}.*or take it as it is with test=False"):
        sma.attention_from_transformers(model, hidden=INPUTS)
    read = sma.attention_from_transformers(model, hidden=INPUTS, test=False)
    np.testing.assert_allclose(np.sum(read.attention[1], axis=2), 1, atol=1e-6)


def test_a_kernel_of_one_token_passes_and_only_wanted_layers_are_tested():
    torch.manual_seed(0)
    model = Model().eval()
    assert len(sma.attention_from_transformers(model, hidden=INPUTS).attention) == 2
    for one in sma.model.read_residuals(model, hidden=INPUTS):
        assert max(one.values, one.heads, one.tokens) < 1e-10
    model.layers[1] = Attention("norm").eval()
    assert len(sma.attention_from_transformers(model, hidden=INPUTS, layers=[0]).attention) == 1
    with pytest.raises(ValueError, match="of the output of attention 1 unexplained"):
        sma.attention_from_transformers(model, hidden=INPUTS, layers=[1])


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
