"""Training a network by gradient descent, recorded: section 4.2 and appendix H of Tiberi et al. (2024)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from statmech_attention.training.files import network_dataset

from attention_book.experiments.again import Again, difference
from attention_book.experiments.experiment import Part
from attention_book.experiments.networks import OnNetwork
from attention_book.training import Training, train
from statmech_attention import results
from statmech_attention.training import CURVE

OPENING = 20  # steps


@dataclass(frozen=True, kw_only=True)
class Trained(OnNetwork):
    """A network trained on the one-shot task, see `train`; the record is read by `load_network`.

    Beside the network it has the `opening`, two losses after a few steps: after a thousand steps another
    machine with another version of JAX was seen to differ by two percent.

    Attributes:
        width: $N$.
        dimension: $G$, of queries and keys.
        epochs: how many, of one sequence for every pair of training classes.
        batch: sequences a step.
        learning_rate: Adam's.
        weight_decay: times the parameters, added to the gradient.
        validate_every: steps between validations, after each of which the state is kept.
        biases: of the input projection and of the readout.
    """

    width: int
    dimension: int
    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float
    validate_every: int
    biases: bool = False

    name: ClassVar[str] = "network"
    revision: ClassVar[int] = 1  # 1: as first recorded
    double: ClassVar[bool] = False

    @property
    def parameters(self):
        # Networks without biases were recorded before there were any.
        return {name: value for name, value in super().parameters.items() if name != "biases" or value}

    def make(self, state, progress):
        def compute(step):
            trained = self._train(checkpoint=state("network"), progress=progress)
            return network_dataset(trained.network()).assign_attrs(opening=self.opening())

        return (yield Part("network", compute))

    def opening(self) -> np.ndarray:
        """Training and validation loss after the first steps: what rounding has not yet driven apart, as it does later."""
        # Steps and sequences are those of the run itself, which only looks at them later.
        row = self._train(validate_every=OPENING, stop_after=OPENING, progress=False).curve[0]
        return row[[CURVE.index(name) for name in ("train_loss", "validation_loss")]]

    def again(self) -> Again:
        """The opening. The accuracies are no part of it: where outputs are close to zero, their signs are rounding."""
        apart = difference(self.opening(), results.load(self.path).attrs["opening"])
        # In single precision, which adds up in an order of the machine's own.
        return Again(f"the losses after {OPENING} steps", apart, 1e-4)

    def _train(self, **options) -> Training:
        suite, names = self.suite(), ["width", "dimension", "seed", "epochs", "batch"]
        names += ["learning_rate", "weight_decay", "biases", "validate_every"]
        return train(
            suite.task, suite.split, heads=self.chain, **({name: getattr(self, name) for name in names} | options)
        )
