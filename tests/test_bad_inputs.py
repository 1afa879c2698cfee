"""Each argument of each public function is fed what is wrong, by one program; a sentence that names it has to come."""

import math
from types import FunctionType

import jax
import jaxtyping
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import dmft, model, pruning, sampling, theory, training

RNG = np.random.default_rng(210)
INPUTS, HEADS, LABELS = RNG.normal(size=(5, 3, 4)), (2, 2), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
KEYS_SEEN, MASK = np.ones((3, 3), bool), np.ones((5, 3), bool)
MAPS = [RNG.dirichlet(np.ones(3), (5, 2, 3)).swapaxes(2, 3) for _ in HEADS]
QUERIES = [RNG.normal(size=(2, 2, 4)) for _ in HEADS]
XI, ROWS = sma.attentioned_inputs(INPUTS, MAPS), sma.token_inputs(INPUTS, MAPS)
GATED = sma.token_inputs(INPUTS, (), layers=[sma.Gated(2)], gates=[np.ones((5, 3, 2))])
BLOCKS = sma.Problem(GATED, LABELS)
PROBLEM = sma.Problem(XI, LABELS, width=5.0, temperature=0.2)
TOKENS = sma.Problem(ROWS, LABELS, width=5.0, temperature=0.2)
ENDLESS = sma.Problem(ROWS, LABELS, width=math.inf, temperature=0.2)
SOLUTION, KERNEL, KEY = sma.solve(ENDLESS), sma.kernel(ROWS, ROWS), jax.random.key(0)
WEIGHTS = sma.sample_weights(key=KEY, layers=HEADS, width=3, features=4)
ORDER = np.eye(4)
DRAWS = RNG.normal(size=(2, 8))
PATTERNS = dmft.published_patterns(seed=0, sites=9)
DYNAMICS = dmft.dynamics(PATTERNS, beta=1.27, gamma=220.0, epsilon=0.02)
WINDOW = dmft.initial_window(DYNAMICS)
SPECTRUM = dmft.lyapunov_spectrum(DYNAMICS, WINDOW, steps=10, count=2, discard=0)
SIGNS = (RNG.choice([-1.0, 1.0], (3, 9)), RNG.choice([-1.0, 1.0], (3, 2)))
MOVE = {"model": DYNAMICS, "window": WINDOW, "steps": 3}
FEW = sampling.SamplerSettings(draws=4, chains=2, warmup=0, progress=False, warn=False)
NARROW = sma.Problem(XI, LABELS, width=2, temperature=0.2)
SAMPLED = {"problem": NARROW, "key": KEY, "test": XI, "settings": FEW}
DRAWN = sampling.posterior(**SAMPLED)
THETA = {"q": np.zeros((2, 3))}
FINITE = sma.solve(PROBLEM)
KERNELS = {"kernel": KERNEL, "heads": pruning.head_kernels(ROWS, ROWS), "labels": LABELS, "temperature": 0.1}
DESCENT = {"tolerance": 1e-8, "max_steps": 9, "directions": 4, "settle": 0.1}
GIVEN = {"attention": MAPS, "layers": HEADS, "readout": "last", "scales": None, "norm": "post", "layout": "key_query"}
GIVEN |= {"mask": MASK}
NUMBERS, KEPT = {"width": 5.0, "temperature": 0.1, "variance": 1.0}, {"definition": "removal", "groups": 1}

# Every public function of these rooms, with arguments that are right.
CALLS: dict = {
    sma.Problem: {"attentioned": XI.values, "labels": LABELS, "layers": HEADS} | NUMBERS,
    sma.accuracy: {"mean": LABELS, "labels": LABELS},
    sma.attention_from_products: {"products": [RNG.normal(size=(2, 4, 4))], "mask": KEYS_SEEN, "bias": None},
    sma.attention_from_queries_and_keys: {"queries": QUERIES, "keys": QUERIES, "mask": KEYS_SEEN, "bias": None},
    sma.attentioned_inputs: {"inputs": INPUTS} | GIVEN,
    sma.token_inputs: {"inputs": INPUTS} | GIVEN,
    sma.first_order: {"problem": TOKENS, "probes": 4, "key": KEY},
    sma.forward: {"weights": WEIGHTS, "inputs": INPUTS} | {name: GIVEN[name] for name in GIVEN if name != "layout"},
    sma.head_scores: {"order_parameter": ORDER, "layers": HEADS, "definition": "either"},
    sma.keep_heads: {"network": XI, "kept": [0, 2], "layers": HEADS},
    sma.kernel: {"inputs": XI.values, "others": XI.values, "order_parameter": ORDER, "layers": HEADS},
    sma.kernel_regression: {"problem": PROBLEM, "order_parameter": ORDER},
    sma.load: {"path": "nowhere.nc"},
    sma.log_evidence: {"solution": SOLUTION, "corrected": False},
    sma.maximise_evidence: {"problem": TOKENS, "chosen": "temperature"} | DESCENT,
    sma.minima: {"problem": TOKENS, "method": "auto"} | DESCENT,
    sma.projection: {"inputs": ROWS, "components": 4, "variance": 1.0},
    sma.posterior: {"problem": PROBLEM, "key": KEY, "test": XI},
    sma.sample_weights: {"key": KEY, "width": 3, "layers": HEADS, "features": 4, "variance": 1.0},
    sma.select_heads: {"problem": ENDLESS, "keep": 2, "components": None, "folds": 2, "seed": 0} | KEPT,
    sma.solve: {"problem": TOKENS, "energy": None, "start": None, "method": "auto", "throw": True} | DESCENT,
    sma.solve_sweep: {"problem": TOKENS, "widths": [5.0], "temperatures": [0.1], "tolerance": 1e-8, "max_steps": 9},
    theory.action: {"problem": PROBLEM, "order_parameters": (ORDER, np.eye(2), 1.0)},
    theory.energy: {"problem": PROBLEM, "order_parameter": ORDER},
    theory.bias_kernel: {"inputs": ROWS, "others": ROWS, "variance": 1.0},
    theory.entropy: {"order_parameters": (ORDER, np.eye(2), 1.0), "width": 5.0, "variance": 1.0, "layers": HEADS},
    theory.gp_order_parameters: {"layers": HEADS, "variance": 1.0},
    model.attention_matrices: {"inputs": INPUTS, "attention": MAPS, "layout": "key_query", "mask": MASK},
    model.effective_weights: {"weights": WEIGHTS, "layers": HEADS},
    model.forward_paths: {"weights": WEIGHTS, "attentioned": XI},
    model.normalisation_scales: {"weights": WEIGHTS, "inputs": INPUTS, "attention": MAPS, "norm": "post"},
    model.path_indices: {"layers": HEADS},
    model.relative_bias: {"table": RNG.normal(size=(2, 5)), "tokens": 3},
    model.weights_order_parameters: {"weights": WEIGHTS, "layers": HEADS},
    pruning.block_kernels: {"inputs": GATED, "others": GATED, "variance": 1.0},
    pruning.select_blocks: {"problem": BLOCKS, "keep": 1, "folds": 2, "seed": 0, "definition": "removal"},
    pruning.unit_slopes: {"inputs": GATED, "labels": LABELS, "variance": 1.0, "temperature": 0.1},
    pruning.fitted_features: {"attentioned": XI, "components": 2},
    pruning.head_indices: {"layers": HEADS},
    pruning.head_kernels: {"inputs": ROWS, "others": ROWS, "variance": 1.0},
    pruning.head_worth: {"solution": SOLUTION, "removal": True},
    pruning.kept_heads: {"removed": [1], "layers": HEADS},
    pruning.kernel_worth: KERNELS | {"layers": HEADS},
    pruning.removal_order: {"scores": np.arange(4.0), "layers": HEADS, "groups": 1},
    pruning.without_head: {"attentioned": ROWS, "head": 1},
    sampling.effective_size: {"draws": DRAWS},
    sampling.estimate: {"draws": DRAWS},
    sampling.importance: {"problem": PROBLEM, "key": KEY, "points": 8, "test": XI},
    sampling.r_hat: {"draws": DRAWS},
    sampling.posterior: SAMPLED,
    sampling.tempered_posterior: SAMPLED | {"rungs": 2},
    sampling.weights_posterior: SAMPLED | {"keep_weights": False},
    sampling.attention_posterior: {
        "problem_of": lambda theta: NARROW,
        "theta": THETA,
        "log_prior": lambda theta: 0.0,
        "key": KEY,
        "test_of": None,
        "settings": FEW,
    },
    sampling.corrected: {"solution": FINITE, "test": XI},
    sampling.predictors: {"problem": NARROW, "draws": DRAWN},
    sampling.prediction: {"draws": DRAWN},
    sampling.SamplerSettings: {"draws": 4, "chains": 2, "warmup": 0, "thinning": 1, "method": "auto"},
    training.learn_attention: {
        "problem_of": lambda theta: PROBLEM,
        "theta": {"q": np.zeros(3)},
        "data": (),
        "log_prior": None,
        "steps": 2,
        "learning_rate": 0.1,
    },
    dmft.published_patterns: {"seed": 1, "features": 3, "window": 4, "segments": 3, "sites": 9},
    dmft.patterns_from_arrays: dict.fromkeys(("query", "key", "value", "output"), SIGNS),
    dmft.positional_code: {"window": 4},
    dmft.pair_correlations: {"one": PATTERNS.query, "other": PATTERNS.key},
    dmft.dynamics: {"patterns": PATTERNS, "beta": 1.27, "gamma": 220.0, "epsilon": 0.02},
    dmft.initial_window: {"model": DYNAMICS},
    dmft.window_from_words: {"model": DYNAMICS, "words": np.ones((2, 9)), "slot": 0},
    dmft.window_from_attention: {"model": DYNAMICS, "attention": np.ones((4, 3)), "slot": 0},
    dmft.step: {"model": DYNAMICS, "window": WINDOW},
    dmft.trajectory: MOVE | {"keep": "attention", "last": True},
    dmft.advance: MOVE,
    dmft.jacobian: {"model": DYNAMICS, "window": WINDOW},
    dmft.lyapunov_spectrum: MOVE | {"count": 2, "discard": 0},
    dmft.regimes: {"spectrum": SPECTRUM, "threshold": 0.01},
    dmft.period: {"model": DYNAMICS, "window": WINDOW, "longest": 4, "tolerance": 1e-9},
    dmft.onset: {"patterns": PATTERNS},
    dmft.simulate: {"model": DYNAMICS, "key": KEY, "steps": 2, "replicas": 1, "window": WINDOW, "copies": 1},
    ROWS.take: {"examples": [0, 1]},
}  # fmt: skip
WRONG = {
    "words": "spam",
    "NaN": math.nan,
    "below zero": -1.0,
    "none of them": [],
    "five axes": np.ones((1, 2, 1, 2, 1)),
}
WRONG |= {"a function": len, "half": 0.5, "a set": {"spam"}}
# What is right all the same, or of which another argument may be blamed.
RIGHT = {
    "half": (
        "width",
        "beta",
        "gamma",
        "epsilon",
        "temperature",
        "variance",
        "tolerance",
        "settle",
        "learning_rate",
        "theta",
        "threshold",
    ),
    "none of them": ("removed", "kept", "attention", "data", "keep"),
    "words": ("path",),
    "one axis more": ("labels",),
    "below zero": ("theta",),
    "five axes": ("theta", "beta", "gamma", "epsilon"),  # one network for each number
    "a function": ("problem_of", "log_prior", "test_of"),
    "text": ("draws",),
}


def wrong(name: str, good) -> dict:
    """Bad values of an argument."""
    if isinstance(good, np.ndarray) and good.dtype == float:
        spoilt = good.copy()
        spoilt.flat[0] = math.nan
        return WRONG | {"a NaN in it": spoilt, "one axis more": good[None], "text": good.astype(str)}
    return WRONG


@pytest.fixture(autouse=True)
def without_checks_of_types():
    """As users run it: the tests' own checks of types would come first."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def complaints(call, arguments: dict, right: dict) -> list[str]:
    """What is not refused by a sentence with the argument's name."""
    said = []
    for name, good in arguments.items():
        for what, value in wrong(name, good).items():
            if name in right.get(what, ()):
                continue
            try:
                result = call(**arguments | {name: value})
            except (ValueError, FileNotFoundError) as error:
                if name not in str(error):
                    said.append(f"{name}={value!r:.30}: {error!s:.90}")
            except Exception as error:
                said.append(f"{name}={value!r:.30}: {type(error).__name__}: {error!s:.90}")
            else:
                if name == "draws" and what == "a NaN in it" and np.isnan(np.ravel(result)).all():
                    continue  # it says so, too
                said.append(f"{name}={value!r:.30}: returned {result!r:.60}")
    return said


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_what_is_wrong_is_refused_by_name(call):
    said = complaints(call, CALLS[call], RIGHT)
    assert not said, "\n" + "\n".join(said)


ELSEWHERE = {
    "attention_from_torch",
    "attention_from_transformers",
    "criterion",
    "enable_x64",
    "report",
    "save",
}  # other tests; readers have theirs beside them


def test_the_list_has_every_public_function():
    known = {call.__name__ for call in CALLS}
    for room in (sma, model, theory, pruning, sampling, training, dmft):
        public = {name for name in room.__all__ if isinstance(getattr(room, name), FunctionType)}
        assert public <= known | ELSEWHERE
