"""Networks that try to pass the tests of reading, with one thing more than attention each."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import silu

WIDTH, HEADS = 8, 2


def _split(tokens):
    return tokens.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)


class Attention(nn.Module):
    """Attention as models of transformers have it; `extra` names what is special, inside it."""

    def __init__(self, extra: str, project: bool):
        super().__init__()
        self.query, self.key, self.value, self.out, self.gate, self.other = (nn.Linear(WIDTH, WIDTH) for _ in range(6))
        self.norm, self.extra, self.project = nn.LayerNorm(WIDTH), extra, project
        if extra == "gate of one half":
            nn.init.zeros_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)
        if extra == "experts that agree":
            self.other.load_state_dict(self.out.state_dict())

    def forward(self, query, key=None, tokens=None, gate=None, added=0):
        key, tokens = (query if one is None else one for one in (key, tokens))
        values = self.value(tokens) + added
        if self.extra == "gate by direction":
            values = values * (1 + self.gate(tokens / tokens.norm(dim=-1, keepdim=True)).square())
        if self.extra == "convolution of values":
            values = values + values.roll(1, dims=1)
        weights = (_split(self.query(query)) @ _split(self.key(key)).mT / 2).softmax(-1)
        seen = (weights @ _split(values)).transpose(1, 2).flatten(2)
        seen = self._changed(seen, tokens)
        seen = seen if gate is None else seen * gate.sigmoid()
        found = self.out(seen) if self.project else seen
        if self.extra == "experts that agree":
            found = torch.where(self.gate(tokens)[..., :1] > 0, found, self.other(seen))
        return found, weights

    def _changed(self, seen, tokens):
        """What is inside, between values and output."""
        if self.extra.startswith("gate of"):
            return seen * self.gate(tokens).sigmoid()
        if self.extra == "gate behind a norm":
            return seen * self.gate(self.norm(tokens)).sigmoid()
        if self.extra == "weak gate":
            return seen * (1 + 1e-3 * self.gate(tokens).sigmoid())
        return self.norm(seen) if self.extra == "norm" else seen


class Model(nn.Module):
    """Two layers as a model of transformers returns them; `extra` names what is special, between or inside them."""

    config = SimpleNamespace()

    def __init__(self, extra: str = ""):
        super().__init__()
        self.extra, beside = extra, extra.startswith("beside")
        self.layers = nn.ModuleList([Attention(extra, not beside) for _ in range(2)])
        self.out, self.gate, self.first = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm, self.groups, self.matrix = (
            nn.LayerNorm(WIDTH),
            nn.GroupNorm(2, WIDTH),
            nn.Parameter(torch.randn(8, 8)),
        )
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 1 if "kernel of one" in extra else 3, padding="same")
        if extra == "gate as an argument":
            nn.init.zeros_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)

    def forward(self, hidden, **_):
        states, matrices, first = [hidden], [], 0.5 * self.first(hidden)
        for layer in self.layers:
            given = {"gate as an argument": {"gate": self.gate(hidden)}, "values of the first layer": {"added": first}}
            places = torch.arange(hidden.shape[1])[:, None].to(hidden) / 7 + 0 * hidden
            three = {"three": (hidden,) * 3, "positions": (hidden + places, hidden + places, hidden)}
            found, weights = layer(*three.get(self.extra, (hidden,)), **given.get(self.extra, {}))
            hidden = self.norm(self._between(hidden, self._outside(found, hidden)))
            matrices.append(weights)
            states.append(hidden)
        return SimpleNamespace(attentions=tuple(matrices), hidden_states=tuple(states))

    def _outside(self, found, hidden):
        """The output's matrix, where heads leave the attention beside each other."""
        gate = self.gate(hidden)
        return {
            "beside": lambda: self.out(found),
            "beside, a bare matrix": lambda: torch.einsum("etf,gf->etg", found, self.matrix),
            "beside without a matrix": lambda: found,
            "beside, a gate": lambda: self.out(found * gate.sigmoid()),
            "beside, a bare gate": lambda: (found * (hidden @ self.matrix).sigmoid()) @ self.matrix,
            "beside, norms of groups": lambda: self.out(self.groups(found.flatten(0, 1)).view_as(found)),
            "beside, a norm and a gate": lambda: self.out(self.norm(found) * silu(gate)),
        }.get(self.extra, lambda: found)()

    def _between(self, hidden, found):
        after = hidden + found
        source = hidden if self.extra == "inner tokens of what goes past" else after
        if self.extra.startswith("inner"):
            inner = source[:, 2:-2] if "kernel" in self.extra else source[:, 1:-1]
            inner, ends = self.convolution(inner.mT).mT, (after.shape[1] - inner.shape[1]) // 2
            return torch.cat([after[:, :ends], after[:, ends:-ends] + inner, after[:, -ends:]], dim=1)
        return (
            after
            + {
                "detached": lambda: self.convolution(after.mT).mT.detach(),
                "rounded": lambda: self.convolution(after.mT).mT.round(),
                "sorted": lambda: 0.1 * after.argsort(dim=1).to(after),
                "mean of examples": lambda: 0.1 * after.mean(dim=0),
            }.get(self.extra, lambda: 0)()
        )
