"""Heads removed from an encoder for good: accuracy with a probe refitted, and time.

Accuracies are of gates at 0, which is the same function as the smaller encoder; times are those of
the smaller encoder, whose embeddings are compared with the gated ones.
"""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.encoded_inputs import (
    EncodedProblem,
    OnEncoder,
    Words,
    check_split,
    encoded_task,
)
from attention_book.experiments.encoded_theory import swept
from attention_book.experiments.experiment import Part, Recheck, difference, parameter
from attention_book.experiments.linear_probes import logistic
from attention_book.experiments.masked_heads import POOLED, Classifier, alike, features, taylor_in_encoder
from attention_book.pruning.kernel_weights import kernel_weights
from attention_book.tasks import Encoder, encode
from attention_book.tasks._encoder_layers import mean_token, sentence_embeddings, without_heads
from statmech_attention import Problem, checks, head_scores
from statmech_attention.model.accuracy import right
from statmech_attention.pruning import removal_order

THEORY, WEIGHTS, TAYLOR = SCORES = ("both", "kernel weights", "Taylor in the encoder")
LAYERS = "lower layers"  # as few of them as have so many heads
BATCHES = (1, 32)


@dataclass(frozen=True, kw_only=True)
class RemovedHeads(OnEncoder):
    """One split of a task: test accuracy with few heads or layers, the probe refitted, and times.

    `selection_seconds` of the processor: of a score on the training sentences, attention and
    compilation included. With `repeats`, `sentence_seconds` of the processor, median over them.
    """

    split: Sequence[int] = parameter("training and test sentences of the split of `EncodedHeads`; the first are taken")
    test_examples: int = parameter("test sentences", ge=2)
    width: float | int = parameter("$N$", gt=0)
    kept: Sequence[int] = parameter("numbers of heads kept", each=int)
    random: int = parameter("random orders of heads", ge=1)
    repeats: int = parameter("repetitions of each time; 0: no times", ge=0)

    name: ClassVar[str] = "removed"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "removed-{task}-seed{seed}"

    def check(self) -> None:
        super().check()
        check_split(self.split)
        checks.whole("examples", self.examples, 10, self.split[0])
        checks.whole("test_examples", self.test_examples, 2, self.split[1])

    @property
    def total(self) -> int:
        return 2 + bool(self.repeats)

    def make(self, state, progress):
        words = functools.cache(self.words)
        scores = yield Part("scores", functools.partial(self._scores, words))
        accuracies = yield Part("accuracies", functools.partial(self._accuracies, words, scores["score"]))
        found = [scores, accuracies]
        if self.repeats:
            times = yield Part("times", functools.partial(self._times, words, scores["score"]))
            found.append(times)
        return xr.merge(found)

    def words(self) -> Words:
        """Training sentences, then test sentences."""
        read = self.read(self.task, self.seed, *self.split)
        checks.whole("kept", self.kept[-1], 1, read.encoder.depth * read.encoder.heads)
        rows = np.append(np.arange(self.examples), self.split[0] + np.arange(self.test_examples))
        return Words(read.encoder, read.tokens[rows], read.labels[rows])

    def recheck(self) -> Recheck:
        """Compute the encoder's own gradient again, and its fewest heads' test sentences."""
        there, words = results.load(self.path), self.words()
        taylor = self._taylor(words)
        recorded = there["score"].sel(criterion=TAYLOR)
        again = self._refitted(words, self._features(words, {TAYLOR: recorded.values}, self.kept[:1])[1:]).mean()
        # The encoder is in single precision, by which two sentences may change sides.
        apart = abs(again - float(there["accuracy"].sel(order=TAYLOR, kept=self.kept[0])))
        apart = apart if apart * self.test_examples > 2 else 0.0
        return Recheck("the encoder's gradient, and its fewest heads", max(apart, difference(taylor, recorded)), 1e-3)

    def orders(self, scores: xr.DataArray) -> dict[str, Float[np.ndarray, " heads"]]:
        """Scores of all heads by the order that they make."""
        draws = np.random.default_rng(self.seed)
        found = {name: scores.sel(criterion=name).values for name in SCORES}
        return found | {f"random {number}": draws.random(scores.sizes["head"]) for number in range(self.random)}

    def _scores(self, words, step) -> xr.Dataset:
        data, began = words(), time.process_time()
        learned = Words(data.encoder, *(one[: self.examples + 1] for one in data[1:]))
        encoded = encoded_task(learned, {"flat": [range(data.encoder.depth)]}, self.examples, self.directions)
        problem = EncodedProblem.of(encoded.networks["flat"], learned.labels, self.examples, 0, 1)
        read, layers = time.process_time() - began, problem.train.layers

        def theory():
            sweep = swept(problem, [float(self.width)], self.temperatures)[0]
            best = int(jnp.argmax(sma.log_evidence(sweep)))
            return head_scores(sweep.order_parameter[best], layers=layers)

        def weights():
            return head_scores(kernel_weights(Problem(problem.train, problem.labels)).order_parameter, layers=layers)

        found, seconds = {}, []
        for name, score in {THEORY: theory, WEIGHTS: weights, TAYLOR: lambda: self._taylor(data)}.items():
            began = time.process_time()
            found[name] = np.asarray(score())
            seconds.append(time.process_time() - began + (read if name != TAYLOR else 0))
        step()
        return xr.Dataset(
            {
                "score": (("criterion", "head"), np.array([*found.values()], np.float32)),
                "selection_seconds": ("criterion", seconds),
            },
            {"criterion": list(found)},
        )

    def _taylor(self, words: Words):
        learned, labels = words.tokens[: self.examples], words.labels[: self.examples]
        whole = np.ones((1, words.encoder.depth, words.encoder.heads))
        probe = logistic(features(words.encoder, learned, POOLED, whole)[0], labels)
        return taylor_in_encoder(Classifier(words.encoder, POOLED, probe), learned, labels)

    def gates(self, encoder: Encoder, orders, kept) -> Float[np.ndarray, "networks layers heads"]:
        """Gates of each order's heads, for each number kept in turn."""
        shape = encoder.depth, encoder.heads
        gates = np.zeros((len(orders), len(kept), shape[0] * shape[1]))
        for row, values in zip(gates, orders.values(), strict=True):
            order = np.append(removal_order(values, layers=(len(values),)), np.argmax(values))
            for gate, size in zip(row, kept, strict=True):
                gate[order[len(order) - size :]] = 1
        return gates.reshape(-1, *shape)

    def _features(self, words: Words, orders, kept) -> Float[np.ndarray, "networks sentences width"]:
        """Embeddings of the whole encoder, then of those with each order's heads."""
        gates = self.gates(words.encoder, orders, kept)
        return features(words.encoder, words.tokens, POOLED, np.concatenate([np.ones_like(gates[:1]), gates]))

    def _refitted(self, words: Words, seen) -> Float[np.ndarray, "networks test"]:
        """Correctness on test sentences, a probe refitted to each network's embeddings."""
        learned, labels = words.labels[: self.examples], words.labels[self.examples :]
        probes = (logistic(one[: self.examples], learned) for one in seen)
        return np.array([right(probe(one[self.examples :]), labels) for probe, one in zip(probes, seen, strict=True)])

    def _accuracies(self, words, scores: xr.DataArray, step) -> xr.Dataset:
        data, orders = words(), self.orders(scores)
        seen = np.concatenate([self._features(data, orders, self.kept), self._of_layers(data)])
        found = self._refitted(data, seen).mean(axis=1)
        step()
        by_order = found[1:].reshape(len(orders) + 1, len(self.kept))
        return xr.Dataset(
            {"accuracy": (("order", "kept"), by_order), "accuracy_whole": found[0]},
            {"order": [*orders, LAYERS], "kept": self.kept},
        )

    def _of_layers(self, words: Words) -> Float[np.ndarray, "kept sentences width"]:
        """Embeddings after as many layers as have so many heads, or a few more."""
        found = np.zeros((len(self.kept), len(words.labels), words.encoder.words.shape[1]))
        for places, part in alike(words.tokens):
            hidden = encode(words.encoder, part, batch=len(part)).hidden
            for row, size in zip(found, self.kept, strict=True):
                row[places] = mean_token(hidden[:, -(-size // words.encoder.heads) - 1], jnp.asarray(part.mask))[
                    : len(places)
                ]
        return found

    def _times(self, words, scores: xr.DataArray, step) -> xr.Dataset:
        """Seconds of the processor per sentence, of encoders that take turns; sentences of middle length."""
        data, layers = words(), (words().encoder.depth, words().encoder.heads)
        orders = {name: one for name, one in self.orders(scores).items() if name in (*SCORES, "random 0")}
        gates = [np.ones(layers), *self.gates(data.encoder, orders, self.kept)]
        gates += [np.ones((-(-size // layers[1]), layers[1])) for size in self.kept]
        encoders = [without_heads(data.encoder, gate) for gate in gates]
        rows = np.argsort(data.tokens.lengths, kind="stable")[(len(data.labels) - BATCHES[-1]) // 2 :][: BATCHES[-1]]
        part, run = data.tokens[rows].trimmed(1), jax.jit(sentence_embeddings)
        seconds = np.zeros((len(encoders), len(BATCHES), self.repeats))
        given = [(jnp.asarray(part.ids[-size:]), jnp.asarray(part.mask[-size:])) for size in BATCHES]
        embeddings = [[np.asarray(run(encoder, *one)) for one in given][-1] for encoder in encoders]  # compiled here
        for repeat in range(self.repeats):
            for number, encoder in enumerate(encoders):
                for place, (one, size) in enumerate(zip(given, BATCHES, strict=True)):
                    began = time.process_time()
                    for _ in range(BATCHES[-1] // size):
                        run(encoder, *one).block_until_ready()
                    seconds[number, place, repeat] = (time.process_time() - began) / BATCHES[-1]
        gated = self._features(data._replace(tokens=data.tokens[rows]), orders, self.kept)
        step()
        median = np.median(seconds, axis=2)
        by_order = median[1:].reshape(-1, len(self.kept), len(BATCHES))
        return xr.Dataset(
            {
                "sentence_seconds": (("timed", "kept", "batch"), by_order),
                "whole_seconds": ("batch", median[0]),
                "timed_tokens": part.ids.shape[1],
                "removed_apart": float(np.abs(np.array(embeddings[: len(gated)]) - gated).max()),
            },
            {"timed": [*orders, LAYERS], "batch": list(BATCHES)},
        )
