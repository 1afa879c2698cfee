r"""A projected network: every level has few backward signals, the same for all examples, that stand for all rows.

The signals $\delta_{\mu t} = D_{\mu t} z$ of a level, with $z$ white, pass a layer as the features of paths
do. Beyond some number $M$ only their leading principal components $V_l$ on some examples are kept,

    D_{L+1} = w,        D_l = [B_0 D_{l+1}, sigma_l B_1 D_{l+1}, .., sigma_l B_S D_{l+1}] V_l,        (Z1)

with orthonormal columns, so that $z_l = V_l^\top (z_{l+1}^0, .., z_{l+1}^S)$ is white again. An example is seen as

    Z_mu = sum_t x_{mu t} D_{mu t}^T / sqrt(N_0),        K = Z Z^T + rest,                               (Z2)

without pairs of examples. The rest is positive semi-definite. Its diagonal is known, since (K3) within an
example costs little, and it is taken as if nothing were beside it. While $M$ is as large as the number of
partial paths, or of rows, nothing is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Chain
from statmech_attention.model.architecture import variances
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.in_blocks import Block, padded_blocks, seed_variances
from statmech_attention.theory.kernels.of_tokens import check_network

_CHOSEN = 100  # examples of which the components are sought
_SEEN_WORST = 0.5  # of these, the share with most left out by a first choice
_AT_ONCE = 2**24  # numbers of a block of examples
_RANK = 1e-14  # relative size of a component that is rounding
_MORE, _ROUNDS = 16, 3  # random columns beyond the components that are sought, and how often they are multiplied


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    r"""The components $V_l$ of every layer's signals; called with inputs it gives what is seen of them.

    Attributes:
        chain: the layers and the readout.
        variance: $(\sigma_1^2, .., \sigma_L^2)$, for which the components are orthonormal.
        blocks: $V_l$, `(seeds, above, below)`, from the readout down.
        lost: the share of the signals' size that every layer leaves out of the examples that were chosen.
        components: at most so many were asked for.
        features: $N_0$.
    """

    chain: Chain
    variance: tuple[float, ...]
    blocks: tuple[Float[np.ndarray, "_seeds _above _below"], ...]
    lost: tuple[float, ...]
    components: int
    features: int

    def __call__(self, inputs: TokenInputs | Iterable[TokenInputs], *, single: bool = False) -> "ProjectedInputs":
        """What is seen of inputs, or of a stream of them, each part forgotten when the next is read.

        Args:
            inputs: from `token_inputs`, of the same layers and features.
            single: numbers of single precision within a pass; sums and results are in double.
        """
        parts = [self._seen(part, single) for part in ([inputs] if isinstance(inputs, TokenInputs) else inputs)]
        if not parts:
            raise ValueError("inputs: wanted at least one part, got none.")
        values, own = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return ProjectedInputs(self, jnp.asarray(values), jnp.asarray(own))

    def gated(self, inputs: TokenInputs, gates: Sequence[ArrayLike]) -> "ProjectedInputs":
        """What is seen with gates on the variances of all seeds, a vector per layer from the first one up."""
        values, own = self._seen(inputs, False, [np.asarray(layer, float) for layer in gates][::-1])
        return ProjectedInputs(self, jnp.asarray(values), jnp.asarray(own))

    def slopes(self, inputs: TokenInputs, pull: "ProjectedInputs") -> list[Float[np.ndarray, " seeds"]]:
        """Derivatives in these gates of what has the derivatives `pull` in what is seen."""
        check_network(checks.instance("inputs", inputs, TokenInputs), self.chain, self.features, "inputs")
        factors, totals = deviations(self), [np.zeros(layer.seeds) for layer in self.chain.layers]
        for block in _blocks(inputs, self.components):
            missing = len(block.weights) - len(block.numbers)
            some = (np.asarray(part)[block.numbers] for part in (pull.values, pull.own))
            rows = [np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1)) for part in some]
            found = _pulled(block[1:], self.blocks, factors, ones(self.chain), tuple(rows))
            totals = [total + np.asarray(part) for total, part in zip(totals, found[::-1], strict=True)]
        return totals

    def _seen(self, inputs: TokenInputs, single: bool, gates=None):
        check_network(checks.instance("inputs", inputs, TokenInputs), self.chain, self.features, "inputs")
        values = np.empty((len(inputs), self.features, self.blocks[-1].shape[2]))
        own, number = np.empty(len(inputs)), np.float32 if single else np.float64
        blocks, gates = cast((self.blocks, ones(self.chain) if gates is None else gates), number)
        for block in _blocks(inputs, self.components):
            found = _passed(block.cast(number)[1:], blocks, deviations(self), gates)
            values[block.numbers], own[block.numbers] = (np.asarray(part)[: len(block.numbers)] for part in found)
        return values, own

    def check_variances(self, variance) -> None:
        """Raise ValueError unless the components are those of these variances of values."""
        if checks.concrete(*variance) and tuple(variance[1:-1]) != self.variance:
            raise ValueError(
                f"variance: wanted {self.variance} of the values, as in the projection, got {tuple(variance[1:-1])}. "
                "Make a projection with variance=.."
            )

    def agrees(self, other: "Projection") -> bool:
        """True if these are the same components of the same network."""
        if self is other or self.chain != other.chain or self.variance != other.variance:
            return self is other
        return all(map(np.array_equal, self.blocks, other.blocks))

    def __repr__(self) -> str:
        sizes = [block.shape[2] for block in self.blocks]
        lost = f"at most {max(self.lost):.2g} of a layer left out"
        return f"Projection({sizes[-1]} components, layers={self.chain.shorthand}, {lost})"


@partial(jax.tree_util.register_dataclass, data_fields=["values", "own"], meta_fields=["projection"])
@dataclass(frozen=True, eq=False, repr=False)
class ProjectedInputs:
    r"""Examples as a projected network sees them: few numbers each, for any number of tokens and paths.

    Problems with them add and reduce, as those along paths do; `solve`, `kernel` and `predict` take them.

    Attributes:
        projection: the network, for new inputs.
        values: $Z$ of (Z2), `(examples, features, components)`, at unit variances of projection and readout.
        own: $K_{\mu\mu}$, exactly; of reduced rows the mean of what is left out, a scalar.
    """

    projection: Projection
    values: Float[Array, "examples features components"]
    own: Float[Array, "*examples"]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def chain(self) -> Chain:
        """The layers and the readout."""
        return self.projection.chain

    @property
    def layers(self) -> tuple:
        """$(H_1, .., H_L)$, or layers of other kinds among them."""
        return self.chain.shorthand

    @property
    def rest(self) -> Float[Array, "*examples"]:
        """What the components leave out of $K_{\\mu\\mu}$, or its mean over the examples of reduced rows."""
        if jnp.ndim(self.own):
            return _left_out(self.own, self.values)
        return self.own

    @property
    def left_out(self) -> float:
        """The share of the kernel's trace that the components leave out.

        A few examples of a rare kind hardly count in it: see `rest / own`, example by example.
        """
        whole = float(jnp.sum(self.single.own))
        return float(jnp.sum(self.rest)) / whole if whole else 0.0

    @property
    def single(self) -> "ProjectedInputs":
        """Itself, unless rows are reduced, which is refused."""
        if not jnp.ndim(self.own):
            raise ValueError("inputs: wanted single examples, got reduced rows. Take the inputs from before.")
        return self

    def take(self, examples) -> "ProjectedInputs":
        """Some of the examples, by number or by booleans."""
        some = np.atleast_1d(examples)
        return replace(self, values=self.values[some], own=self.single.own[some])

    def seen(self, columns: Float[np.ndarray, "components columns"]) -> Float[np.ndarray, "examples features columns"]:
        """$Z$ times columns."""
        return np.asarray(self.values) @ columns

    def __repr__(self) -> str:
        count, features, components = self.values.shape
        return f"ProjectedInputs({count} examples, {features} features, {components} components, layers={self.layers})"


@quick_jit(level=0)
def _left_out(own: Float[Array, " examples"], values: Float[Array, "examples features components"]):
    return jnp.maximum(own - jnp.sum(values**2, axis=(1, 2)), 0.0)


def projection(
    inputs: TokenInputs, components: int = 64, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Projection:
    r"""A projected network with at most so many components of every level, (Z1).

    The components are those of a hundred of the inputs: of some at random first, then of half of
    them and of those of which these leave out most, so that a rare kind of example is not missed.
    Give some thousands, of all kinds.

    Args:
        inputs: from `token_inputs`.
        components: $M$; time grows with its square. With 64, 99.7 % of the trace was kept on sentences of an encoder
            at infinite width, and two thirds with sharp random attention. Predictions moved by 2 and 4 %. With its
            blocks of 1536 units and 32 components 97.6 % was kept, and predictions moved by 10 %.
        variance: $\sigma^2$, or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$, as in `Problem`.
    """
    checks.instance("inputs", inputs, TokenInputs)
    components = checks.whole("components", components)
    known = tuple(float(number) for number in variances(variance, len(inputs.chain.layers))[1:-1])
    if len(inputs) <= _CHOSEN:
        return _of(inputs, components, known)
    draw = np.random.default_rng(0).permutation(len(inputs))[:_CHOSEN]
    first = _of(inputs.take(np.sort(draw)), components, known)
    found = first(inputs)
    worst = np.argsort(-np.asarray(found.rest / found.own))[: int(_SEEN_WORST * _CHOSEN)]
    others = [number for number in draw if number not in set(worst.tolist())][: _CHOSEN - len(worst)]
    return _of(inputs.take(np.sort([*worst, *others])), components, known)


def kernel_of_components(inputs: ProjectedInputs, others: ProjectedInputs) -> Float[Array, "examples others"]:
    """(Z2) at unit variances of projection and readout; of the same inputs with what is left out of the diagonal."""
    plain = products(inputs, others)
    return plain + jnp.diag(jnp.broadcast_to(inputs.rest, len(plain))) if inputs is others else plain


def products(inputs: ProjectedInputs, others: ProjectedInputs) -> Float[Array, "examples others"]:
    """$Z Z'^\\top$."""
    return inputs.values.reshape(len(inputs), -1) @ others.values.reshape(len(others), -1).T


def _of(few: TokenInputs, components: int, variance: tuple[float, ...]) -> Projection:
    """Components of these examples, layer by layer from the readout down."""
    examples = list(_blocks(few, components))
    signals = [block.weights[..., None] for block in examples]
    blocks, lost = [], []
    for place in reversed(range(len(few.chain.layers))):
        factors = np.sqrt(seed_variances(few.chain.layers[place], variance[place]))
        maps = [np.einsum("es..., s -> es...", block.maps[place], factors) for block in examples]
        columns, share = _components(maps, signals, components)
        flat = columns.reshape(-1, columns.shape[2])
        signals = [_expanded(*pair) @ flat for pair in zip(maps, signals, strict=True)]
        blocks.append(columns)
        lost.append(share)
    return Projection(few.chain, variance, tuple(blocks), tuple(lost), components, few.tokens.shape[1])


def _components(maps: list, signals: list, count: int) -> tuple[Float[np.ndarray, "seeds above below"], float]:
    r"""Leading $V_l$, or unit vectors if they are as few; and the share of squares left out.

    Many units have more columns than there are rows. Of diagonals $b_s$ the Gram matrix of the rows is
    $(D D^\top) \circ \sum_s b_s b_s^\top$, and the bracket of all examples is not made.
    """
    seeds, above = maps[0].shape[1], signals[0].shape[2]
    if seeds * above <= count:
        return np.eye(seeds * above).reshape(seeds, above, -1), 0.0
    if maps[0].ndim == 4:
        wide = [_expanded(*pair).reshape(-1, seeds * above) for pair in zip(maps, signals, strict=True)]
        vectors, sizes, whole = _leading(sum(part.T @ part for part in wide), count)
        return vectors.reshape(seeds, above, -1), float(max(0.0, 1 - np.sum(sizes) / whole))
    units = np.concatenate([part.swapaxes(1, 2).reshape(-1, seeds) for part in maps])
    rows = np.concatenate([part.reshape(-1, above) for part in signals])
    vectors, sizes, whole = _leading((rows @ rows.T) * (units @ units.T), count)
    columns = np.einsum("rs,rm,rn->smn", units, rows, vectors / np.sqrt(sizes), optimize=True)
    return columns, float(max(0.0, 1 - np.sum(sizes) / whole))


def _leading(gram: Float[np.ndarray, "size size"], count: int):
    """Leading eigenvectors of a Gram matrix, their eigenvalues, and its trace."""
    sought = np.random.default_rng(0).normal(size=(len(gram), min(len(gram), count + _MORE)))
    for _ in range(_ROUNDS):
        sought = np.linalg.qr(gram @ sought)[0]
    sizes, vectors = np.linalg.eigh(sought.T @ gram @ sought)
    kept = min(count, int(np.sum(sizes > _RANK * sizes[-1])))
    return sought @ vectors[:, ::-1][:, :kept], sizes[::-1][:kept], np.trace(gram)


def _expanded(maps, above) -> Float[np.ndarray, "examples tokens columns"]:
    """$[B_s D]$ over all seeds."""
    examples, seeds, tokens = maps.shape[:3]
    if maps.ndim == 3:
        half = maps[..., None] * above[:, None]
    else:
        half = (maps.reshape(examples, seeds * tokens, tokens) @ above).reshape(examples, seeds, tokens, -1)
    return half.swapaxes(1, 2).reshape(examples, tokens, -1)


@quick_jit()
def _passed(examples, blocks, factors, gates):
    """$Z$ and $K_{\\mu\\mu}$ of a block of examples; gates are on the variance of every seed."""
    maps, tokens, weights = examples
    signals, gram = weights[..., None], weights[:, :, None] * weights[:, None]
    for own, block, factor, gate in zip(maps[::-1], blocks, factors, gates, strict=True):
        scaled = own * (factor.astype(own.dtype) * jnp.sqrt(gate)).reshape(1, -1, *(1,) * (own.ndim - 2))
        if own.ndim == 3:  # gates of units, diagonals of their maps
            half = jnp.einsum("est,etm->etsm", scaled, signals)
            gram = gram * jnp.einsum("est,esu->etu", scaled, scaled, precision="highest")
        else:
            half = jnp.einsum("estu,eum->etsm", scaled, signals, precision="highest")
            through = jnp.einsum("estu,euv->estv", scaled, gram, precision="highest")
            gram = jnp.einsum("estv,eswv->etw", through, scaled, precision="highest")
        signals = jnp.einsum("etsm,smn->etn", half, block, precision="highest")
    seen = jnp.einsum("eti,etm->eim", tokens, signals, precision="highest") / jnp.sqrt(tokens.shape[2])
    products = jnp.einsum("eti,eui->etu", tokens, tokens, precision="highest")
    return seen, jnp.sum(products * gram, axis=(1, 2)) / tokens.shape[2]


@quick_jit()
def _pulled(examples, blocks, factors, gates, pull):
    """The derivative in gates of the product of `pull` with what is seen."""
    return jax.vjp(lambda gates: _passed(examples, blocks, factors, gates), gates)[1](pull)[0]


def _blocks(inputs: TokenInputs, components: int) -> Iterator[Block]:
    """Blocks of a bounded number of entries, of few shapes."""
    longest, seeds = inputs.groups[-1].length, max(layer.seeds for layer in inputs.chain.layers)
    return padded_blocks(inputs, max(1, min(len(inputs), _AT_ONCE // (seeds * longest * (longest + components)))))


def deviations(network: Projection) -> list[Float[np.ndarray, " seeds"]]:
    """Deviations of the seeds of all layers, from the readout down."""
    pairs = zip(network.chain.layers[::-1], network.variance[::-1], strict=True)
    return [np.sqrt(seed_variances(*pair)) for pair in pairs]


def unit_blocks(network: Projection) -> list[Float[np.ndarray, "_seeds _above _below"]]:
    """The blocks of $V_l$ for seeds of unit variance, from the readout down."""
    return [block / sizes[:, None, None] for block, sizes in zip(network.blocks, deviations(network), strict=True)]


def ones(chain: Chain) -> list[Float[np.ndarray, " seeds"]]:
    """Gates of all seeds, from the readout down."""
    return [np.ones(layer.seeds) for layer in chain.layers[::-1]]


def cast(arrays, number):
    """Arrays of another precision."""
    return jax.tree.map(lambda array: jnp.asarray(array, number), arrays)
