"""Trials of a network: is its attention a sum over heads, and does nothing beside attention mix tokens?

No part is known by its name; what is tried is what the network does with random numbers. The cost is
three further forward passes and three backward ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from statmech_attention.reading.as_given import copied, doubled_softmax
from statmech_attention.reading.listening import Run

# What rounding may leave: parts of many models compute in single precision, even in a model in double precision.
TOLERANCE = 1e-5
ELSE = (
    "Take layers=[..] or a submodule without it; or give matrices that you compute yourself to attentioned_inputs, "
    "with layout='query_key'; or take it as it is with test=False."
)
_DIRECTIONS = 2  # one would miss a gate that depends on the direction of a token alone


class Residuals(NamedTuple):
    """What three tests leave unexplained at one attention, as shares of what is to be explained.

    Attributes:
        layer: number of the attention, in the order of use.
        values: its output for random tokens, compared with a sum over heads with fixed matrices.
        heads: the same with all weights changed at random, so that none passes by chance.
        tokens: how much of what comes from the attention before, or from the tokens, is carried to other tokens.
    """

    layer: int
    values: float
    heads: float
    tokens: float


def unexplained(matrices, sizes, outputs, counted, skip: bool = False) -> tuple[float, bool]:
    r"""Return the share of outputs $y_t$ that is no $\sum_{hk} u_{hk} \sum_s \Omega^h_{st} c_{sk} + b$, held out.

    For tokens $x_s = \sum_k c_{sk} \delta_k$ along a few directions, $u_{hk} = M_h \delta_k$ are fixed
    vectors. The sums of the matrices are fitted too, for a bias of the values, and with `skip` $c_{tk}$.

    Args:
        matrices: `(examples, heads, keys, queries)`.
        sizes: $c$, `(examples, tokens, directions)`.
        outputs: `(examples, tokens, features)`.
        counted: `(examples, tokens)`, true for a token.

    Returns:
        The share, and whether each feature has to do with one of several heads alone.
    """
    examples, heads, tokens, _ = matrices.shape
    seen = np.einsum("ehst,esk->ethk", matrices, sizes).reshape(examples, tokens, -1)
    parts = [seen, np.swapaxes(matrices.sum(axis=2), 1, 2), np.ones((examples, tokens, 1)), *([sizes] if skip else [])]
    features, wanted = np.concatenate(parts, axis=-1)[counted], outputs[counted]
    if not np.isfinite(features).all() or not np.isfinite(wanted).all():
        return np.inf, False
    order = np.random.default_rng(0).permutation(len(wanted))
    fitted, others = np.split(order, [2 * len(order) // 3])
    coefficients = np.linalg.lstsq(features[fitted], wanted[fitted], rcond=1e-10)[0]
    size = np.std(wanted - wanted.mean(axis=0))
    missed = np.sqrt(np.mean((wanted[others] - features[others] @ coefficients) ** 2))
    by_head = np.abs(coefficients[: seen.shape[-1]]).reshape(heads, -1, wanted.shape[-1]).max(axis=1)
    several = (by_head > 1e-6 * by_head.max()).sum(axis=0)
    beside = heads > 1 and bool(by_head.max() > 0) and bool(several.max() <= 1)
    return (float(missed / size) if size > 1e-12 * np.abs(wanted).max(initial=0) else 0.0), beside


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
    weights = [target.new_tensor(random.normal(size=target.shape) * counted[..., None]) for target in targets]

    def gradients(factor):
        total = sum((factor * weight * target).sum() for weight, target in zip(weights, targets, strict=True))
        return torch.autograd.grad(total, sources, retain_graph=True, allow_unused=True)

    return [
        0.0 if first is None or not second.any() else float((second - scales * first).abs().max() / second.abs().max())
        for first, second in zip(gradients(1.0), gradients(scales), strict=True)
    ]


def reaches(torch, source, target) -> bool:
    """True if the target, with as many tokens, depends on the source."""
    if source.shape[:2] != target.shape[:2] or not target.requires_grad or not source.requires_grad:
        return False
    weights = target.new_tensor(np.random.default_rng(3).normal(size=target.shape))
    gradient = torch.autograd.grad((weights * target).sum(), source, retain_graph=True, allow_unused=True)[0]
    return gradient is not None and bool(gradient.any())


def changing(shape) -> np.ndarray:
    """Tokens that are changed in a second run: a random half of them."""
    return np.random.default_rng(4).permuted(np.arange(np.prod(shape)) % 2 == 0).reshape(shape)


def changed(tokens, where: np.ndarray):
    """The tokens with random numbers, as large as they are, added to those that are changed."""
    noise = np.random.default_rng(5).normal(size=tokens.shape) * where[..., None]
    return tokens.detach() + tokens.new_tensor(noise) * tokens.detach().square().mean().sqrt()


def carried(first, second, where: np.ndarray, counted: np.ndarray) -> float:
    """Difference between two runs of the tokens that were not changed, as a share of that of the others.

    Unlike a gradient it sees what is rounded, chosen or cut off from the graph.
    """
    if second is None or first.shape != second.shape:
        return np.inf
    apart = (first.detach() - second.detach()).abs().amax(dim=-1).double().cpu().numpy()
    inside, outside = (apart[counted & part].max(initial=0) for part in (where, ~where))
    return float(outside / inside) if inside > 0 else 0.0 if outside == 0 else np.inf


def scaled(torch, source, operand, counted: np.ndarray, channels: bool = False) -> float | None:
    """Difference among tokens of the linear map from a source to what depends on it; None if it does not depend."""
    size = (operand.shape[1], 1) if channels and operand.ndim > 2 else operand.shape[-1:]
    weights = operand.new_tensor(np.random.default_rng(6).normal(size=size))
    (gradient,) = torch.autograd.grad((weights * operand).sum(), source, retain_graph=True, allow_unused=True)
    if gradient is None or not gradient.any():
        return None
    each = gradient[torch.as_tensor(counted, device=gradient.device)]
    return float((each - each[0]).abs().max() / gradient.abs().max())


def by_itself(torch, module) -> float:
    """What is unexplained of the output of a MultiheadAttention on random tokens, with its weights and with others."""
    module = copied(torch, module).double()
    random, shape = np.random.default_rng(2), (-(-rows_needed(module.num_heads) // 7), 7)
    shares = []
    for _ in range(2):
        sizes = random.normal(size=(*shape, _DIRECTIONS))
        tokens = sizes @ random.normal(size=(_DIRECTIONS, module.embed_dim))
        given = next(module.parameters()).new_tensor(tokens if module.batch_first else tokens.swapaxes(0, 1))
        with torch.no_grad():
            output, matrices = module(given, given, given, need_weights=True, average_attn_weights=False)
        if matrices.shape[-2:] != (7, 7):  # as with keys of zeros: such matrices are refused later
            return 0.0
        output = output if module.batch_first else output.transpose(0, 1)
        share, _ = unexplained(matrices.mT.cpu().numpy(), sizes, output.cpu().numpy(), np.ones(shape, bool))
        shares.append(share)
        change_weights(torch, module)
    return max(shares)


def check_sum(layer: int, share: float) -> None:
    """Raise ValueError if more of what an attention returns is no sum over heads than rounding leaves."""
    if not share <= TOLERANCE:
        got = f"{said(share)} of the output of attention {layer} unexplained, as by a gate, norm or router"
        raise ValueError(f"model: wanted attention that is a sum over heads with fixed matrices, got {got}. {ELSE}")


def said(share: float) -> str:
    """A share as people say it."""
    return f"{100 * min(share, 1):.3g} %"


def in_double(torch, model, ask: dict, run: Callable):
    """Return `run(model, ask)` for a copy of a model and its arguments in double precision, in single if that fails."""
    for cast in (torch.float64, torch.float32):
        other = copied(torch, model).to(cast).requires_grad_(True)  # so that the tokens have a gradient
        given = {name: value.to(cast) if _floating(torch, value) else value for name, value in ask.items()}
        try:
            with doubled_softmax(torch):
                return run(other, given)
        except RuntimeError:  # a part that does not work in double precision
            if cast is torch.float32:
                raise
    return None


class Trial:
    """Three runs of a model of Hugging Face: as it is; with random tokens entering each attention; the same
    with other weights, which the model is left with.

    Args:
        ask: arguments of the run, tensors of all examples.
        where: places of all attentions.
        layers: numbers of those that are tried.
        links: attentions that the one before has to reach token by token: 0 is reached by the
            tokens, and the output of the model counts as one after the last.
        counted: `(examples, tokens)`, true for a token.
    """

    def __init__(self, torch, model, ask, where, layers, links, counted):
        self.torch, self.model, self.ask, self.where = torch, model, ask, where
        self.layers, self.links, self.counted = layers, links, counted
        self.entered: dict[int, dict] = {}  # the sequences that enter each attention, by their number
        self.left: dict = {}  # what leaves it, and the tokens
        self.random, self.half = np.random.default_rng(2), changing(counted.shape)

    def residuals(self) -> list[Residuals]:
        """Those of all layers and links, in their order."""
        run = self._as_it_is()
        fits, second = self._at_random(run, change=True)
        source = {layer: which for layer, (_, which, _) in fits.items()}
        across = self._across(source, second)
        outside = {layer: self._outside(layer, run) for layer in self.layers}
        change_weights(self.torch, self.model)
        others, _ = self._at_random(run, change=False)
        residuals = []
        for layer in sorted({*self.layers, *across}):
            values = heads = 0.0
            if layer in self.layers:
                values, *_ = fits[layer]
                heads, _, beside = others[layer]
                values = max(values, outside[layer]) if beside else values
            residuals.append(Residuals(layer, values, heads, across.get(layer, 0.0)))
        return residuals

    def _as_it_is(self) -> Run:
        """The first run, whose graph is cut where an attention is left."""

        def enter(layer, tokens, which):
            self.entered.setdefault(layer, {})[which] = self._turned(tokens)
            return tokens

        def leave(layer, tokens):
            self.left[layer] = self._turned(tokens).detach().requires_grad_()
            return self._turned_back(self.left[layer], tokens)

        real = {
            name: value.detach().requires_grad_() for name, value in self.ask.items() if _floating(self.torch, value)
        }
        with (
            self.torch.enable_grad(),
            Run(self.torch, self.where, enter=enter, leave=leave).listening(self.model, products=True) as run,
        ):
            hidden = self.model(**self.ask | real).hidden_states
        self.left[-1], self.entered[len(self.where)] = hidden[0], {0: self._turned(hidden[-1])}
        return run

    def _at_random(self, first: Run, change: bool) -> tuple[dict, dict]:
        """A run with random tokens along few directions entering each attention: fits, and what entered instead.

        With `change`, what leaves an attention is that of the first run, with half of its tokens changed.
        """
        sizes: dict[tuple, np.ndarray] = {}
        entered: dict[int, dict] = {}

        def enter(number, tokens, which):
            shown = entered.setdefault(number, {})[which] = self._turned(tokens).detach()
            sizes[number, which] = self.random.normal(size=(*shown.shape[:2], _DIRECTIONS))
            directions = self.random.normal(size=(_DIRECTIONS, shown.shape[2]))
            ours = shown.new_tensor(sizes[number, which] @ directions) * shown.square().mean().sqrt()
            return self._turned_back(ours, tokens)

        def leave(number, tokens):
            before = self.left.get(number if number < len(self.where) else -1)
            if before is None or not before.shape[:2] == self._turned(tokens).shape[:2] == self.counted.shape:
                return tokens
            return self._turned_back(changed(before, self.half), tokens)

        ask, places = self.ask, self.where
        if change:
            ask, places = self._tokens(first)
        run = Run(self.torch, places, enter=enter, leave=leave if change else None)
        with self.torch.no_grad(), run.listening(self.model):
            result = self.model(**ask)
        entered[len(self.where)] = {0: self._turned(result.hidden_states[-1]).detach()}
        return {
            layer: self._least(run.inside[layer], result.attentions[layer], layer, sizes) for layer in self.layers
        }, entered

    def _tokens(self, first: Run) -> tuple[dict, list]:
        """Arguments with the tokens changed, or the places with the one that makes the tokens."""

        def same(value):
            return self.torch.is_tensor(value) and value.shape == tokens.shape and self.torch.equal(value, tokens)

        tokens = self.left[-1]
        if name := next((name for name, value in self.ask.items() if same(value)), None):
            return self.ask | {name: self._turned_back(changed(self._turned(tokens), self.half), tokens)}, self.where
        made = [place for place, result in first.ahead if same(result)]
        return self.ask, [*self.where, *made[-1:]]

    def _across(self, source: dict, second: dict) -> dict[int, float]:
        """The mixing of tokens on the way to each link, by gradients and by a change of half of the tokens."""
        links = self.links
        targets = {link: self.entered.get(link, {}).get(source.get(link, 0)) for link in links}
        sequences = [*targets.values(), *(self.left.get(link - 1) for link in links)]
        if any(sequence is None or sequence.shape[:2] != self.counted.shape for sequence in sequences):
            return dict.fromkeys(links, np.inf)
        # The embedding may be handed out as a copy, on which nothing depends.
        missed = {link for link in links if link and not reaches(self.torch, self.left[link - 1], targets[link])}
        if missed or not links:
            return dict.fromkeys(missed, np.inf)
        shares = mixing(self.torch, [self.left[link - 1] for link in links], list(targets.values()), self.counted)
        if max(shares) <= TOLERANCE:  # what has no gradient shows first where it happens, and then everywhere behind
            for number, link in enumerate(links):
                other = second.get(link, {}).get(source.get(link, 0))
                share = carried(targets[link], other, self.half, self.counted)
                shares[number] = max(shares[number], share)
                if share > TOLERANCE:
                    break
        return dict(zip(links, shares, strict=True))

    def _outside(self, layer: int, run: Run) -> float:
        """Difference of the tokens' scales in what the output matrix takes, where it stands behind the place."""
        left = self.left.get(layer, self.left[-1])
        for kind, operand in run.behind[layer] if left.shape[:2] == self.counted.shape else []:
            share = scaled(self.torch, left, operand, self.counted, channels=kind == "channels")
            if share is None:
                continue
            alone = (
                operand.numel() == left.numel() and not (operand.flatten().sort()[0] - left.flatten().sort()[0]).any()
            )
            if kind != "norm" or share > TOLERANCE or not alone:
                return share
        return 0.0

    def _least(self, inside: list, matrices, layer: int, sizes: dict) -> tuple[float, int, bool]:
        """The unexplained share at an attention's end, or before a norm that is its end, behind a skip.

        With it the sequence that explains it, and whether heads stand beside each other.
        """
        matrices = matrices.mT.double().cpu().numpy()
        candidates = [(1.0, 0, False)]
        for which, entering in ((which, tokens) for (number, which), tokens in sizes.items() if number == layer):
            if entering.shape[:2] != self.counted.shape or matrices.shape[-1] != self.counted.shape[1]:
                return np.inf, 0, False
            for kind, tensor, result in inside:
                output = self._turned(tensor).double().cpu().numpy()
                if output.shape[:2] != self.counted.shape:
                    continue
                at_end = kind == "end" or any(result is end for other, _, end in inside if other == "end")
                if kind == "norm" and not at_end:
                    continue
                share, beside = unexplained(matrices, entering, output, self.counted, skip=kind == "norm")
                candidates.append((share, which, beside))
        return min(candidates, key=lambda candidate: candidate[0])

    def _turned(self, tokens):
        """Tokens with the examples first."""
        return tokens if tokens.shape[:2] == self.counted.shape else tokens.transpose(0, 1)

    def _turned_back(self, tokens, as_before):
        return tokens if as_before.shape[:2] == self.counted.shape else tokens.transpose(0, 1)


def change_weights(torch, model) -> None:
    """Change all weights of a network at random, as much as they are large."""
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            least = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.1
            noise = torch.randn(parameter.shape, generator=random).to(parameter)
            parameter += parameter.square().mean().sqrt().clamp_min(least) * noise


def _floating(torch, value) -> bool:
    """True for a tensor of real numbers."""
    return torch.is_tensor(value) and value.is_floating_point()
