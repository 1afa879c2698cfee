"""The network and its mean field in plain NumPy, from (B1) to (B8): slow, one site at a time."""

import math
from dataclasses import dataclass

import numpy as np


def code(slot, bits):
    """Binary digits of a slot, the most significant first, 0 as -1."""
    return np.array([1.0 if digit == "1" else -1.0 for digit in format(slot, f"0{bits}b")])


@dataclass
class Network:
    """Tables `words[name]` (M, N) and `positions[name]` (M, N_P) for the names q, k, v, o, and the parameters."""

    words: dict
    positions: dict
    beta: float
    gamma: float
    epsilon: float

    @property
    def shape(self):
        return *self.words["q"].shape, self.positions["q"].shape[1]

    def overlap(self, name, word, slot):
        """(B1) of one token."""
        _, sites, bits = self.shape
        semantic = self.words[name] @ word / sites
        return (1 - self.epsilon) * semantic + self.epsilon * self.positions[name] @ code(slot, bits) / bits

    def attend(self, query, keys, values):
        """(B2), (B3)."""
        logits = [self.gamma / math.sqrt(len(query)) * float(np.dot(query, key)) for key in keys]
        shares = [math.exp(logit - max(logits)) for logit in logits]
        return sum(share * value for share, value in zip(shares, values, strict=True)) / sum(shares)

    def fields(self, attention):
        """h of (B4)."""
        return self.words["o"].T @ attention

    def run(self, words, steps, choose=None, slot=0):
        """Tokens given, then `steps` more: means tanh of (B7), or what `choose(fields)` makes of them.

        Returns dictionaries of arrays over all tokens, the given ones first.
        """
        window = 2 ** self.shape[2]
        choose = choose or (lambda fields: np.tanh(self.beta * fields))
        seen = {name: [] for name in ("q", "k", "v", "o", "o words", "A", "word")}
        for time in range(len(words) + steps):
            word = words[time] if time < len(words) else choose(self.fields(seen["A"][-1]))
            place = (slot + time) % window
            for name in "qkvo":
                seen[name].append(self.overlap(name, word, place))
            seen["o words"].append(self.words["o"] @ word / self.shape[1])
            seen["word"].append(word)
            seen["A"].append(self.attend(seen["q"][-1], seen["k"][-window:], seen["v"][-window:]))
        return {name: np.array(values) for name, values in seen.items()}

    def next(self, history, slot):
        """The map of the state: (A_t, .., A_{t-L+1}), newest first, to A_{t+1}; `slot` is that of token t."""
        window = len(history)
        tokens = [np.tanh(self.beta * self.fields(past)) for past in history]
        places = [(slot + 1 - age) % window for age in range(window)]
        overlaps = {
            n: [self.overlap(n, word, place) for word, place in zip(tokens, places, strict=True)] for n in "qkv"
        }
        return self.attend(overlaps["q"][0], overlaps["k"], overlaps["v"])


def random_network(seed, *, features=3, sites=12, bits=2, beta=1.3, gamma=30.0, epsilon=0.1):
    """A network of independent +-1."""
    rng = np.random.default_rng(seed)
    words = {name: rng.choice([-1.0, 1.0], size=(features, sites)) for name in "qkvo"}
    positions = {name: rng.choice([-1.0, 1.0], size=(features, bits)) for name in "qkvo"}
    return Network(words, positions, beta, gamma, epsilon)
