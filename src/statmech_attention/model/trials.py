"""Trials of a network: is its attention a sum over heads, and does nothing beside attention mix tokens?

No part is known by its name; what is tried is what the network does with random numbers. The cost is
three further forward passes and three backward ones.
"""

import copy
from typing import NamedTuple

import numpy as np

from statmech_attention.model.listening import Run

# What rounding may leave: parts of many models compute in single precision, even in a model in double precision.
TOLERANCE = 1e-5
ELSE = (
    "Take layers=[..] or a submodule without it; or give matrices that you compute yourself to attentioned_inputs, "
    "with layout='query_key'; or take it as it is with test=False."
)


class Residuals(NamedTuple):
    """What three tests leave unexplained at one attention, as shares of what is to be explained.

    Attributes:
        layer: number of the attention, in the order of use.
        values: its output for random tokens, compared with a sum over heads with fixed matrices.
        heads: the same with all its weights changed at random, so that none passes by chance.
        tokens: how much of what comes from the attention before, or from the tokens, is carried to other tokens.
    """

    layer: int
    values: float
    heads: float
    tokens: float


def unexplained(matrices, sizes, outputs, counted, skip: bool = False) -> float:
    r"""Return the share of outputs $y_t$ that is no $\sum_h u_h \sum_s \Omega^h_{st} c_s + b$, held out from the fit.

    For tokens $x_s = c_s \delta$ along one direction, $u_h = M_h \delta$ is one vector per head. The
    sums of the matrices are fitted too, for a bias of the values, and with `skip` $c_t$.

    Args:
        matrices: `(examples, heads, keys, queries)`.
        sizes: $c$, `(examples, tokens)`.
        outputs: `(examples, tokens, features)`.
        counted: `(examples, tokens)`, true for a token.
    """
    parts = [np.einsum("ehst,es->eth", matrices, sizes), np.swapaxes(matrices.sum(axis=2), 1, 2)]
    parts += [np.ones((*sizes.shape, 1)), *([sizes[..., None]] if skip else [])]
    features, wanted = np.concatenate(parts, axis=-1)[counted], outputs[counted]
    if not np.isfinite(features).all() or not np.isfinite(wanted).all():
        return np.inf
    order = np.random.default_rng(0).permutation(len(wanted))
    fitted, others = np.split(order, [2 * len(order) // 3])
    found = np.linalg.lstsq(features[fitted], wanted[fitted], rcond=1e-10)[0]
    size = np.std(wanted - wanted.mean(axis=0))
    missed = np.sqrt(np.mean((wanted[others] - features[others] @ found) ** 2))
    return float(missed / size) if size > 1e-12 * np.abs(wanted).max(initial=0) else 0.0


def rows_needed(heads: int) -> int:
    """Tokens that a fit needs, of which a third is held out."""
    return 8 * (heads + 1) * 2


def mixing(torch, sources, targets, counted) -> list[float]:
    r"""Return, for each source, how much of the gradient of all targets with respect to it crosses tokens.

    With random weights $w_t$ of the targets, the gradient at token $s$ is $\sum_t J_{ts}^\top w_t$. If
    each target token depends on the same token of the source alone, weights $\lambda_t w_t$ multiply it
    by $\lambda_s$.

    Args:
        sources, targets: tensors of one graph, whose first two axes are examples and tokens, in any order.
        counted: of these two axes, true for a token.
    """
    random = np.random.default_rng(1)
    scales = targets[0].new_tensor(random.normal(size=counted.shape))[..., None]
    weights = [one.new_tensor(random.normal(size=one.shape) * counted[..., None]) for one in targets]

    def gradients(factor):
        total = sum((factor * weight * one).sum() for weight, one in zip(weights, targets, strict=True))
        return torch.autograd.grad(total, sources, retain_graph=True, allow_unused=True)

    return [
        0.0 if one is None or not other.any() else float((other - scales * one).abs().max() / other.abs().max())
        for one, other in zip(gradients(1.0), gradients(scales), strict=True)
    ]


def reaches(torch, source, target) -> bool:
    """True if the target, with as many tokens, depends on the source."""
    if source.shape[:2] != target.shape[:2] or not target.requires_grad or not source.requires_grad:
        return False
    weights = target.new_tensor(np.random.default_rng(3).normal(size=target.shape))
    gradient = torch.autograd.grad((weights * target).sum(), source, retain_graph=True, allow_unused=True)[0]
    return gradient is not None and bool(gradient.any())


def tried(torch, model, ask: dict, where: list, layers: list[int], links: list[int], counted) -> list[Residuals]:
    """Return the residuals of attentions of a model of Hugging Face, in double precision if it can.

    Args:
        ask: arguments of the run, tensors of all examples.
        where: places of all attentions.
        layers: numbers of those that are tried.
        links: attentions that the one before has to reach token by token: 0 is reached by the
            tokens, and the output of the model counts as one after the last.
        counted: `(examples, tokens)`, true for a token.
    """
    for cast in (torch.float64, torch.float32):
        other = copy.deepcopy(model).to(cast)
        given = {name: one.to(cast) if _floating(torch, one) else one for name, one in ask.items()}
        try:
            across = _across(torch, other, given, where, links, counted) if links else {}
            values = _fitted(torch, other, given, [where[layer] for layer in layers], layers, counted)
            _change(torch, other, {where[layer][0] for layer in layers})
            heads = _fitted(torch, other, given, [where[layer] for layer in layers], layers, counted)
        except RuntimeError:  # a part that does not work in double precision
            if cast is torch.float32:
                raise
        else:
            break
    rows = {layer: [*one, 0.0] for layer, *one in zip(layers, values, heads, strict=True)}
    for link, found in across.items():
        rows.setdefault(link, [0.0, 0.0, 0.0])[2] = found
    return [Residuals(layer, *rows[layer]) for layer in sorted(rows)]


def _across(torch, model, ask, where, links, counted) -> dict[int, float]:
    """The mixing of tokens on the way to each link."""
    entered, left = {}, {}

    def enter(layer, tokens):
        entered[layer] = _turned(tokens, counted)
        return tokens

    def leave(layer, tokens):
        left[layer] = _turned(tokens, counted).detach().requires_grad_()
        return left[layer] if tokens.shape[:2] == counted.shape else left[layer].transpose(0, 1)

    model.requires_grad_(True)  # so that the tokens have a gradient
    ask = {name: one.detach().requires_grad_() if _floating(torch, one) else one for name, one in ask.items()}
    with torch.enable_grad(), Run(torch, where, enter=enter, leave=leave).listening(model):
        hidden = model(**ask).hidden_states
    left[-1], entered[len(where)] = hidden[0], _turned(hidden[-1], counted)
    if set(links) - set(entered) or {one - 1 for one in links} - set(left):
        return dict.fromkeys(links, np.inf)
    # The embedding may be handed out as a copy, on which nothing depends.
    missed = {link for link in links if link and not reaches(torch, left[link - 1], entered[link])}
    if missed:
        return dict.fromkeys(missed, np.inf)
    found = mixing(torch, [left[link - 1] for link in links], [entered[link] for link in links], counted)
    return dict(zip(links, found, strict=True))


def _fitted(torch, model, ask, where, layers, counted) -> list[float]:
    """The unexplained share of each attention's output, where random tokens along one direction enter it."""
    random, sizes = np.random.default_rng(2), {}

    def enter(number, tokens):
        shown = _turned(tokens, counted)
        sizes[number] = random.normal(size=shown.shape[:2])
        direction = random.normal(size=shown.shape[2])
        ours = shown.new_tensor(sizes[number][..., None] * direction) * shown.detach().square().mean().sqrt()
        return ours if tokens.shape[:2] == counted.shape else ours.transpose(0, 1)

    with torch.no_grad(), Run(torch, where, enter=enter).listening(model) as run:
        attentions = model(**ask).attentions
    found = []
    for number, layer in enumerate(layers):
        matrices = attentions[layer].mT.double().cpu().numpy()
        entered = sizes.get(number, np.zeros(0))
        fits = entered.shape == counted.shape and matrices.shape[-1] == counted.shape[1]
        found.append(_least(run.inside[number], matrices, entered, counted) if fits else np.inf)
    return found


def _least(inside: list, matrices, sizes, counted) -> float:
    """The unexplained share at the end of an attention, or before a norm that is its end, behind a skip."""
    shares = [1.0]
    for number, (kind, tensor) in enumerate(inside):
        one = _turned(tensor, counted).double().cpu().numpy()
        if one.shape[:2] != counted.shape:
            continue
        share = unexplained(matrices, sizes, one, counted)
        if kind != "norm":
            shares.append(share)
        elif share > TOLERANCE and all(other == "end" for other, _ in inside[number + 1 :]):
            shares.append(unexplained(matrices, sizes, one, counted, skip=True))
    return min(shares)


def _change(torch, model, names: set[str]) -> None:
    """Change all weights of modules at random, as much as they are large."""
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name in sorted(names):
            for one in model.get_submodule(name).parameters():
                least = one.shape[-1] ** -0.5 if one.ndim > 1 else 0.1
                one += one.square().mean().sqrt().clamp_min(least) * torch.randn(one.shape, generator=random).to(one)


def _turned(one, counted):
    """Tokens with the examples first."""
    return one if one.shape[:2] == counted.shape else one.transpose(0, 1)


def _floating(torch, one) -> bool:
    return torch.is_tensor(one) and one.is_floating_point()
