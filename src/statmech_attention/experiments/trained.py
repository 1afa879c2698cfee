"""Training a network by gradient descent, recorded: section 4.2 and appendix H of Tiberi et al. (2024)."""

from dataclasses import dataclass
from typing import ClassVar

from statmech_attention.experiments.experiment import Part
from statmech_attention.experiments.networks import OnNetwork
from statmech_attention.results.again import Again, difference
from statmech_attention.training import CURVE, Training, train
from statmech_attention.training.files import network_dataset


@dataclass(frozen=True, kw_only=True)
class Trained(OnNetwork):
    """A network trained on the one-shot task, see `train`; the record is read by `load_network`.

    Attributes:
        width: $N$.
        dimension: $G$, of queries and keys.
        epochs: how many, of one sequence for every pair of training classes.
        batch: sequences a step.
        learning_rate: Adam's.
        weight_decay: times the parameters, added to the gradient.
        validate_every: steps between validations, after each of which the state is kept.
    """

    width: int
    dimension: int
    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float
    validate_every: int

    name: ClassVar[str] = "network"
    revision: ClassVar[int] = 1
    double: ClassVar[bool] = False

    def make(self, state, progress):
        trained = yield Part(
            "network",
            lambda step: network_dataset(self._train(checkpoint=state("network"), progress=progress).network()),
        )
        return trained

    def again(self) -> Again:
        """The first validation: it depends on all steps before it."""
        found = self._train(stop_after=self.validate_every, progress=False).curve[0]
        step, *_ = recorded = self.network().curve[0]
        # Of the losses alone: where outputs are close to zero their signs, which make the accuracy, are rounding. Training is in
        # single precision and adds up in an order of the machine's own; any real change is far larger after so many steps.
        losses = [CURVE.index(name) for name in ("train_loss", "validation_loss")]
        return Again(f"the losses after {int(step)} steps", difference(found[losses], recorded[losses]), 1e-4)

    def _train(self, **options) -> Training:
        suite, names = self.suite(), ("width", "dimension", "seed", "epochs", "batch")
        names += ("learning_rate", "weight_decay", "validate_every")
        options |= {name: getattr(self, name) for name in names}
        return train(suite.task, suite.split, heads=self.chain, **options)
