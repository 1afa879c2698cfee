"""Attention read off a network of PyTorch or Hugging Face; neither library is imported here."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from statmech_attention import checks


class ReadAttention(NamedTuple):
    """Tokens, attention and mask of a batch: pass it to `attentioned_inputs` whole, in the inputs' place.

    Attributes:
        inputs: the tokens that enter the first layer, `(examples, tokens, features)`.
        attention: one array `(examples, heads, keys, queries)` per layer: keys before queries.
        mask: true for a token, false for padding; None if the network got no mask.
    """

    inputs: Float[np.ndarray, "examples tokens features"]
    attention: tuple[Float[np.ndarray, "examples _heads tokens tokens"], ...]
    mask: Bool[np.ndarray, "examples tokens"] | None

    @property
    def flat(self) -> "ReadAttention":
        """The same with the heads of all layers side by side in a single layer: a path per head."""
        return self._replace(attention=(np.concatenate(self.attention, axis=1),))


def attention_from_torch(
    model: Any, inputs: Any, *, layers: Sequence[int] | None = None, **options: Any
) -> ReadAttention:
    """Read the attention of a PyTorch network made of `torch.nn.MultiheadAttention`, in evaluation mode.

    The network runs once on the batch; every self-attention returns its matrices, in the order of
    use. The tokens are those that enter the first `torch.nn.TransformerEncoderLayer`, with
    `norm_first` before its norm, or else the first attention.

    Args:
        model: a `torch.nn.TransformerEncoder`, a `torch.nn.MultiheadAttention`, which gets the same
            queries, keys and values, or any `torch.nn.Module` with such attention. It is left
            unchanged.
        inputs: first argument of the model, a tensor or an array in its layout: tokens before
            examples if `batch_first` is false, PyTorch's default.
        layers: indices of the attentions wanted, all of them if None.
        options: other arguments of the model's `forward`, such as `src_key_padding_mask` or
            `key_padding_mask`.

    Returns:
        `ReadAttention`, whatever `batch_first`, for `attentioned_inputs(read)`.

    Raises:
        ValueError: no such network, attention between different sequences or with added keys, no
            batch, layers that are not there.

    Source: the interface of PyTorch 2.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: wanted a torch.nn.Module, got {type(model).__name__}.")
    if not isinstance(inputs, torch.Tensor):
        try:
            inputs = torch.as_tensor(np.array(inputs))
        except (TypeError, ValueError):
            raise ValueError(f"inputs: wanted a tensor or an array, got {type(inputs).__name__}.") from None
        first = next(model.parameters(), inputs)
        inputs = inputs.to(first.device, first.dtype if inputs.is_floating_point() else None)
    own = isinstance(model, torch.nn.MultiheadAttention)
    with _listening(torch, model) as heard, _explained(f"inputs of shape {tuple(inputs.shape)}", options):
        model(*(inputs,) * (3 if own else 1), **options)
    if not heard.calls:
        raise ValueError(
            f"model: wanted a network that uses torch.nn.MultiheadAttention, got {type(model).__name__}, "
            "which does not. Its own attention goes to attentioned_inputs, with layout='query_key'."
        )
    tokens, padding = heard.calls[0].query, heard.calls[0].padding
    if heard.entered is not None:
        tokens = heard.entered
    if not heard.calls[0].batch_first:
        tokens = tokens.transpose(0, 1)
    _check_chain(heard.calls)
    matrices = [one.matrix for one in heard.calls]
    return ReadAttention(_array(tokens), _chosen(matrices, layers), None if padding is None else ~_padding(padding))


def attention_from_transformers(model: Any, *, layers: Sequence[int] | None = None, **batch: Any) -> ReadAttention:
    """Read the attention of an encoder, or of a decoder such as GPT-2, of Hugging Face's transformers.

    Args:
        model: returns `attentions` and `hidden_states`; load it with `attn_implementation="eager"`,
            since others do not compute the matrices, and call `model.eval()`, since dropout would
            act on attention.
        layers: indices of the layers wanted, all of them if None.
        batch: arguments of the model, as from its tokeniser: `input_ids`, `attention_mask`.

    Returns:
        `ReadAttention`, for `attentioned_inputs(read)`: the tokens are the output of the embedding
        layer.

    Raises:
        ValueError: a model that returns no attention or is in training, layers that are not there.

    Source: the interface of transformers 4 and 5.
    """
    modules = model.modules() if hasattr(model, "modules") else (model,)
    if any(getattr(one, "training", False) for one in modules):
        raise ValueError("model: wanted all of it in evaluation, got layers in training. Call model.eval().")
    if not callable(model) or not hasattr(model, "config"):
        raise ValueError(f"model: wanted a model of transformers, got {type(model).__name__}.")
    torch = sys.modules.get("torch")
    with nullcontext() if torch is None else torch.no_grad(), _explained("this batch", batch):
        found = model(**batch, output_attentions=True, output_hidden_states=True, return_dict=True)
    attentions, hidden = (getattr(found, name, None) for name in ("attentions", "hidden_states"))
    if not attentions or not hidden or any(one is None for one in attentions):
        raise ValueError(
            f"model: wanted attention of every layer, got none from {type(model).__name__}. Take "
            "model.set_attn_implementation('eager'), or of an encoder with a decoder model.get_encoder()."
        )
    _check_layers(model.config, attentions, hidden, getattr(found, "cross_attentions", None))
    mask = batch.get("attention_mask")
    if mask is not None:
        mask = np.asarray(getattr(mask, "cpu", lambda: mask)()) != 0
    return ReadAttention(_array(hidden[0]), _chosen(attentions, layers), mask)


@contextmanager
def _explained(what: str, options) -> Iterator[None]:
    """Name the arguments where a model's own code refuses them."""
    try:
        yield
    except (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise ValueError(
            f"model: wanted one that takes {what} with arguments {', '.join(options) or 'none'}, "
            f"got {type(error).__name__}: {error}. Arguments are tensors: call a tokeniser with return_tensors='pt'."
        ) from error


_MASKED = -1e4  # what is added to the logits of padding: minus infinity, or a large negative number
# Arguments of a MultiheadAttention.
_ARGUMENTS = [
    "query",
    "key",
    "value",
    "key_padding_mask",
    "need_weights",
    "attn_mask",
    "average_attn_weights",
    "is_causal",
]


class _Call(NamedTuple):
    """A single use of a self-attention."""

    module: Any
    query: Any
    padding: Any
    batch_first: bool
    matrix: Any


@contextmanager
def _listening(torch, model) -> Iterator[SimpleNamespace]:
    """Record all calls of self-attentions, with the matrices of their heads, dropout and fused kernels off."""
    heard = SimpleNamespace(calls=[], entered=None)

    def ask(module, arguments, options):
        named = dict(zip(_ARGUMENTS, arguments, strict=False)) | options
        return (), named | {"need_weights": True, "average_attn_weights": False}

    def hear(module, arguments, options, result):
        query, matrix = options["query"], result[1]
        for other in (options["key"], options["value"]):
            if other is not query and (other.shape != query.shape or not torch.equal(other, query)):
                raise ValueError("model: wanted attention within one sequence, got queries and keys of different ones.")
        if query.ndim != 3:
            raise ValueError(f"inputs: wanted a batch of sequences, three axes, got {tuple(query.shape)}.")
        if matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError(
                f"model: wanted as many keys as queries, got {tuple(matrix.shape[-2:])}: add_bias_kv and "
                "add_zero_attn add keys."
            )
        heard.calls.append(_Call(module, query, options.get("key_padding_mask"), module.batch_first, matrix))

    def enter(module, arguments, options):
        if heard.entered is None and not heard.calls:
            heard.entered = arguments[0] if arguments else options["src"]

    training = [(module, module.training) for module in model.modules()]
    fused = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack, torch.no_grad():
        stack.callback(torch.backends.mha.set_fastpath_enabled, fused)
        torch.backends.mha.set_fastpath_enabled(False)
        for module, was in training:
            stack.callback(setattr, module, "training", was)
            module.training = False
            if isinstance(module, torch.nn.MultiheadAttention):
                stack.callback(module.register_forward_pre_hook(ask, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(hear, with_kwargs=True).remove)
            elif isinstance(module, torch.nn.TransformerEncoderLayer):
                stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
        yield heard


def _chosen(matrices, layers) -> tuple:
    """Matrices `(examples, heads, queries, keys)` of the layers wanted, as this package has them."""
    chosen = (
        range(len(matrices))
        if layers is None
        else checks.indices("layers", layers, len(matrices), least=1, what="layers")
    )
    return tuple(np.swapaxes(_array(matrices[layer]), -1, -2) for layer in chosen)


def _array(tensor) -> Float[np.ndarray, "..."]:
    return tensor.detach().cpu().double().numpy()


def _padding(mask) -> Bool[np.ndarray, "examples tokens"]:
    """Boolean padding from PyTorch's mask of keys, which is boolean or added to the logits."""
    mask = mask.detach().cpu()
    return mask.float().numpy() < _MASKED if mask.is_floating_point() else mask.numpy()


def _check_chain(calls: list[_Call]) -> None:
    """Raise ValueError unless the attentions that were used are a chain of layers on the same tokens."""
    got = ""
    if len({id(one.module) for one in calls}) < len(calls):
        got = "one attention that is used more than once"
    elif len({tuple(one.query.shape) for one in calls}) > 1:
        got = f"inputs of shapes {[tuple(one.query.shape) for one in calls]}"
    elif any(bool((one.query == other.query).all()) for one, other in itertools.combinations(calls, 2)):
        got = "two attentions side by side on one input"
    if got:
        raise ValueError(f"model: wanted a chain of layers on the same tokens, got {got}. Read its parts one by one.")


def _check_layers(config, attentions, hidden, crossed) -> None:
    """Raise ValueError unless every layer has one self-attention, of all heads, over all tokens."""
    heads, tokens = getattr(config, "num_attention_heads", None), hidden[0].shape[1]
    got = ""
    if crossed:
        got = "cross-attention to another sequence"
    elif getattr(config, "attention_window", None):
        got = "windows of keys, as Longformer's"
    elif len(attentions) != len(hidden) - 1:
        got = f"{len(attentions)} attentions in {len(hidden) - 1} layers"
    elif any(tuple(one.shape[-2:]) != (tokens, tokens) for one in attentions):
        got = f"matrices of shape {[tuple(one.shape[-2:]) for one in attentions]} for {tokens} tokens"
    elif isinstance(heads, int) and attentions[0].shape[1] != heads:
        got = f"matrices of {attentions[0].shape[1]} heads where the model has {heads}"
    if got:
        raise ValueError(f"model: wanted a chain of layers with attention among the same tokens, got {got}.")
