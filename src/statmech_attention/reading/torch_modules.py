"""Attention read off a network of `torch.nn.MultiheadAttention`; PyTorch is not imported here."""

from collections.abc import Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np

from statmech_attention import checks
from statmech_attention.model.inputs import ReadAttention, attended, in_numpy, keys_first
from statmech_attention.reading.alone import check_alike, in_front, of_one, shortest
from statmech_attention.reading.as_given import check_there, copied, loaded, tensors, whole_input, with_gradients
from statmech_attention.reading.gates import read_gates
from statmech_attention.reading.trials import (
    ELSE,
    TOLERANCE,
    by_itself,
    carried,
    changed,
    changing,
    check_sum,
    in_double,
    mixing,
    reaches,
    said,
)

_ARGUMENTS = ["query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights"]


@with_gradients
def attention_from_torch(
    model: Any, inputs: Any, *, layers: Sequence[int] | None = None, test: bool = True, gates: bool = False, **options
) -> ReadAttention:
    """Read the attention of a PyTorch network made of `torch.nn.MultiheadAttention`, in evaluation mode.

    A copy of the network runs. The tokens are those that enter the first
    `torch.nn.TransformerEncoderLayer`, with `norm_first` before its norm, or else the values of the
    first attention. Padding is what the key padding mask hides; if the mask is of numbers or there is
    none, it is the tokens to which no query attends in any layer.

    Args:
        model: any `torch.nn.Module` with such attention, or such an attention alone.
        inputs: first argument of the model, in its layout: tokens before examples if `batch_first`
            is false, PyTorch's default.
        layers: indices of the attentions wanted, in the order of use; all of them if None.
        test: whether what is wanted has to pass tests: each attention, called by itself on random tokens, is a
            sum over heads with fixed matrices; and each token that enters a wanted attention depends on the
            same token of the one before alone. They cost three forward passes and three backward ones, in
            double precision.
        gates: whether to read the gates of the feed-forward blocks, too, see `reading.gates`.
        options: other arguments of the model, such as `src_key_padding_mask` or `key_padding_mask`.

    Raises:
        ValueError: no such network, an attention that is no such sum, or attentions wanted that are no chain:
            each has to act on one sequence, and, token by token, on the output of the one before.
    """
    torch = loaded()
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: wanted a torch.nn.Module, got {type(model).__name__}.")
    check_there(model)
    test, gates, inputs = checks.flag("test", test), checks.flag("gates", gates), whole_input(torch, inputs)
    model = copied(torch, model).eval().requires_grad_(False)
    calls, entered = _listened(torch, model, inputs, options)
    count = len(calls)
    if not calls:
        raise ValueError(
            f"model: wanted a network that uses torch.nn.MultiheadAttention, got {type(model).__name__}, "
            "which does not. Pass its attention to attentioned_inputs, with layout='query_key'."
        )
    chosen = range(count) if layers is None else checks.indices("layers", layers, count, least=1, what="layers")
    wanted = [calls[layer] for layer in chosen]
    _check_calls(wanted)
    if test:
        for layer in chosen:
            check_sum(layer, by_itself(torch, calls[layer].module))
        _check_links(torch, model, inputs, options, chosen, bool(entered))
    tokens = (entered or [calls[0].value])[0]
    tokens = tokens if calls[0].batch_first else tokens.transpose(0, 1)
    matrices, padding = keys_first(call.matrix for call in wanted), _padding(calls, wanted)
    _check_alone(torch, model, inputs, options, chosen, [tokens, *(call.matrix for call in wanted)], padding, test)
    read = ReadAttention(in_numpy(tokens), matrices, padding)
    if not gates:
        return read
    own = inputs.to(tokens.device)
    own = own.to(tokens.dtype) if own.is_floating_point() else own
    found = read_gates(torch, model, {"0": own} | tensors(torch, options), count, test)
    first = calls[0].batch_first
    return read._replace(gates=tuple(found[layer] if first else found[layer].swapaxes(0, 1) for layer in chosen))


def _check_alone(torch, model, inputs, options, chosen, batch: list, mask, test: bool) -> None:
    """Raise ValueError if an example is read otherwise than alone; not where it is unclear which axis is which."""
    shape, batch_first = tuple(batch[0].shape[:2]), _batch_first(model)
    one = shortest(np.ones(shape, bool) if mask is None else mask)
    if one is None or not (test or in_front(one[1])):
        return
    if shape[0] == shape[1] or any(matrix.shape[::3] != shape for matrix in batch[1:]):
        return
    try:
        given = {name: _of_one(value, *one, shape) for name, value in tensors(torch, options).items()}
        turned = not batch_first and tuple(inputs.shape[:2]) == shape[::-1]
        own = of_one(inputs.transpose(0, 1) if turned else inputs, *one, shape)
        calls, entered = _listened(torch, model, own.transpose(0, 1) if turned else own, given)
    except (RuntimeError, IndexError, TypeError):  # arguments of shapes of their own
        return
    tokens = (entered or [calls[0].value])[0]
    alone = [tokens if calls[0].batch_first else tokens.transpose(0, 1), *(calls[layer].matrix for layer in chosen)]
    check_alike(*one, batch, alone, named="position_ids" in options)


def _batch_first(model) -> bool:
    return all(getattr(module, "batch_first", True) for module in model.modules())


def _of_one(value, example: int, places, shape: tuple[int, int]):
    """An option for one example; masks of queries and keys are of all examples, or of examples and heads."""
    square = getattr(value, "ndim", 0) > 1 and tuple(value.shape[-2:]) == 2 * shape[1:]
    if square and value.ndim == 3:
        value = value.unflatten(0, (shape[0], -1))[example]
    return value[..., places, :][..., places] if square else of_one(value, example, places, shape)


def _padding(calls: list, wanted: list) -> np.ndarray | None:
    """True for a token, by the mask of a wanted attention, or else by what all attentions look at."""
    masks = [call.key_padding_mask for call in wanted if call.key_padding_mask is not None]
    if masks and not masks[0].is_floating_point():
        return ~masks[0].cpu().numpy()
    examples, *_, keys = wanted[0].matrix.shape
    alike = [call.matrix for call in calls if call.matrix.ndim == 4 and call.matrix.shape[::3] == (examples, keys)]
    seen = attended(keys_first(alike)) if alike else np.ones(1, bool)
    return None if not masks and seen.all() else seen


def _listened(torch, model, inputs, options, before: tuple | None = None) -> tuple[list, list]:
    """Run a network; return all uses of attentions, and what entered the first layer.

    With `before`, what an earlier run returned, half of the tokens of then are changed, and go on.
    """
    calls: list[SimpleNamespace] = []
    entered: list = []

    def ask(module, arguments, options):
        named = dict(zip(_ARGUMENTS, arguments, strict=False)) | options
        return tuple(named.pop(name) for name in _ARGUMENTS[:3]), named | {
            "need_weights": True,
            "average_attn_weights": False,
        }

    def hear(module, arguments, options, result):
        output = result[0].detach().requires_grad_()  # what depends on it has a gradient
        if before:
            output = changed(before[0][len(calls)].output, changing(output.shape[:2]))
        fields = dict(zip(_ARGUMENTS, arguments, strict=False)) | {"key_padding_mask": options.get("key_padding_mask")}
        fields |= {"module": module, "batch_first": module.batch_first, "matrix": result[1]}
        calls.append(SimpleNamespace(**fields, output=output))
        return output, result[1]

    def enter(module, arguments, options):
        if entered or calls:
            return None
        tokens, *others = arguments or [options["src"]]
        entered.append(changed(before[1][0], changing(tokens.shape[:2])) if before else tokens)
        return (entered[0], *others), {name: value for name, value in options.items() if name != "src"}

    inputs, first = inputs.clone(), next(model.parameters(), torch.zeros(1))
    inputs = inputs.to(first.device, first.dtype if inputs.is_floating_point() else None)
    if inputs.is_floating_point():
        inputs.requires_grad_()
    fused = torch.backends.mha
    with ExitStack() as stack, torch.inference_mode(False), torch.enable_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.MultiheadAttention):
                stack.callback(module.register_forward_pre_hook(ask, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(hear, with_kwargs=True).remove)
            elif isinstance(module, torch.nn.TransformerEncoderLayer):
                stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
        stack.callback(fused.set_fastpath_enabled, fused.get_fastpath_enabled())
        fused.set_fastpath_enabled(False)
        model(*(inputs,) * (3 if isinstance(model, torch.nn.MultiheadAttention) else 1), **tensors(torch, options))
    return calls, entered


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


def _check_links(torch, model, inputs, options, chosen, in_layers: bool) -> None:
    """Raise ValueError unless the values of each attention depend, token by token, on the output of the one before."""
    links = list(range(min(chosen) + 1, max(chosen) + 1))
    ahead = [0] if in_layers and min(chosen) == 0 else []  # a layer's own part before its attention counts
    if not links + ahead:
        return

    def twice(model, options):
        """The second time half of the tokens are changed."""
        before = _listened(torch, model, inputs, options)
        return *before, _listened(torch, model, inputs, options, before)[0]

    calls, entered, others = in_double(torch, model, tensors(torch, options), twice)
    for link in reversed(links):
        if not reaches(torch, calls[link - 1].output, calls[link].value):
            _check_link(link, np.inf)
    start = (entered or [calls[min(chosen)].value])[0]  # what goes past all attentions counts too
    shape, targets = calls[min(chosen)].value.shape[:2], [calls[link].value for link in ahead + links]
    sources = {link: calls[link - 1].output for link in links}
    if start.requires_grad and start.shape[:2] == shape and any(target.requires_grad for target in targets):
        sources[min(chosen)] = start
    every = np.ones(shape, bool)
    shares = dict(zip(sources, mixing(torch, list(sources.values()), targets, every), strict=True))
    for link in sorted(shares, reverse=True):  # a source mixes on the way to all that is behind
        _check_link(link, shares[link])
    for link in ahead + links:
        _check_link(link, carried(calls[link].value, others[link].value, changing(shape), every))


def _check_link(link: int, share: float) -> None:
    """Raise ValueError if a share of what comes from one token is carried to others."""
    if not share <= TOLERANCE:
        got = "or under no_grad" if share == np.inf else f"of which {said(share)} is carried to other tokens"
        raise ValueError(
            "model: wanted a chain of attentions among the same tokens, got an attention that does not act, token by "
            f"token, on the output of the one before, {got}, at attention {link}. {ELSE}"
        )
