r"""Selection of an encoder's heads beside the standard methods for kernels."""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import xarray as xr
from jaxtyping import Float

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.encoded_heads import NETWORKS, EncodedHeads, named
from attention_book.experiments.encoded_inputs import EncodedProblem, OnEncoder, Words, check_split, encoded_task
from attention_book.experiments.encoded_theory import halves, hits, swept
from attention_book.experiments.experiment import Part, Recheck, difference, parameter
from attention_book.pruning.kernel_weights import kernel_weights, weights_evidence
from statmech_attention.pruning.heads import head_indices, kept_heads, removal_order
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.scores import head_scores, path_heads

WEIGHTS, OWN, FORWARD = "kernel weights", "own evidence", "forward selection"
RECORDED = ("both", "Taylor")  # orders by scores of `EncodedHeads`, at the temperature of the largest evidence
WAYS = ("limit", "theory", WEIGHTS)  # to fit heads again
CHOSEN_BY = ("evidence", "validation")


class Fitted(NamedTuple):
    """A predictor of training labels."""

    order_parameter: Float[np.ndarray, "paths paths"]
    temperature: float
    log_evidence: float


@dataclass(frozen=True, kw_only=True)
class EncodedSelection(OnEncoder):
    """One split of a task: kernel weights and diagonal theory of all heads, and heads kept by five scores.

    With the network's name at the end of names, the record has over `whole` ("diagonal", "kernel
    weights") and over `order`, `kept` and `way` the `temperature`, `log_evidence` and, twice, the
    correctness `right` on every test sentence; of the limit and the theory also with the temperature
    `chosen_by` validation sentences; and `head_score` of the scores that are new.
    """

    split: Sequence[int] = parameter("sentences to learn and choose from, and test sentences, of `EncodedHeads`")
    validation_examples: int = parameter("sentences to choose by", ge=1)
    layers: Sequence[int] = parameter("the encoder's, for the layers of the deep network, counted from 0")
    width: float | int = parameter("$N$", gt=0)
    kept_deep: Sequence[int] = parameter("numbers of heads kept", each=int)
    kept_flat: Sequence[int] = parameter("the same of the flat network", each=int)
    random: int = parameter("random orders of heads, the first of `EncodedHeads`", ge=1)

    name: ClassVar[str] = "selection"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "selection-{task}-seed{seed}"

    def check(self) -> None:
        super().check()
        check_split(self.split)

    @property
    def sources(self) -> dict[str, Path]:
        return {"encoder": Path(self.folder) / f"{EncodedHeads.stem.format(**vars(self))}.nc"}

    @property
    def total(self) -> int:
        return 2 * len(NETWORKS)

    def make(self, state, progress):
        problems, found = functools.cache(self.problems), []
        for network in NETWORKS:
            whole = yield Part(f"{network}-whole", functools.partial(self._whole, problems, network))
            kept = yield Part(f"{network}-kept", functools.partial(self._kept, problems, network, whole))
            found.append(named(whole.merge(kept), network))
        return xr.merge(found)

    def problems(self) -> dict[str, EncodedProblem]:
        """Both networks, on the sentences of `EncodedHeads`."""
        read = self.read(self.task, self.seed, *self.split)
        held_out = self.validation_examples + self.split[1]
        rows = np.append(np.arange(self.examples), np.arange(len(read.labels) - held_out, len(read.labels)))
        read = Words(read.encoder, read.tokens[rows], read.labels[rows])
        networks = {"deep": self.layers, "flat": [range(read.encoder.depth)]}
        encoded = encoded_task(read, networks, self.examples, self.directions)
        counts = self.examples, self.validation_examples, self.split[1]
        return {name: EncodedProblem.of(encoded.networks[name], encoded.labels, *counts) for name in networks}

    def recheck(self) -> Recheck:
        """Fit limit and theory again with the fewest heads by "both"; kernel weights may end in another maximum."""
        there, apart = results.load(self.path), 0.0
        for network, problem in self.problems().items():
            size = min(self._sizes(network))
            recorded = there[f"log_evidence_kept_{network}"].sel(
                {f"order_{network}": "both", f"kept_{network}": size, "chosen_by": "evidence"}
            )
            smaller = _keep(problem, self._recorded_scores(network)["both"], size)
            for way, width in zip(WAYS[:2], self._widths, strict=True):
                found = sma.log_evidence(swept(smaller, [width], self.temperatures)[0]).max()
                apart = max(apart, difference(found, recorded.sel({f"way_{network}": way})))
        return Recheck("the evidence of limit and theory with few heads", apart, 1e-3)

    def _whole(self, problems, network: str, step) -> xr.Dataset:
        problem = problems()[network]
        fits = {"diagonal": diagonal(problem, float(self.width), self.temperatures), WEIGHTS: weighted(problem)}
        heads = problem.train.layers
        scores = {
            WEIGHTS: head_scores(fits[WEIGHTS].order_parameter, layers=heads),
            OWN: own_evidence(problem, self.temperatures),
            FORWARD: forward(problem, self.temperatures, max(self._sizes(network))),
        }
        step()
        right = [hits(problem, fit.order_parameter, fit.temperature)[1] for fit in fits.values()]
        return xr.Dataset(
            {
                "right_whole": (("whole", "sentence"), halves(right)),
                "temperature_whole": ("whole", [fit.temperature for fit in fits.values()]),
                "log_evidence_whole": ("whole", [fit.log_evidence for fit in fits.values()]),
                "head_score": (("criterion", "head"), np.array([*scores.values()], np.float32)),
            },
            {"whole": list(fits), "criterion": list(scores)},
        )

    def _kept(self, problems, network: str, whole: xr.Dataset, step) -> xr.Dataset:
        problem, sizes = problems()[network], self._sizes(network)
        scores = self._recorded_scores(network)
        count = len(scores["both"])
        scores |= {str(name): whole["head_score"].sel(criterion=name).values for name in whole["criterion"].values}
        draws = np.random.default_rng(self.seed)
        scores |= {f"random {number}": draws.random(count) for number in range(self.random)}
        shape = len(scores), len(sizes), len(WAYS), len(CHOSEN_BY)
        right, numbers = np.zeros((*shape, self.split[1])), np.zeros((2, *shape))
        for row, values in enumerate(scores.values()):
            for column, size in enumerate(sizes):
                found = self._refitted(_keep(problem, values, size))
                right[row, column] = [[one[0] for one in way] for way in found]
                numbers[:, row, column] = np.moveaxis(np.array([[one[1:] for one in way] for way in found]), -1, 0)
        step()
        axes = ("order", "kept", "way", "chosen_by")
        return xr.Dataset(
            {
                "right": ((*axes, "sentence"), halves(right)),
                "temperature_kept": (axes, numbers[0]),
                "log_evidence_kept": (axes, numbers[1]),
            },
            {"order": list(scores), "kept": list(sizes), "way": list(WAYS), "chosen_by": list(CHOSEN_BY)},
        )

    def _sizes(self, network: str) -> Sequence[int]:
        return self.kept_flat if network == "flat" else self.kept_deep

    @property
    def _widths(self) -> tuple[float, float]:
        return np.inf, float(self.width)

    def _recorded_scores(self, network: str) -> dict[str, np.ndarray]:
        scores = results.load(self.sources["encoder"]).sel(chosen_by="evidence")[f"head_score_{network}"]
        return {name: scores.sel({f"criterion_{network}": name}).values for name in RECORDED}

    def _refitted(self, problem: EncodedProblem) -> list[list[tuple]]:
        """By way and choice of the temperature: correctness on test sentences, temperature, log evidence."""
        found = []
        for width in self._widths:
            sweep = swept(problem, [width], self.temperatures)[0]
            evidence = np.asarray(sma.log_evidence(sweep))
            seen = [
                hits(problem, one, heat) for one, heat in zip(sweep.order_parameter, self.temperatures, strict=True)
            ]
            best = int(np.argmax(evidence)), int(np.argmax([np.mean(one) for one, _ in seen]))
            found.append([(seen[place][1], self.temperatures[place], evidence[place]) for place in best])
        fit = weighted(problem)
        own = hits(problem, fit.order_parameter, fit.temperature)[1], fit.temperature, fit.log_evidence
        return [*found, [own] * len(CHOSEN_BY)]


def _keep(problem: EncodedProblem, scores, size: int) -> EncodedProblem:
    """The network that keeps so many heads by their scores."""
    layers = problem.train.layers
    return problem.keep_heads(kept_heads(layers, removal_order(scores, layers=layers)[: len(scores) - size]))


def weighted(problem: EncodedProblem) -> Fitted:
    """Kernel weights, with the temperature of the largest evidence."""
    found = kernel_weights(Problem(problem.train, problem.labels))
    return Fitted(np.asarray(found.order_parameter), found.temperature, found.log_evidence)


def diagonal(problem: EncodedProblem, width: float, temperatures: Sequence[float]) -> Fitted:
    r"""The theory of layers of heads with diagonal order parameters, at the temperature of the largest evidence.

    In the good coordinates $U^{(l)}_{pp} = U^{(l+1)}_{p'p'} e^{z_{l,p}}$, and $\mathcal L - \mathcal L_0$ is
    the sum of all $e^z - 1 - z$.
    """
    evidence, heads = weights_evidence(Problem(problem.train, problem.labels)), problem.train.chain.heads
    sizes = [math.prod(heads[layer:]) for layer in range(len(heads) + 1)]
    starts = np.cumsum([0, *sizes])
    places = starts[:-1] + np.arange(sizes[0])[:, None] % sizes
    found = []

    def lacking(point, heat):
        weights = np.exp(point[places].sum(axis=1))
        value, slopes, _ = evidence(weights, heat)
        through = np.bincount(places.ravel(), np.repeat(weights * slopes, len(sizes)), starts[-1])
        bulk = 0.5 * width * np.sum(np.expm1(point) - point)
        return bulk - value, 0.5 * width * np.expm1(point) - through

    point, options = np.zeros(starts[-1]), {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-11, "gtol": 1e-3}
    for heat in sorted(temperatures, reverse=True):
        bounds = [(-30.0, 12.0)] * len(point)
        end = scipy.optimize.minimize(lacking, point, heat, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        point = end.x
        found.append(Fitted(np.diag(np.exp(point[places].sum(axis=1))), heat, -float(end.fun)))
    return max(found, key=lambda one: one.log_evidence)


def own_evidence(problem: EncodedProblem, temperatures: Sequence[float]) -> Float[np.ndarray, " heads"]:
    """The largest log evidence, in the limit, of a network with one of the heads alone in its layer."""
    evidence = _LimitEvidence(problem)
    return np.array([evidence(one, temperatures).max() for one in path_heads(problem.train.layers).T > 0])


def forward(problem: EncodedProblem, temperatures: Sequence[float], most: int) -> Float[np.ndarray, " heads"]:
    """Forward selection by the evidence of the limit: the earlier a head is added, the higher its score.

    It starts from the best network of one head per layer, and ends with `most` heads; the temperature is chosen
    again after every step.
    """
    evidence, through = _LimitEvidence(problem), path_heads(problem.train.layers) > 0
    layer, score = head_indices(problem.train.layers)[:, 0], np.zeros(through.shape[1])

    def paths(chosen):
        return np.all(
            [through[:, [head for head in chosen if layer[head] == one]].any(axis=1) for one in {*layer}], axis=0
        )

    def added(choices, heats):
        chosen = max(choices, key=lambda heads: evidence(paths(heads), heats).max())
        score[[*chosen]] += 1
        return chosen, [temperatures[int(np.argmax(evidence(paths(chosen), temperatures)))]]

    each = [np.flatnonzero(layer == one).tolist() for one in sorted({*layer})]
    chosen, heat = added([*itertools.product(*each)], temperatures)
    while len(chosen) < min(most, len(score)):
        chosen, heat = added([(*chosen, head) for head in range(len(score)) if head not in chosen], heat)
    return score


class _LimitEvidence:
    """The log evidence of the network with some of the paths at infinite width."""

    def __init__(self, problem: EncodedProblem):
        values = np.asarray(problem.train.values)
        grams = np.einsum("epi,fpi->pef", values, values, optimize=True) / values.shape[2]
        self.grams, self.labels = grams.reshape(len(grams), -1), problem.labels

    def __call__(self, paths, temperatures) -> Float[np.ndarray, " temperatures"]:
        gram = (paths / np.sum(paths) @ self.grams).reshape((len(self.labels),) * 2)
        found = []
        for heat in temperatures:
            factor = np.linalg.cholesky(gram + heat * np.eye(len(gram)))
            along = scipy.linalg.solve_triangular(factor, self.labels, lower=True, check_finite=False)
            found.append(-0.5 * (along @ along + len(along) * np.log(2 * np.pi)) - np.log(np.diag(factor)).sum())
        return np.array(found)
