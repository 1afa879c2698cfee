"""Selection of heads without paths: by what each is worth to the kernel of infinite width."""

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.pruning.gates import head_kernels, head_worth, likeliest
from statmech_attention.pruning.heads import heads_by_layer, removal_order
from statmech_attention.theory import Problem, kernel_without_paths
from statmech_attention.theory.token_solution import inputs_of

DEFINITIONS = ("derivative", "removal")


def kept_of(scores, keep: int, layers) -> Int[np.ndarray, " kept"]:
    """The numbers of the heads with the highest scores, but at least as many of every layer as it needs."""
    order = removal_order(scores, layers=layers)
    if keep < len(scores) - len(order):
        raise ValueError(f"keep: wanted at least {len(scores) - len(order)} heads, one of every layer, got {keep}.")
    kept = np.setdiff1d(np.arange(len(scores)), order[: len(scores) - keep])
    return kept[np.argsort(-scores[kept], kind="stable")]


class Gates:
    """The kernels of a problem of tokens, whole and without each head, for any of its examples."""

    def __init__(self, problem: Problem, definition: str):
        self.definition = checks.choice("definition", definition, DEFINITIONS)
        self.inputs, self.variance = inputs_of(problem), problem.variance
        self.labels, self.temperature = np.asarray(problem.labels), problem.temperature
        self.kernel = kernel_without_paths(self.inputs, self.inputs, variance=self.variance)
        self.heads = head_kernels(self.inputs, self.inputs, variance=self.variance)

    def scores(self, examples) -> tuple[Float[np.ndarray, " heads"], float]:
        """The worth of all heads to these examples, and the temperature."""
        within = np.ix_(examples, examples)
        heads = self.heads[:, within[0], within[1]]
        worth = head_worth(self.kernel[within], heads, self.labels[examples], temperature=self.temperature)
        return worth.slopes if self.definition == "derivative" else worth.losses, worth.temperature

    def outputs(self, train, test, kept=None) -> Float[np.ndarray, "test *outputs"]:
        """Mean outputs for `test`, with the heads `kept` or all, scale and temperature by the evidence of `train`."""
        kernel = self.kernel
        if kept is not None:
            smaller = self.inputs.keep_heads(heads_by_layer(np.sort(kept), self.inputs.layers))
            kernel = kernel_without_paths(smaller, smaller, variance=self.variance)
        known, across, labels = kernel[np.ix_(train, train)], kernel[np.ix_(test, train)], self.labels[train]
        scale, temperature = 1.0, self.temperature
        if temperature is None:
            scale, temperature = likeliest(known, labels.reshape(len(labels), -1))
        return scale * across @ np.linalg.solve(scale * known + temperature * np.eye(len(train)), labels)
