"""Attention read off a network of PyTorch or Hugging Face; neither library is imported here."""

import copy
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from statmech_attention import checks
from statmech_attention.model.inputs import ReadAttention

_MASKED = -1e4  # what is added to the logits of padding: minus infinity, or a large negative number
# Convolutions, state spaces, sinks and differences of heads, by the names of their parameters in a layer.
_BESIDE = r"(?:(?!conv).)*\b(?:layers?|blocks?|h)\.\d+\..*(?:conv|mamba|sinks|lambda_q)|.*\bencoder\.conv\."
_ARGUMENTS = ["query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights"]


def attention_from_torch(model: Any, inputs: Any, *, layers: Sequence[int] | None = None, **options) -> ReadAttention:
    """Read the attention of a PyTorch network made of `torch.nn.MultiheadAttention`, in evaluation mode.

    A copy of the network runs once. The tokens are those that enter the first
    `torch.nn.TransformerEncoderLayer`, with `norm_first` before its norm, or else the first attention.

    Args:
        model: any `torch.nn.Module` with such attention, or such an attention alone.
        inputs: first argument of the model, in its layout: tokens before examples if `batch_first`
            is false, PyTorch's default.
        layers: indices of the attentions wanted, in the order of use; all of them if None.
        options: other arguments of the model, such as `src_key_padding_mask` or `key_padding_mask`.

    Raises:
        ValueError: no such network, or attentions that are no chain: each has to act on one
            sequence, and, token by token, on the output of the one before.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: wanted a torch.nn.Module, got {type(model).__name__}.")
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            calls, entered = _listened(torch, copy.deepcopy(model).eval().requires_grad_(False), inputs, options)
            _check_calls(torch, model, calls)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    tokens, padding = (entered or [calls[0].query])[0], calls[0].key_padding_mask
    if padding is not None:
        padding = (padding < _MASKED if padding.is_floating_point() else padding).cpu().numpy()
    tokens = tokens if calls[0].batch_first else tokens.transpose(0, 1)
    found = _arrays(tokens, [call.matrix for call in calls], layers)
    return ReadAttention(*found, None if padding is None else ~padding)


def attention_from_transformers(
    model: Any, *, layers: Sequence[int] | None = None, batch_size: int | None = None, **batch: Any
) -> ReadAttention | Iterator[ReadAttention]:
    """Read the attention of an encoder, or of a decoder such as GPT-2, of Hugging Face's transformers.

    Args:
        model: in evaluation mode, loaded with `attn_implementation="eager"`, since others do not
            compute the matrices. The tokens are the output of its embedding layer.
        layers: indices of the layers wanted, all of them if None.
        batch_size: examples that go through the model at a time. The result is then an iterator
            for `attentioned_inputs`, which keeps of each batch only what is read out.
        batch: arguments of the model, as from its tokeniser: `input_ids`, `attention_mask`.

    Raises:
        ValueError: a model that returns no attention or is in training, or whose attentions are no
            chain of layers among the same tokens.
    """
    if not callable(model) or not hasattr(model, "config") or not batch:
        raise ValueError(f"model: wanted a model of transformers and its inputs, got {type(model).__name__}.")
    if any(one.training for one in (model.modules() if hasattr(model, "modules") else [model])):
        raise ValueError("model: wanted all of it in evaluation, got layers in training. Call model.eval().")
    examples = len(next(iter(batch.values())))
    size = examples if batch_size is None else checks.whole("batch_size", batch_size)
    several = {name for name, one in batch.items() if hasattr(one, "__len__") and len(one) == examples}
    found = (
        _read(model, batch | {name: batch[name][start : start + size] for name in several}, layers)
        for start in range(0, examples, size)
    )
    return next(found) if batch_size is None else found


def _read(model, batch: dict, layers) -> ReadAttention:
    torch = sys.modules.get("torch")
    if torch is not None:
        batch = _tensors(torch, batch)
    with nullcontext() if torch is None else torch.no_grad():
        found = model(**batch | dict.fromkeys(("output_attentions", "output_hidden_states", "return_dict"), True))
    _check_found(model, found)
    mask = batch["input_mask"] == 0 if "input_mask" in batch else batch.get("attention_mask")  # XLNet's is the opposite
    mask = None if mask is None else np.asarray(getattr(mask, "cpu", lambda: mask)()) != 0
    return ReadAttention(*_arrays(found.hidden_states[0], found.attentions, layers), mask)


def _listened(torch, model, inputs, options) -> tuple[list, list]:
    """Run a network; return all uses of attentions, and what entered the first layer."""
    calls: list[SimpleNamespace] = []
    entered: list = []

    def ask(module, arguments, options):
        named = dict(zip(_ARGUMENTS, arguments, strict=False)) | options
        return (), named | {"need_weights": True, "average_attn_weights": False}

    def hear(module, arguments, options, result):
        output = result[0].detach().requires_grad_()  # what depends on it has a gradient
        found = {name: options.get(name) for name in ("query", "key", "value", "key_padding_mask")}
        calls.append(SimpleNamespace(**found, batch_first=module.batch_first, matrix=result[1], output=output))
        return output, result[1]

    def enter(module, arguments, options):
        if not entered and not calls:
            entered.append(arguments[0] if arguments else options["src"])

    for module in model.modules():
        if isinstance(module, torch.nn.MultiheadAttention):
            module.register_forward_pre_hook(ask, with_kwargs=True)
            module.register_forward_hook(hear, with_kwargs=True)
        elif isinstance(module, torch.nn.TransformerEncoderLayer):
            module.register_forward_pre_hook(enter, with_kwargs=True)
    inputs, first = torch.as_tensor(inputs).clone(), next(model.parameters(), torch.zeros(1))
    inputs = inputs.to(first.device, first.dtype if inputs.is_floating_point() else None)
    model(*(inputs,) * (3 if isinstance(model, torch.nn.MultiheadAttention) else 1), **_tensors(torch, options))
    return calls, entered


def _tensors(torch, given: dict) -> dict:
    """Arguments of a model with tensors for lists and arrays."""
    return {name: torch.as_tensor(one) if type(one) in (list, np.ndarray) else one for name, one in given.items()}


def _check_calls(torch, model, calls: list) -> None:
    """Raise ValueError unless each attention acts on one sequence, and on the output of the attention before it."""
    if not calls:
        raise ValueError(
            f"model: wanted a network that uses torch.nn.MultiheadAttention, got {type(model).__name__}, "
            "which does not. Pass its attention to attentioned_inputs, with layout='query_key'."
        )
    for number, call in enumerate(calls):
        got, query = "", call.query
        if not query.detach().isfinite().all():
            got = "NaN or infinity, as from a mask without any token"
        elif any(one.shape != query.shape or not torch.equal(one, query) for one in (call.key, call.value)):
            got = "queries and keys of different sequences"
        elif number and not _follows(torch, call, calls[number - 1]):
            got = "an attention that does not act, token by token, on the output of the one before, or under no_grad"
        if got:
            raise ValueError(f"model: wanted a chain of attentions among the same tokens, got {got}.")


def _follows(torch, call, before) -> bool:
    """True if the first and last tokens that enter an attention depend each on what left the one before there alone."""
    axis, tokens = int(call.batch_first), call.query.shape[int(call.batch_first)]
    for place, others in ((0, 1), (tokens - 1, 0)):
        token = call.query.select(axis, place).cumsum(-1).sum()  # weighted: a norm would keep the plain sum as it is
        if not token.requires_grad:
            return False
        gradient = torch.autograd.grad(token, before.output, retain_graph=True, allow_unused=True)[0]
        if gradient is None or gradient.shape[axis] != tokens or gradient.narrow(axis, others, tokens - 1).any():
            return False
    return True


def _check_found(model, found) -> None:
    """Raise ValueError unless every layer has one self-attention, of all heads, among the same tokens."""
    attentions, hidden = getattr(found, "attentions", None), getattr(found, "hidden_states", None)
    if not attentions or not hidden or not all(hasattr(one, "shape") for one in attentions):
        raise ValueError(
            f"model: wanted attention of every layer, got none from {type(model).__name__}. Take "
            "model.set_attn_implementation('eager'), or of an encoder with a decoder model.get_encoder()."
        )
    heads, got = getattr(model.config, "num_attention_heads", None), ""
    if getattr(found, "cross_attentions", None):
        got = "cross-attention to another sequence"
    elif any(getattr(model.config, name, None) for name in ("attention_window", "depths")):
        got = "windows of keys, as Longformer's and Swin's"
    elif len(attentions) != len(hidden) - 1:
        got = f"{len(attentions)} attentions in {len(hidden) - 1} layers"
    elif isinstance(heads, int) and any(one.shape[1] != heads for one in attentions):
        got = f"matrices of {[one.shape[1] for one in attentions]} heads where the model has {heads}"
    elif beside := [name for name, _ in getattr(model, "named_parameters", list)() if re.match(_BESIDE, name)]:
        got = f"{beside[0]}, which the matrices leave out"
    if got:
        raise ValueError(f"model: wanted a chain of layers with attention among the same tokens, got {got}.")


def _arrays(tokens, matrices, layers) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Tokens, and matrices `(examples, heads, keys, queries)` of the layers wanted, in double precision."""
    count = len(matrices)
    chosen = range(count) if layers is None else checks.indices("layers", layers, count, least=1, what="layers")
    tokens, *found = (one.detach().cpu().double().numpy() for one in (tokens, *(matrices[layer] for layer in chosen)))
    return tokens, tuple(np.swapaxes(one, -1, -2) for one in found)
