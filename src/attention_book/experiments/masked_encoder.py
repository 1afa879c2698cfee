"""The heads of an encoder masked one by one: damage in the encoder beside the theory's head scores.

"probe" is the encoder with logistic regression on its pooled embedding, "tuned" has all weights
trained further. Scores are those of the flat network on the attention of the encoder in question.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.optimize import minimize_scalar

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.encoded_inputs import EncodedProblem, OnEncoder, Words, check_split, encoded_task
from attention_book.experiments.encoded_theory import alignments, hits, swept
from attention_book.experiments.experiment import Part, Recheck, axis, difference, parameter
from attention_book.experiments.linear_probes import logistic
from attention_book.experiments.masked_heads import (
    POOLED,
    Classifier,
    FineTuned,
    features,
    fine_tuned,
    log_loss,
    taylor_in_encoder,
)
from attention_book.pruning import predictor_contributions, taylor_importance, whole_and_without_each
from attention_book.tasks import Encoder
from statmech_attention import Problem, checks, head_scores
from statmech_attention.model.accuracy import right
from statmech_attention.pruning import removal_order

PROBE, TUNED = NETWORKS = ("probe", "tuned")
IN_ENCODER = "Taylor in the encoder"
# From the training sentences alone; "Taylor" is that of the theory's predictor.
SCORES = ("both", "either", "alignment", "Taylor", IN_ENCODER)
ORDERS = ("both", "alignment", IN_ENCODER)


@dataclass(frozen=True, kw_only=True)
class MaskedEncoder(OnEncoder):
    """One split of a task: the cost of each head's mask, all scores, and accuracies in their orders.

    `margin_fall` is of the mean of $y f$, in units of the whole encoder's mean $|f|$; `tempered_rise` is of
    the log loss, outputs of each masked encoder scaled anew. `_kept` is of
    the heads left, `_again` with regression refitted to the embeddings of the masked encoder.
    `theory_accuracy_mixed` is of this network's attention and the tokens that enter the other one.
    """

    split: Sequence[int] = parameter("training and test sentences of the split of `EncodedHeads`; the first are taken")
    test_examples: int = parameter("test sentences, an even number", ge=2)
    width: float | int = parameter("$N$", gt=0)
    kept: Sequence[int] = parameter("numbers of heads kept", each=int)
    random: int = parameter("random orders of heads", ge=0)
    epochs: int = parameter("epochs of fine-tuning", ge=1)
    rate: float = parameter("largest learning rate of fine-tuning", gt=0)
    batch: int = parameter("sentences per step", ge=1)

    name: ClassVar[str] = "masked"
    # 2: the theory with the attention of one network and the tokens of the other; 3: outputs scaled anew for each mask
    revision: ClassVar[int] = 3
    stem: ClassVar[str] = "masked-{task}-seed{seed}"

    def check(self) -> None:
        super().check()
        check_split(self.split)
        checks.whole("examples", self.examples, 10, self.split[0])
        checks.whole("test_examples", self.test_examples, 2, self.split[1])
        if self.test_examples % 2:
            raise ValueError(f"test_examples: wanted an even number, got {self.test_examples}.")
        checks.whole("batch", self.batch, 1, self.examples)

    @property
    def total(self) -> int:
        return 4 * len(NETWORKS) + 1

    def make(self, state, progress):
        read = self.words()  # before any part, since numbers of heads are refused here
        tuning = functools.cache(lambda: self.tuned(read))
        makers = {PROBE: functools.cache(lambda: self.probe(read)), TUNED: lambda: tuning().classifier}
        found = []
        for network, classifier in makers.items():
            scores = yield Part(f"{network}-scores", functools.partial(self._scores, read, classifier))
            drops = yield Part(f"{network}-drops", functools.partial(self._drops, read, classifier))
            curves = yield Part(f"{network}-curves", functools.partial(self._curves, read, classifier, scores["score"]))
            other = makers[TUNED if network == PROBE else PROBE]
            mixed = yield Part(f"{network}-mixed", functools.partial(self._mixed, read, classifier, other))
            found.append(xr.merge([scores, drops, curves, mixed]))
        losses = yield Part("losses", functools.partial(self._losses, tuning))
        return xr.concat(found, axis("network", NETWORKS)).merge(losses)

    def words(self) -> Words:
        """Training sentences, then test sentences; ValueError if more heads are kept than there are."""
        read = self.read(self.task, self.seed, *self.split)
        count = read.encoder.depth * read.encoder.heads
        if self.kept[-1] > count:
            raise ValueError(f"kept: wanted at most the encoder's {count} heads, got {self.kept[-1]}.")
        rows = np.append(np.arange(self.examples), self.split[0] + np.arange(self.test_examples))
        return Words(read.encoder, read.tokens[rows], read.labels[rows])

    def probe(self, read: Words) -> Classifier:
        """The encoder as it is."""
        learned = read.tokens[: self.examples]
        whole = np.ones((1, read.encoder.depth, read.encoder.heads))
        seen = features(read.encoder, learned, POOLED, whole)[0]
        return Classifier(read.encoder, POOLED, logistic(seen, read.labels[: self.examples]))

    def tuned(self, read: Words) -> FineTuned:
        """The encoder, trained further."""
        learned = Words(read.encoder, read.tokens[: self.examples], read.labels[: self.examples])
        return fine_tuned(learned, seed=self.seed, epochs=self.epochs, rate=self.rate, batch=self.batch)

    def recheck(self) -> Recheck:
        """Compute Taylor scores, and the loss without each head of the last layer."""
        there, read = results.load(self.path).sel(network=PROBE), self.words()
        classifier, per_layer = self.probe(read), read.encoder.heads
        taylor = taylor_in_encoder(classifier, read.tokens[: self.examples], read.labels[: self.examples])
        masks = self._without_each(read)[[0, *range(-per_layer, 0)]]
        outputs = classifier.outputs(read.tokens[self.examples :], masks)
        rise = _without(outputs, read.labels[self.examples :])["loss_rise"]
        apart = max(
            difference(taylor, there["score"].sel(criterion=IN_ENCODER)),
            difference(rise, there["loss_rise"].values[:, -per_layer:]),
        )
        # The encoder is in single precision.
        return Recheck("the encoder as it is, without each head of its last layer", apart, 1e-3)

    def _scores(self, data: Words, classifier, step) -> xr.Dataset:
        own = classifier()
        problem, overlap, heat = self._solved(data._replace(encoder=own.encoder))
        train, heads = problem.train, problem.train.layers
        contributions = predictor_contributions(Problem(train, problem.labels, temperature=heat), train, overlap)
        scores = {
            "both": head_scores(overlap, layers=heads, definition="both"),
            "either": head_scores(overlap, layers=heads, definition="either"),
            "alignment": alignments(problem),
            "Taylor": taylor_importance(contributions, problem.labels, layers=heads),
            IN_ENCODER: taylor_in_encoder(own, data.tokens[: self.examples], problem.labels),
        }
        step()
        return xr.Dataset(
            {
                "score": (("criterion", "head"), np.array([scores[name] for name in SCORES], np.float32)),
                "temperature": heat,
                "theory_accuracy": hits(problem, overlap, heat)[1].mean(),
            },
            {"criterion": list(SCORES)},
        )

    def _mixed(self, data: Words, attending, entering, step) -> xr.Dataset:
        solved = self._solved(data._replace(encoder=attending().encoder), entering().encoder)
        step()
        return xr.Dataset({"theory_accuracy_mixed": hits(*solved)[1].mean()})

    def _solved(self, data: Words, entering: Encoder | None = None) -> tuple[EncodedProblem, Any, float]:
        """The flat network's order parameter, at the temperature of the largest evidence."""
        flat = {"flat": [range(data.encoder.depth)]}
        encoded = encoded_task(data, flat, self.examples, self.directions, entering=entering)
        problem = EncodedProblem.of(encoded.networks["flat"], data.labels, self.examples, 0, self.test_examples)
        sweep = swept(problem, [float(self.width)], self.temperatures)[0]
        best = int(jnp.argmax(sma.log_evidence(sweep)))
        return problem, sweep.order_parameter[best], float(self.temperatures[best])

    def _drops(self, data: Words, classifier, step) -> xr.Dataset:
        labels = data.labels[self.examples :]
        outputs = classifier().outputs(data.tokens[self.examples :], self._without_each(data))
        step()
        return xr.Dataset(
            {
                "accuracy": right(outputs[0], labels).mean(),
                "loss": log_loss(outputs[0], labels).mean(),
                **{name: (("half", "head"), values) for name, values in _without(outputs, labels).items()},
            }
        )

    def _curves(self, data: Words, classifier, scores: xr.DataArray, step) -> xr.Dataset:
        """Heads cut out in all orders; with regression refitted, too, which is NaN in "tuned"."""
        own = classifier()
        count, draws = scores.sizes["head"], np.random.default_rng(self.seed)
        everything = {name: scores.sel(criterion=name).values for name in ORDERS}
        everything |= {f"random {number}": draws.random(count) for number in range(self.random)}
        masks = np.ones((len(everything), len(self.kept), count))
        for values, at_order in zip(everything.values(), masks, strict=True):
            order = removal_order(values, layers=(count,))
            for size, mask in zip(self.kept, at_order, strict=True):
                mask[order[: count - size]] = 0
        shape, gates = masks.shape[:2], masks.reshape(-1, data.encoder.depth, data.encoder.heads)
        again = own.readout == POOLED
        seen = features(own.encoder, data.tokens if again else data.tokens[self.examples :], own.readout, gates)
        learned, tests = np.split(seen, [len(data.labels) - self.test_examples if again else 0], axis=1)
        labels, outputs = data.labels[self.examples :], {"kept": own.probe(tests)}
        if again:
            fits = (logistic(inputs, data.labels[: self.examples], [own.probe.penalty]) for inputs in learned)
            outputs["again"] = np.array([fit(inputs) for fit, inputs in zip(fits, tests, strict=True)])
        step()
        columns = {}
        for which in ("kept", "again"):
            for name, measure in {"accuracy": right, "loss": log_loss}.items():
                values = (
                    measure(outputs[which], labels).mean(axis=-1) if which in outputs else np.full(len(gates), np.nan)
                )
                columns[f"{name}_{which}"] = (("order", "kept"), values.reshape(shape))
        return xr.Dataset(columns, {"order": list(everything), "kept": self.kept})

    @staticmethod
    def _losses(tuning, step) -> xr.Dataset:
        found = xr.Dataset({"training_loss": ("epoch", tuning().losses)})
        step()
        return found

    @staticmethod
    def _without_each(data: Words):
        """Gates of the whole encoder, then without each of its heads."""
        layers = data.encoder.depth, data.encoder.heads
        return whole_and_without_each((layers[1],) * layers[0]).reshape(-1, *layers).astype(float)


def tempered_loss(outputs, labels) -> Float[np.ndarray, "*networks examples"]:
    """Log loss on each half of the sentences, outputs scaled by what is best for this network on the other half."""
    found = np.empty(np.shape(outputs))
    for network in np.ndindex(found.shape[:-1]):
        for half in (0, 1):
            other = outputs[network][1 - half :: 2], labels[1 - half :: 2]
            loss = functools.partial(lambda given, size: log_loss(np.exp(size) * given[0], given[1]).mean(), other)
            scale = np.exp(minimize_scalar(loss, bounds=(-10, 10), method="bounded").x)
            found[network][half::2] = log_loss(scale * outputs[network][half::2], labels[half::2])
    return found


def _without(outputs, labels) -> dict[str, Float[np.ndarray, "2 heads"]]:
    """Loss of each other network against the first one, by three measures and halves of the sentences."""
    worse = {
        "accuracy_drop": -right(outputs, labels),
        "loss_rise": log_loss(outputs, labels),
        "tempered_rise": tempered_loss(outputs, labels),
        # A fine-tuned encoder is surer than it should be; what makes it less sure lowers its log loss, and its margin.
        "margin_fall": -outputs * labels / np.abs(outputs[0]).mean(),
    }
    halves = {name: np.stack([one[:, half::2].mean(axis=1) for half in (0, 1)]) for name, one in worse.items()}
    return {name: one[:, 1:] - one[:, :1] for name, one in halves.items()}
