"""Attention read off a network of `torch.nn.MultiheadAttention`; PyTorch is not imported here."""

import copy
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from statmech_attention import checks
from statmech_attention.model.inputs import ReadAttention, attended, double_arrays
from statmech_attention.model.listening import tensors
from statmech_attention.model.trials import ELSE, TOLERANCE, mixing, reaches

_ARGUMENTS = ["query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights"]


def attention_from_torch(
    model: Any, inputs: Any, *, layers: Sequence[int] | None = None, test: bool = True, **options
) -> ReadAttention:
    """Read the attention of a PyTorch network made of `torch.nn.MultiheadAttention`, in evaluation mode.

    A copy of the network runs. The tokens are those that enter the first
    `torch.nn.TransformerEncoderLayer`, with `norm_first` before its norm, or else the values of the
    first attention. Padding is what the key padding mask hides; if the mask is of numbers, it is the
    tokens to which no query attends.

    Args:
        model: any `torch.nn.Module` with such attention, or such an attention alone.
        inputs: first argument of the model, in its layout: tokens before examples if `batch_first`
            is false, PyTorch's default.
        layers: indices of the attentions wanted, in the order of use; all of them if None.
        test: whether each token that enters a wanted attention has to depend on the same token of the
            one before alone. It costs one further forward pass and three backward ones, in double precision.
        options: other arguments of the model, such as `src_key_padding_mask` or `key_padding_mask`.

    Raises:
        ValueError: no such network, or attentions wanted that are no chain: each has to act on one
            sequence, and, token by token, on the output of the one before.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: wanted a torch.nn.Module, got {type(model).__name__}.")
    model = copy.deepcopy(model).eval().requires_grad_(False)
    calls, entered = _listened(torch, model, inputs, options)
    count = len(calls)
    if not calls:
        raise ValueError(
            f"model: wanted a network that uses torch.nn.MultiheadAttention, got {type(model).__name__}, "
            "which does not. Pass its attention to attentioned_inputs, with layout='query_key'."
        )
    chosen = range(count) if layers is None else checks.indices("layers", layers, count, least=1, what="layers")
    _check_calls([calls[layer] for layer in chosen])
    links = range(min(chosen) + 1, max(chosen) + 1)
    if test and links:
        tested, before = _double(torch, model, inputs, options) or (calls, entered)
        _check_links(torch, tested, (before or [tested[min(chosen)].value])[0], links)
    tokens, padding = (entered or [calls[0].value])[0], calls[0].key_padding_mask
    tokens = tokens if calls[0].batch_first else tokens.transpose(0, 1)
    found = double_arrays(tokens, [calls[layer].matrix for layer in chosen])
    if padding is None or padding.is_floating_point():
        return ReadAttention(*found, None if padding is None else attended(found[1]))
    return ReadAttention(*found, ~padding.cpu().numpy())


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
    if inputs.is_floating_point():
        inputs.requires_grad_()
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            model(*(inputs,) * (3 if isinstance(model, torch.nn.MultiheadAttention) else 1), **tensors(torch, options))
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return calls, entered


def _double(torch, model, inputs, options) -> tuple[list, list] | None:
    """All uses of attentions in double precision, None if the network has parts that do not work in it."""
    options = {
        name: one.double() if torch.is_tensor(one) and one.is_floating_point() else one
        for name, one in tensors(torch, options).items()
    }
    try:
        return _listened(torch, copy.deepcopy(model).double().requires_grad_(), inputs, options)
    except RuntimeError:
        return None


def _check_calls(calls: list) -> None:
    """Raise ValueError unless each attention acts on one sequence; its values may be without positions."""
    for call in calls:
        got = ""
        if not call.query.detach().isfinite().all():
            got = "NaN or infinity, as from a mask without any token"
        elif not call.query.shape == call.key.shape == call.value.shape or (call.key != call.query).any():
            got = "queries and keys of different sequences"
        if got:
            raise ValueError(f"model: wanted a chain of attentions among the same tokens, got {got}. {ELSE}")


def _check_links(torch, calls: list, first, links: range) -> None:
    """Raise ValueError unless the values of each attention depend, token by token, on the output of the one before."""
    sources, targets = [calls[link - 1].output for link in links], [calls[link].value for link in links]
    missed = [not reaches(torch, *pair) for pair in zip(sources, targets, strict=True)]
    found = [np.inf if one else 0.0 for one in missed]
    if not any(missed):
        # What goes past all attentions counts too.
        sources += [first] if first.requires_grad and first.shape[:2] == targets[0].shape[:2] else []
        found = mixing(torch, sources, targets, np.ones(targets[0].shape[:2], bool))
    if not max(found) <= TOLERANCE:
        last = max(number for number, one in enumerate(found) if not one <= TOLERANCE)
        share = "" if found[last] == np.inf else f" ({found[last]:.1%} of the gradient)"
        raise ValueError(
            "model: wanted a chain of attentions among the same tokens, got an attention that does not act, token by "
            f"token, on the output of the one before{share}, or under no_grad, at attention "
            f"{[*links, links[0]][last]}. {ELSE}"
        )
