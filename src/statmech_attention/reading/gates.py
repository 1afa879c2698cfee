r"""Gates of the feed-forward blocks of a network of PyTorch, by what its matrices take; it is not imported here.

A block takes tokens $z$ to $x + W_2 u$ with $u = g \circ h$ and $h = W_1 z + b_1$. So among all matrices of the
network two are sought, of which one returns $h$ and one later takes $u$, where each entry of $u$ depends on
the same entry of $h$ alone: for GELU, ReLU and SiLU $g = \varphi(h) / h$. In a gated linear unit $u$ depends on
two matrices in this way, and $h$ is the one in which it is linear. What leaves $W_2$ must be added to the
tokens that enter the block, or the norm before it: the derivatives of the network's output in both are then the same,
where $W_1$ takes constants.
"""

from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from statmech_attention.reading.trials import ELSE, TOLERANCE, in_double, said


class _Call(NamedTuple):
    """A call of a matrix: what entered, and what left."""

    entered: Any
    left: Any


class _Block(NamedTuple):
    """The numbers of the calls that return $h$, that take $u$, and on which $u$ depends; columns of $h$; gates."""

    first: int
    last: int
    sides: set[int]
    columns: slice
    gates: Any


def read_gates(torch, model, ask: dict, blocks: int, test: bool = True) -> list[Float[np.ndarray, "..."]]:
    """Gates `(examples, tokens, units)` of all blocks of a model, in their order, and in its own layout of tokens.

    `ask` are the arguments of the model by name, or by the digits of their positions.

    Raises:
        ValueError: another number of blocks, or with `test` one that is not added to its tokens.
    """
    found = _found(torch, _listened(torch, model, ask)[0])
    if len(found) != blocks:
        raise ValueError(
            f"model: wanted a feed-forward block W_2 phi(W_1 x) behind each of {blocks} attentions, got {len(found)} "
            f"in which a matrix takes a function of the single entries that another one returns. {ELSE}"
        )
    if test:
        shares = in_double(torch, model, ask, lambda model, ask: _unexplained(torch, model, ask, found))
        for number, share in enumerate(shares):
            if not share <= TOLERANCE:
                got = f"{said(share)} of the output's derivative unexplained in block {number}"
                raise ValueError(f"model: wanted blocks that a skip adds to what enters them, got {got}. {ELSE}")
    return [block.gates.detach().cpu().double().numpy() for block in found]


def _listened(torch, model, ask: dict, cut: set[int] | None = None) -> tuple[list[_Call], dict, Any]:
    """Calls of all matrices, at which the graph begins again; norms by what leaves them; the output.

    With `cut` the graph stays whole, but these calls take constants.
    """
    calls: list[_Call] = []
    norms: dict[int, tuple] = {}
    opened: list[int] = []

    def before(module, arguments):
        opened.append(len(calls))
        calls.append(_Call(_traced(torch, arguments), None))
        if cut is None or opened[-1] not in cut:
            return None
        return (arguments[0].detach(), *arguments[1:])

    def after(module, arguments, result):
        number = opened.pop()
        if not torch.is_tensor(result) or result.ndim != 3:
            return None
        left = _traced(torch, [result.detach() if cut is None else result])
        calls[number] = calls[number]._replace(left=left)
        return left

    def marked(module, arguments):
        _traced(torch, arguments)

    def normed(module, arguments, result):
        if arguments:
            norms[id(result)] = arguments[0], result  # kept, so that no other tensor gets its number

    with ExitStack() as stack, torch.enable_grad():
        for module in model.modules():
            own = [parameter.ndim for parameter in module.parameters(recurse=False)]
            if max(own, default=0) == 2 and not isinstance(module, torch.nn.Embedding | torch.nn.MultiheadAttention):
                stack.callback(module.register_forward_pre_hook(before).remove)
                stack.callback(module.register_forward_hook(after).remove)
            elif own and max(own) == 1:
                stack.callback(module.register_forward_pre_hook(marked).remove)
                stack.callback(module.register_forward_hook(normed).remove)
        fused = torch.backends.mha
        stack.callback(fused.set_fastpath_enabled, fused.get_fastpath_enabled())
        fused.set_fastpath_enabled(False)
        given = {name: value.detach().clone() if torch.is_tensor(value) else value for name, value in ask.items()}
        named = {name: value for name, value in given.items() if not name.isdigit()}
        result = model(*(given[name] for name in sorted(set(given) - set(named))), **named)
    output = result if torch.is_tensor(result) else next(one for one in _values(result) if torch.is_tensor(one))
    return calls, norms, output


def _values(result):
    return result.values() if isinstance(result, dict) else result


def _traced(torch, arguments):
    """The first argument, with a gradient if it can have one."""
    tokens = arguments[0] if arguments else None
    if torch.is_tensor(tokens) and tokens.is_floating_point() and not tokens.requires_grad:
        tokens.requires_grad_()
    return tokens


def _found(torch, calls: list[_Call]) -> list[_Block]:
    """Pairs of matrices between which entries stay apart."""
    blocks: list[_Block] = []
    for last, call in enumerate(calls):
        units = call.entered
        if not torch.is_tensor(units) or units.ndim != 3 or units.grad_fn is None:
            continue
        ways = [
            _Block(first, last, {first}, columns, gates)
            for first in range(blocks[-1].last if blocks else 0, last)
            if calls[first].left is not None
            for columns in _columns(calls[first].left, units)
            for gates in _gates(torch, calls[first].left, columns, units)
        ]
        if ways:
            linear = [way for way in ways if _linear(torch, way, calls)]
            blocks.append((linear or ways)[-1]._replace(sides={way.first for way in ways}))
    return blocks


def _columns(left, units) -> list[slice]:
    """Parts of what a matrix returned in which $h$ may be: all of it, or its first or last half."""
    count = units.shape[-1]
    if left.shape[:-1] != units.shape[:-1] or left.shape[-1] not in (count, 2 * count):
        return []
    return [slice(start, start + count) for start in range(0, left.shape[-1], count)]


def _gates(torch, left, columns: slice, units) -> list:
    """The gates, if every entry of $u$ depends on that of $h$ alone, else none."""
    random = torch.Generator().manual_seed(0)
    weights = torch.rand(units.shape, generator=random).to(units) + 0.5
    half = weights * (torch.rand(units.shape, generator=random).to(units) < 0.5)

    def slope(weights):
        (found,) = torch.autograd.grad((weights * units).sum(), left, retain_graph=True, allow_unused=True)
        return None if found is None else found[..., columns]

    whole, part = slope(weights), slope(half)
    if whole is None or not whole.any() or (part - whole * half / weights).abs().max() > TOLERANCE * whole.abs().max():
        return []
    field, slopes = left[..., columns].detach(), whole / weights
    gates = torch.where(field == 0, slopes, units.detach() / torch.where(field == 0, 1.0, field))
    return [] if (gates - 1).abs().max() <= TOLERANCE else [gates]  # a product of matrices


def _linear(torch, block: _Block, calls: list[_Call]) -> bool:
    """Tell whether $u$ is linear in $h$."""
    units, left = calls[block.last].entered, calls[block.first].left
    (slopes,) = torch.autograd.grad(units.sum(), left, retain_graph=True)
    return bool((slopes[..., block.columns] - block.gates).abs().max() <= TOLERANCE * block.gates.abs().max())


def _unexplained(torch, model, ask: dict, blocks: list[_Block]) -> list[float]:
    """Difference of derivatives in a block's output from those in the tokens that enter it, or its norm."""
    model.requires_grad_(False)
    calls, norms, output = _listened(torch, model, ask, set().union(*(block.sides for block in blocks)))
    tokens = [calls[block.first].entered for block in blocks]
    ends = [calls[block.last].left for block in blocks], tokens, [norms.get(id(one), (one,))[0] for one in tokens]
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    total = (weights * output).sum()
    slopes = [torch.autograd.grad(total, each, retain_graph=True, allow_unused=True) for each in ends]
    return [min(_apart(block, one) for one in others) for block, *others in zip(*slopes, strict=True)]


def _apart(one, other) -> float:
    if one is None or other is None or not one.any():
        return np.inf
    return float((one - other).abs().max() / one.abs().max())
