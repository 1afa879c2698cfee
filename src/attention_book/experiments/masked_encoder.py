r"""The heads of an encoder masked one by one, recorded: whether those that the theory keeps are those that it would miss.

Two networks: "probe", the encoder as it is with logistic regression on its pooled embedding; "tuned", the encoder with all
weights trained further on the same sentences, read out linearly at its first token. The theory's scores are those of the flat
network, all heads side by side, on the attention of the encoder in question.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from attention_book.experiments.again import Again, difference
from attention_book.experiments.encoded_grid import Problem, hits, swept
from attention_book.experiments.encoded_tasks import Words, checked, encoded_task, missing, words
from attention_book.experiments.experiment import Experiment, Part, axis, different
from attention_book.experiments.fine_tuning import fine_tuned
from attention_book.experiments.kept_heads import alignments
from attention_book.experiments.linear_probes import logistic
from attention_book.experiments.masked_heads import POOLED, Classifier, features, log_loss, taylor_in_encoder
from statmech_attention import checks, results
from statmech_attention.model.accuracy import right
from statmech_attention.pruning.heads import whole_and_without_each
from statmech_attention.pruning.importance import taylor_importance
from statmech_attention.pruning.removal import removal_order
from statmech_attention.theory.predictor import predictor_contributions
from statmech_attention.theory.scores import head_scores

PROBE, TUNED = NETWORKS = ("probe", "tuned")
IN_ENCODER = "Taylor in the encoder"
# From the training sentences alone; "Taylor" is that of the theory's predictor.
SCORES = ("both", "either", "alignment", "Taylor", IN_ENCODER)
ORDERS = ("both", "alignment", IN_ENCODER)


@dataclass(frozen=True, kw_only=True)
class MaskedEncoder(Experiment):
    r"""One split of a task: what each head's mask costs, all scores, and the accuracy when heads are cut out in their order.

    The record has over both networks `accuracy` and `loss` (log loss) on test sentences; `accuracy_drop`, `loss_rise` and `margin_fall`
    (of the mean of $y f$, by the whole encoder's mean of $|f|$) when one head is masked, of both halves of the test sentences; `score`; the `temperature` of the largest evidence and the
    `theory_accuracy` there; over `order` and `kept` the accuracy and loss of what is left, `accuracy_kept` and `loss_kept`, and
    of "probe" `accuracy_again` and `loss_again`, regression learned again on the embeddings of the masked encoder; and
    `training_loss` over the epochs of "tuned".

    Attributes:
        seed: of the split, of random orders and of the fine-tuning.
        task: a name of `encoded_tasks.TASKS`.
        split: numbers of training and test sentences of the split whose first ones are taken, as `EncodedHeads` asks for.
        examples: $P$.
        test_examples: an even number.
        directions: $N_0$.
        width: $N$.
        temperatures: $T$, in any order.
        kept: numbers of heads kept.
        random: random orders of heads.
        epochs: of fine-tuning.
        rate: its largest learning rate.
        batch: sentences of a step.
    """

    seed: int
    task: str
    split: Sequence[int]
    examples: int
    test_examples: int
    directions: int
    width: float | int
    temperatures: Sequence[float | int]
    kept: Sequence[int]
    random: int
    epochs: int
    rate: float
    batch: int
    read: Callable[..., Words] = field(default=words, metadata={"recorded": False}, repr=False)

    name: ClassVar[str] = "masked"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "part"

    def __post_init__(self):
        object.__setattr__(self, "temperatures", different("temperatures", self.temperatures))
        object.__setattr__(self, "kept", [int(size) for size in different("kept", self.kept, whole=True)])
        object.__setattr__(self, "split", list(self.split))

    @property
    def path(self) -> Path:
        return Path(self.folder) / f"masked-{self.task}-seed{self.seed}.nc"

    def check(self) -> None:
        checked(self.task, self.split)
        checks.whole("examples", self.examples, 10, self.split[0])
        checks.whole("test_examples", self.test_examples, 2, self.split[1])
        if self.test_examples % 2:
            raise ValueError(f"test_examples: wanted an even number, got {self.test_examples}.")
        for name, least in {"directions": 1, "random": 0, "epochs": 1}.items():
            checks.whole(name, getattr(self, name), least)
        checks.whole("batch", self.batch, 1, self.examples)
        for name in ("width", "rate"):
            checks.positive(name, getattr(self, name))

    @property
    def missing(self) -> str:
        return missing(self.task)

    @property
    def total(self) -> int:
        return 3 * len(NETWORKS) + 1

    def make(self, state, progress):
        read = functools.cache(self.words)
        tuning = functools.cache(lambda: self.tuned(read()))
        makers = {PROBE: functools.cache(lambda: self.probe(read())), TUNED: lambda: tuning().classifier}
        found = []
        for network, classifier in makers.items():
            scores = yield Part(f"{network}-scores", functools.partial(self._scores, read, classifier))
            drops = yield Part(f"{network}-drops", functools.partial(self._drops, read, classifier))
            curves = yield Part(f"{network}-curves", functools.partial(self._curves, read, classifier, scores["score"]))
            found.append(xr.merge([scores, drops, curves]))
        losses = yield Part("losses", functools.partial(self._losses, tuning))
        return xr.concat(found, axis("network", NETWORKS)).merge(losses)

    def words(self) -> Words:
        """Training sentences, then test sentences; ValueError where more heads are to be kept than there are."""
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

    def tuned(self, read: Words):
        """The encoder, trained further."""
        learned = Words(read.encoder, read.tokens[: self.examples], read.labels[: self.examples])
        return fine_tuned(learned, seed=self.seed, epochs=self.epochs, rate=self.rate, batch=self.batch)

    def again(self) -> Again:
        """Of the encoder as it is: Taylor in it, and what is lost without each head of its last layer."""
        there, read = results.load(self.path).sel(network=PROBE), self.words()
        classifier, per_layer = self.probe(read), read.encoder.heads
        taylor = taylor_in_encoder(classifier, read.tokens[: self.examples], read.labels[: self.examples])
        masks = self._without_each(read)[[0, *range(-per_layer, 0)]]
        rise = _without(classifier.outputs(read.tokens[self.examples :], masks), read.labels[self.examples :])[
            "loss_rise"
        ]
        apart = max(
            difference(taylor, there["score"].sel(criterion=IN_ENCODER)),
            difference(rise, there["loss_rise"].values[:, -per_layer:]),
        )
        # The encoder is in single precision.
        return Again("the encoder as it is, without each head of its last layer", apart, 1e-3)

    def _scores(self, read, classifier, step) -> xr.Dataset:
        data, own = read(), classifier()
        encoded = encoded_task(
            data._replace(encoder=own.encoder), {"flat": [range(own.encoder.depth)]}, self.examples, self.directions
        )
        problem = Problem.of(encoded.networks["flat"], data.labels, self.examples, 0, self.test_examples)
        sweep = swept(problem, [float(self.width)], self.temperatures)[0]
        best = int(jnp.argmax(sweep.log_evidence()))
        overlap, heat = sweep.order_parameter[best], float(self.temperatures[best])
        train, heads = problem.train, problem.train.heads
        contributions = predictor_contributions(train, problem.labels, train, overlap, temperature=heat)
        scores = {
            "both": head_scores(overlap, heads=heads, definition="both"),
            "either": head_scores(overlap, heads=heads, definition="either"),
            "alignment": alignments(problem),
            "Taylor": taylor_importance(contributions, problem.labels, heads=heads),
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

    def _drops(self, read, classifier, step) -> xr.Dataset:
        data = read()
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

    def _curves(self, read, classifier, scores: xr.DataArray, step) -> xr.Dataset:
        """Of the encoder as it is with the probe learned again too; in "tuned" these are NaN."""
        data, own = read(), classifier()
        count, draws = scores.sizes["head"], np.random.default_rng(self.seed)
        everything = {name: scores.sel(criterion=name).values for name in ORDERS}
        everything |= {f"random {number}": draws.random(count) for number in range(self.random)}
        masks = np.ones((len(everything), len(self.kept), count))
        for values, at_order in zip(everything.values(), masks, strict=True):
            order = removal_order(values, heads=(count,))
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
        found = {
            f"{name}_{which}": np.full(shape, np.nan) for name in ("accuracy", "loss") for which in ("kept", "again")
        }
        for which, given in outputs.items():
            for name, measure in {"accuracy": right, "loss": log_loss}.items():
                found[f"{name}_{which}"] = measure(given, labels).mean(axis=-1).reshape(shape)
        columns = {name: (("order", "kept"), values) for name, values in found.items()}
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


def _without(outputs, labels) -> dict[str, Float[np.ndarray, "2 heads"]]:
    """What is worse in each of the other networks than in the first, by halves of the sentences."""
    worse = {
        "accuracy_drop": -right(outputs, labels),
        "loss_rise": log_loss(outputs, labels),
        # A fine-tuned encoder is surer than it should be; what makes it less sure lowers its log loss, and its margin.
        "margin_fall": -outputs * labels / np.abs(outputs[0]).mean(),
    }
    halves = {name: np.stack([one[:, half::2].mean(axis=1) for half in (0, 1)]) for name, one in worse.items()}
    return {name: one[:, 1:] - one[:, :1] for name, one in halves.items()}
