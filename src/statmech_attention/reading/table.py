"""From a model, its tokeniser, texts and labels to a table of its heads, in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers import SkipHeads
from statmech_attention.model.tokens import token_inputs
from statmech_attention.reading.own_slopes import own_slopes
from statmech_attention.reading.transformers_models import attention_from_transformers
from statmech_attention.theory.kernels.of_tokens import kernel_of_tokens


def _texts(texts) -> list[str]:
    """Validate texts."""
    if not all(isinstance(text, str) for text in checks.several("texts", texts, "texts")):
        other = next(text for text in texts if not isinstance(text, str))
        raise ValueError(f"texts: wanted a list of texts, got {other!r:.40} among them.")
    return list(texts)


@dataclass(frozen=True)
class HeadReport:
    """Worth of a model's heads to labels, in nats; printed, it is a table, with a line where none helps.

    Attributes:
        heads: layer and number of each head, both from 0.
        own: slope of a probe's log evidence in what the head says, see `own_slopes`: for the model as it is.
        learned: evidence that networks lose without the head which learn all values anew, see `kernel_worth`; or
            None if this was not asked for.
    """

    heads: Int[np.ndarray, "heads 2"]
    own: Float[np.ndarray, " heads"]
    learned: Float[np.ndarray, " heads"] | None

    def __str__(self) -> str:
        columns = {"as it is": self.own} | ({} if self.learned is None else {"learned again": self.learned})
        lines = ["layer  head " + "".join(f"{name:>15}" for name in columns)]
        for (layer, head), *numbers in zip(self.heads, *columns.values(), strict=True):
            lines.append(f"{layer:5}  {head:4} " + "".join(f"{number:15.2f}" for number in numbers))
        lines += [f"{name}: no head has a positive worth." for name, worth in columns.items() if not worth.max() > 0]
        return "\n".join(lines)


def report(
    model: Any,
    tokeniser: Callable,
    texts: Sequence[str],
    labels: Sequence,
    *,
    batch_size: int = 16,
    readout: str = "mean",
    theory: bool = True,
    progress: Callable = lambda done: None,
) -> HeadReport:
    """Find what each head of a model of transformers is worth, to the model as it is and to one that learns again.

    Args:
        model: in evaluation mode, as in `attention_from_transformers`.
        tokeniser: of the model; it is called with `padding=True`, `truncation=True` and `return_tensors="pt"`.
        texts: a hundred or more of them, better short ones.
        labels: a class for each text, by any name.
        batch_size: texts that go through the model at a time.
        readout: token that is read, as in `own_slopes`.
        theory: find the second column too. It takes matrices with a row for every token of every text.
        progress: called with the share that is done.

    Raises:
        ValueError: texts and labels that do not fit, a model that cannot be read.
        MemoryError: more tokens than there is memory for, with how much is needed.
    """
    theory = checks.flag("theory", theory)
    checks.function("tokeniser", tokeniser, "of texts, as AutoTokenizer.from_pretrained(..) gives")
    checks.function("progress", progress, "of the share that is done")
    checks.same("labels", "labels", len(checks.several("labels", labels, "classes")), "texts", len(_texts(texts)))
    if any(label is None or label != label for label in labels):
        raise ValueError("labels: wanted a class for each text, got none or NaN.")
    classes, places = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < 2:
        raise ValueError("labels: wanted at least two classes to tell apart, got one.")
    targets = np.where(places[:, None] == np.arange(len(classes)), 1.0, -1.0)[
        :, -1 if len(classes) == 2 else slice(None)
    ]
    size, parts = checks.whole("batch_size", batch_size), []
    for start in range(0, len(texts), size):
        part = tokeniser(list(texts[start : start + size]), padding=True, truncation=True, return_tensors="pt")
        if not hasattr(part, "items"):
            raise ValueError(f"tokeniser: wanted arguments of the model by name, got a {type(part).__name__}.")
        parts.append(dict(part))
    progress(0.1)
    own = own_slopes(model, parts, targets, readout=readout)
    progress(0.5)
    if not theory:
        return HeadReport(own.heads, own.slopes, None)
    from statmech_attention.pruning.gates import head_kernels, kernel_worth

    try:
        reads: list[Any] = [attention_from_transformers(model, **part, test=part is parts[0]) for part in parts]
    except ValueError as error:
        raise ValueError(f"{error} Or leave out what networks lose that learn again, with theory=False.") from None
    layers = [SkipHeads(matrix.shape[1]) for matrix in reads[0].attention]
    seen = token_inputs(reads, layers=layers, readout=readout)
    heads = head_kernels(seen, seen)
    worth = kernel_worth(kernel_of_tokens(seen, seen, 1.0), heads, targets)
    progress(1.0)
    return HeadReport(own.heads, own.slopes, worth.losses)
