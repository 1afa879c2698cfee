"""Heads of somebody's model, silenced where they lie beside each other, and heard again afterwards."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from statmech_attention import checks
from statmech_attention.reading.as_given import (
    check_there,
    eager,
    inner_model,
    loaded,
    tensors,
    whole_input,
    with_gradients,
)

# Of gradients in single precision, or so many roundings; heads that are mixed differ by as much as they are large.
_ROUNDING, _TIMES = 1e-3, 16


class Place(NamedTuple):
    """A place where the heads of an attention lie beside each other: what the call `number` of a module takes.

    Attributes:
        module: the matrix that multiplies them, or a MultiheadAttention, which has it inside.
        number: of the call, None if there is one.
        heads: how many.
    """

    module: Any
    number: int | None
    heads: int


def only_heads(
    model: Any, kept: Sequence, inputs: Any = None, *, layers: Sequence[int] | None = None, **batch: Any
) -> ExitStack:
    """Silence all heads of a model but some: what the output matrix takes from the others is zero.

    The model is changed at once, by hooks, and stays so until the block of a `with` ends, or `close()` is
    called. Nothing is copied or trained. Where heads share keys and values, only whole groups could be cut out
    of the matrices; any head can be silenced.

    Args:
        model: of PyTorch, with `torch.nn.MultiheadAttention`, or of transformers, as for the readers.
        kept: heads counted through the layers, such as `select_heads(..).kept`; those of every layer, as in
            `((0, 1), (0,))`; or an array of pairs (layer, head), such as `found.heads[found.kept]`.
        inputs, batch: a few examples, as for the readers, by which the places of the heads are found. A network
            of PyTorch needs them only if its attentions are used in another order than they are made, and a
            model of transformers that takes `input_ids` goes without.
        layers: as for the readers: `kept` counts the heads of these, and all others stay.

    Raises:
        ValueError: an attention whose heads do not lie beside each other in what a matrix takes; a head that is
            not there.
    """
    torch, model = network(model)
    every = places(torch, model, inputs, batch)
    every = (
        every
        if layers is None
        else [every[layer] for layer in checks.indices("layers", layers, len(every), least=1, what="layers")]
    )
    return silenced(torch, model, every, _switches(kept, [place.heads for place in every]))


def _switches(kept, heads: list[int]) -> list[np.ndarray]:
    """One for heads that are kept, zero for the others, layer by layer."""
    if not np.iterable(kept) or isinstance(kept, str):
        raise ValueError(f"kept: wanted numbers of heads, or heads of every layer, got {kept!r}.")
    pairs, ends = isinstance(kept, np.ndarray) and kept.ndim == 2 and kept.shape[1] == 2, np.cumsum(heads)
    kept = _by_layer(np.asarray(kept), len(heads)) if pairs else list(kept)
    if not any(map(np.iterable, kept)):
        numbers = checks.indices("kept", kept, sum(heads), what="heads, counted through the layers,")
        kept = [one - first for one, first in zip(_split(numbers, ends), ends - heads, strict=True)]
    checks.same("kept", "kept", len(kept), "the layers", len(heads))
    by_layer = list(zip(kept, heads, strict=True))
    some = [checks.indices("kept", numbers, count, what="heads of a layer") for numbers, count in by_layer]
    return [np.isin(np.arange(count), these).astype(float) for these, count in zip(some, heads, strict=True)]


def _by_layer(pairs: np.ndarray, layers: int) -> list[np.ndarray]:
    """The heads of every layer, from pairs (layer, head)."""
    checks.indices("kept", np.unique(pairs[:, 0]), layers, what="layers")
    return [pairs[pairs[:, 0] == layer, 1] for layer in range(layers)]


def _split(numbers: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Numbers by layer."""
    layer = np.searchsorted(ends, numbers, side="right")
    return [numbers[layer == one] for one in range(len(ends))]


def network(model) -> tuple[Any, Any]:
    """PyTorch, and the network in what was given."""
    torch, given = loaded(), type(model).__name__
    model = model if torch is None else inner_model(torch, model)
    if torch is None or not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: wanted a network of PyTorch or transformers, got {given}.")
    check_there(model)
    if any(parameter.is_inference() for parameter in model.parameters()):
        got = "some of inference_mode"
        raise ValueError(f"model: wanted weights that gradients pass, got {got}. Take copy.deepcopy(model).")
    return torch, model


@with_gradients
def places(torch, model, inputs, batch: dict) -> list[Place]:
    """The places of the heads of all attentions, in the order of use."""
    if hasattr(model, "config"):
        return _beside(torch, model, batch or _words(torch, model))
    kinds = torch.nn.MultiheadAttention
    used = [module for module in model.modules() if isinstance(module, kinds)]
    if inputs is not None:
        used = _used(torch, model, inputs, batch, used)
    if not used:
        raise ValueError(f"model: wanted attention of torch.nn.MultiheadAttention, got none in {type(model).__name__}.")
    several, calls = Counter(used), Counter[Any]()
    found = []
    for module in used:
        found.append(Place(module, calls[module] if several[module] > 1 else None, module.num_heads))
        calls[module] += 1
    return found


def _used(torch, model, inputs, batch: dict, among: list) -> list:
    """Attentions in the order in which a run uses them."""
    used: list = []
    with ExitStack() as stack, torch.no_grad():
        for module in among:
            stack.callback(module.register_forward_pre_hook(lambda module, _: used.append(module)).remove)
        given = whole_input(torch, inputs)
        model(*(given,) * (3 if isinstance(model, torch.nn.MultiheadAttention) else 1), **tensors(torch, batch))
    return used


def _words(torch, model) -> dict:
    """Any five words, twice."""
    if getattr(model, "main_input_name", "") != "input_ids":
        raise ValueError(
            "batch: wanted a few inputs of the model, as its tokeniser or processor returns them, got none."
        )
    words = torch.arange(10).reshape(2, 5) % model.get_input_embeddings().weight.shape[0]
    return {"input_ids": words.to(next(model.parameters()).device)}


def _beside(torch, model, batch: dict) -> list[Place]:
    """Those of a model of transformers: inputs of matrices in which each head has numbers of its own."""
    heard: list[tuple] = []
    calls: Counter = Counter()

    def hear(module, arguments, named):
        tensor = next((one for one in [*arguments, *named.values()] if torch.is_tensor(one)), None)
        if tensor is not None and tensor.requires_grad:
            heard.append((module, calls[module], tensor))
        calls[module] += 1

    asked = {"output_attentions": True, "return_dict": True}
    with ExitStack() as stack, eager(model):
        for parameter in model.parameters():
            if parameter.is_floating_point():
                stack.callback(parameter.requires_grad_, parameter.requires_grad)
                parameter.requires_grad_(True)
        for module in model.modules():
            stack.callback(module.register_forward_pre_hook(hear, with_kwargs=True).remove)
        matrices = getattr(model(**_few(torch, tensors(torch, batch)) | asked), "attentions", None)
        if not matrices:
            raise ValueError(
                f"model: wanted attention of every layer, got none from {type(model).__name__}. "
                "Take of an encoder with a decoder model.get_encoder()."
            )
        found = [_found(torch, matrix, heard, layer) for layer, matrix in enumerate(matrices)]
    return [Place(module, call if calls[module] > 1 else None, heads) for module, call, heads in found]


def _few(torch, batch: dict) -> dict:
    """The first two examples of a batch."""
    count = max(len(value) for value in batch.values() if torch.is_tensor(value) and value.ndim)
    return {
        name: value[:2] if torch.is_tensor(value) and value.ndim and len(value) == count else value
        for name, value in batch.items()
    }


def _found(torch, matrix, heard: list, layer: int) -> tuple:
    """The outermost call that takes the same as the first matrix which takes the heads beside each other.

    What is added to a matrix, as by LoRA, takes the heads, too.
    """
    heads = matrix.shape[1]
    for module, _, tensor in heard:
        if _is_matrix(torch, module) and tensor.shape[-1] % heads == 0 and _is_beside(torch, matrix, tensor, heads):
            return next((outer, call, heads) for outer, call, same in heard if same is tensor)
    raise ValueError(
        f"model: wanted heads that lie beside each other in what a matrix takes, got none of attention {layer}, "
        "as behind a norm of all heads. Cut them out by hand."
    )


def _is_matrix(torch, module) -> bool:
    """True for a module with a matrix of its own, or one that is made of others."""
    own = any(parameter.ndim > 1 for parameter in module.parameters(recurse=False))
    return own or torch.nn.utils.parametrize.is_parametrized(module)


def _is_beside(torch, matrix, tensor, heads: int) -> bool:
    """True if each head's part of a tensor depends on the head's own attention alone, by gradients."""
    random = np.random.default_rng(0)
    weights = tensor.new_tensor(random.normal(size=tuple(tensor.shape)))
    factors = tensor.new_tensor(random.normal(size=heads))
    scaled = (weights.unflatten(-1, (heads, -1)) * factors[:, None]).flatten(-2)
    if not matrix.requires_grad:
        return False
    first, second = (
        torch.autograd.grad((weight * tensor).sum(), matrix, retain_graph=True, allow_unused=True)[0]
        for weight in (weights, scaled)
    )
    if first is None or not first.any():
        return False
    rounding = max(_ROUNDING, _TIMES * torch.finfo(second.dtype).eps)
    return bool((second - factors[:, None, None] * first).abs().max() <= rounding * second.abs().max())


def silenced(torch, model, some: Sequence[Place], factors: Sequence) -> ExitStack:
    """Multiply each head by its factor, as long as the stack is open; factors may be tensors that need a gradient."""
    stack, calls = ExitStack(), Counter[int]()
    stack.callback(model.register_forward_pre_hook(lambda *_: calls.clear()).remove)
    modules = {id(place.module): place.module for place in some}
    for name, module in modules.items():
        own = {place.number: these for place, these in zip(some, factors, strict=True) if place.module is module}

        def now(name=name, own=own):
            """The factors of the heads in this call."""
            calls[name] += 1
            return own.get(None if None in own else calls[name] - 1)

        inside = isinstance(module, torch.nn.MultiheadAttention)
        for hook in (_inside if inside else _before)(torch, module, now):
            stack.callback(hook.remove)
        if inside:  # nested tensors know no hooks
            fused = torch.backends.mha
            stack.callback(fused.set_fastpath_enabled, fused.get_fastpath_enabled())
            fused.set_fastpath_enabled(False)
    return stack


def _before(torch, module, now: Callable) -> list:
    """Hooks at the matrix that takes the heads."""

    def change(module, arguments, named):
        factors = now()
        if factors is None:
            return None
        given = [*arguments, *named.values()]
        first = next(place for place, one in enumerate(given) if torch.is_tensor(one))
        given[first] = _scaled(torch, given[first], factors)
        return tuple(given[: len(arguments)]), dict(zip(named, given[len(arguments) :], strict=True))

    return [module.register_forward_pre_hook(change, with_kwargs=True)]


def _inside(torch, module, now: Callable) -> list:
    """Hooks at a MultiheadAttention, which multiply the columns of its output matrix."""
    output, held = module.out_proj, list[Any]()
    if "weight" not in output._parameters:
        raise ValueError("model: wanted output matrices that are parameters, got one that is made of others.")

    def change(module, _):
        factors = now()
        if factors is not None:
            held.append(output._parameters.pop("weight"))
            output.__dict__["weight"] = _scaled(torch, held[-1], factors)

    def back(*_) -> None:
        if held:
            del output.__dict__["weight"]
            output._parameters["weight"] = held.pop()

    return [module.register_forward_pre_hook(change), module.register_forward_hook(back, always_call=True)]


def _scaled(torch, tensor, factors):
    """A tensor whose last axis has the heads beside each other, with each multiplied by its factor."""
    factors = torch.as_tensor(factors).to(tensor)
    return (tensor.unflatten(-1, (len(factors), -1)) * factors[:, None]).flatten(-2)
