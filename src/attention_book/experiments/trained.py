"""Training a network by gradient descent: section 4.2 and appendix H of Tiberi et al. (2024)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attention_book import results
from attention_book.experiments.experiment import Part, Recheck, difference, parameter
from attention_book.experiments.networks import OnNetwork
from attention_book.training import CURVE, Training, train
from attention_book.training.files import network_dataset

OPENING = 20  # steps


@dataclass(frozen=True, kw_only=True)
class Trained(OnNetwork):
    """A network trained on the one-shot task, see `train`; the record is read by `load_network`.

    The `opening`, two losses after a few steps, is what `recheck` computes: after a thousand steps
    another machine with another version of JAX was seen to differ by two percent.
    """

    width: int = parameter("$N$", ge=1)
    dimension: int = parameter("$G$, of queries and keys", ge=1)
    epochs: int = parameter("epochs, of one sequence for every pair of training classes", ge=1)
    batch: int = parameter("sequences per step", ge=1)
    learning_rate: float = parameter("Adam's learning rate", gt=0)
    weight_decay: float = parameter("factor of the parameters in the gradient")
    validate_every: int = parameter("steps between validations, after each of which the state is kept", ge=1)
    biases: bool = parameter("biases of the input projection and of the readout", False)

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
        """Training and validation loss after the first steps, before rounding drives them apart."""
        row = self._train(validate_every=OPENING, stop_after=OPENING, progress=False).curve[0]
        return row[[CURVE.index(name) for name in ("train_loss", "validation_loss")]]

    def recheck(self) -> Recheck:
        """Compute the opening; it has no accuracies, since signs of outputs close to zero are rounding."""
        apart = difference(self.opening(), results.load(self.path).attrs["opening"])
        # In single precision, which adds up in an order of the machine's own.
        return Recheck(f"the losses after {OPENING} steps", apart, 1e-4)

    def _train(self, **options) -> Training:
        suite, names = self.suite(), ("width", "dimension", "seed", "epochs", "batch", "learning_rate", "weight_decay")
        asked = {name: getattr(self, name) for name in (*names, "biases", "validate_every")}
        return train(suite.task, suite.split, layers=self.chain, **(asked | options))
