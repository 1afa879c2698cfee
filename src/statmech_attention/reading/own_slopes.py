"""Slopes of a probe's evidence in factors of the heads: what each is worth to somebody's model as it is."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.model.inputs import token_weights
from statmech_attention.reading.as_given import tensors, with_gradients
from statmech_attention.reading.heads import network, places, silenced


class OwnWorth(NamedTuple):
    r"""What every head is worth to a model with the weights that it has.

    Attributes:
        slopes: $\partial \ln p(Y) / \partial g$ of the probe in a factor $g$ of what the head says, at $g = 1$.
        losses: $\ln p(Y)$ with all heads minus that without the head, or None if they were not asked for.
        heads: layer and number of each head, both from 0.
        scale: factor of the kernel of the embeddings at which the evidence is largest.
        temperature: $T$, where it is.
    """

    slopes: Float[np.ndarray, " heads"]
    losses: Float[np.ndarray, " heads"] | None
    heads: Int[np.ndarray, "heads 2"]
    scale: float
    temperature: float


@with_gradients
def own_slopes(
    model: Any,
    batches: Any,
    labels: ArrayLike,
    *,
    readout: str | int = "mean",
    embed: Callable | None = None,
    temperature: float | None = None,
    removal: bool = False,
) -> OwnWorth:
    r"""Slope of $\ln p(Y)$ of a linear probe on a model's embeddings, in a factor of each of its heads.

    The probe of the embeddings $e_\mu$ is Gaussian with the kernel $K_{\mu\nu} = s\, e_\mu \cdot e_\nu / F$
    and noise $T$. Its evidence has the slope $\partial \ln p / \partial K = \frac12 [(K + T)^{-1} Y Y^\top
    (K + T)^{-1} - (K + T)^{-1}]$, which goes backward through the model to its heads: one pass forward for the
    embeddings, one forward and one backward for the slopes, a batch at a time.

    It says what this model loses without a head, where `head_worth` says what networks lose that learn all
    values anew.

    Args:
        model: as in `only_heads`, in evaluation mode.
        batches: arguments of the model, as its tokeniser returns them, or inputs of a network of PyTorch; or
            several of them, in a list.
        labels: $Y$, `(examples,)` or `(examples, outputs)`, in the order of the batches.
        readout: "mean", "first", "last" or the index of a token, whose last hidden state is the embedding.
        embed: function of what the model returns and of the batch, instead: `(examples, features)`.
        temperature: $T$ at scale 1; by default both are those of the largest evidence.
        removal: find the evidence lost without each head, too: a pass forward for every head.

    Raises:
        ValueError: as `only_heads`; a model in training; labels of another number.

    Source: the gate of a head is that of Michel et al. (2019), who take absolute slopes of a loss.
    """
    torch, model = network(model)
    if any(module.training for module in model.modules()):
        raise ValueError("model: wanted all of it in evaluation, got layers in training. Call model.eval().")
    parts = [batches] if isinstance(batches, dict) or hasattr(batches, "shape") or hasattr(batches, "data") else batches
    if not isinstance(parts, Iterable) or isinstance(parts, str) or not (parts := list(parts)):
        raise ValueError(f"batches: wanted arguments of the model, or several in a list, got {batches!r:.60}.")
    for part in parts:
        if not hasattr(part, "items") and not hasattr(part, "shape"):
            got = type(part).__name__
            raise ValueError(f"batches: wanted arguments by name, or a tensor of inputs, got a {got} for a batch.")
    if embed is not None:
        checks.function("embed", embed, "of what the model returns and of the batch")
    removal, first = checks.flag("removal", removal), _arguments(torch, parts[0])
    some = places(torch, model, first.pop("", None), first)
    ones = [np.ones(place.heads) for place in some]

    def embedded(factors, part):
        with silenced(torch, model, some, factors):
            return (embed or _embedding(torch, readout))(_run(torch, model, part), part)

    def embeddings(factors):
        with torch.no_grad():
            each = [embedded(factors, part).detach().double().cpu().numpy() for part in parts]
        return np.concatenate(each)

    whole = embeddings(ones)
    probe = _Probe(whole, labels, temperature)
    slopes, ahead = np.zeros(sum(map(len, ones))), 0
    for part in parts:
        factors = [torch.ones(place.heads, dtype=torch.float64, requires_grad=True) for place in some]
        with torch.enable_grad():
            rows = embedded(factors, part)
            steep = torch.as_tensor(probe.slopes[ahead : ahead + len(rows)]).to(rows)
            found = torch.autograd.grad((steep * rows).sum(), factors, allow_unused=True)
        slopes += np.concatenate(
            [torch.zeros(len(g)) if one is None else one for one, g in zip(found, ones, strict=True)]
        )
        ahead += len(rows)
    heads = np.array([(layer, head) for layer, one in enumerate(ones) for head in range(len(one))])
    losses = np.array([probe.loss(embeddings(_without(ones, *head))) for head in heads]) if removal else None
    return OwnWorth(slopes, losses, heads, probe.scale, probe.temperature)


class _Probe:
    """A Gaussian probe of embeddings, and how its evidence changes with them."""

    def __init__(self, rows: np.ndarray, labels, temperature: float | None):
        from statmech_attention.pruning.gates import scale_and_temperature, twice_slope

        temperature = temperature if temperature is None else checks.positive("temperature", temperature)
        labels = np.asarray(checks.labels(labels, len(rows), axes=np.shape(labels)[1:]), float)
        self.targets, kernel = labels.reshape(len(rows), -1), rows @ rows.T / rows.shape[1]
        self.scale, self.temperature = scale_and_temperature(kernel, self.targets, temperature)
        whole = self._regression(rows)
        steep = self.scale * twice_slope(whole, self.targets)
        self.slopes, self.nats = steep @ rows / rows.shape[1], float(whole.nats)

    def loss(self, rows: np.ndarray) -> float:
        """What the evidence loses with other embeddings."""
        return 0.5 * (float(self._regression(rows).nats) - self.nats)

    def _regression(self, rows: np.ndarray):
        from statmech_attention.theory.kernels.regression import Regression

        return Regression.of(self.scale * rows @ rows.T / rows.shape[1], self.temperature, self.targets)


def _without(ones: list[np.ndarray], layer: int, head: int) -> list[np.ndarray]:
    """Factors of all heads, zero for one of them."""
    return [np.where(np.arange(len(one)) == head, 0.0, one) if at == layer else one for at, one in enumerate(ones)]


def _arguments(torch, part) -> dict:
    """Those of the model by name, and inputs without one by an empty name."""
    return tensors(torch, dict(part)) if hasattr(part, "items") else tensors(torch, {"": part})


def _run(torch, model, part):
    named = _arguments(torch, part)
    given = (named.pop(""),) if "" in named else ()
    asked = {"output_hidden_states": True, "return_dict": True} if hasattr(model, "config") else {}
    return model(*given, **named, **asked)


def _embedding(torch, readout) -> Callable:
    """The last hidden state at the readout, or what a network returns for each example."""

    def embedding(result, part):
        states = getattr(result, "hidden_states", None)
        hidden = states[-1] if states else result
        if not torch.is_tensor(hidden) or hidden.ndim not in (2, 3):
            got = type(hidden).__name__
            raise ValueError(f"embed: wanted a function for a model that returns {got}, got none. Say what to embed.")
        if hidden.ndim == 2:
            return hidden
        mask = _mask(part, tuple(hidden.shape[:2]))
        weights = hidden.new_tensor(token_weights(readout, mask, *hidden.shape[:2]))
        return (weights[..., None] * hidden).sum(dim=1)

    return embedding


def _mask(part, shape: tuple) -> np.ndarray | None:
    """True for a token, if the batch says so."""
    given = dict(part) if hasattr(part, "items") else {}
    for name, padding in (("attention_mask", False), ("src_key_padding_mask", True)):
        if name in given and tuple(np.shape(given[name])) == shape:
            return (np.asarray(given[name]) != 0) != padding
    return None
