"""Every public function on many kinds of nonsense, one argument at a time; prints what is not an error of the house.

Run by `test_nonsense.py` in a process of its own, where nothing checks types before the functions themselves do, as with
somebody who imports the package.
"""

import inspect
import itertools
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import xarray as xr

import statmech_attention as sma
from attention_book.locks import Busy
from attention_book.training.path_form import initial
from statmech_attention import dmft, layers, pruning, results, sampling, tasks, training

sma.enable_x64()
LONGEST = 60
VERBOSE = "PROFILE" in os.environ
ROOMS = (sma, layers, dmft, pruning, results, sampling, tasks, training)
# What a function may say: which argument, what was wanted, what was got. And that it did its work and something came of it.
HOUSE = (ValueError, FileNotFoundError, sma.NotConverged, FloatingPointError, Busy, IndexError)
TOLD = re.compile(r"wanted|carry|already|no recorded result|another run|not reached|diverged")

NONSENSE = {
    "none": None,
    "text of digits": "35",
    "empty text": "",
    "bytes": b"35",
    "truth value": True,
    "negative": -1,
    "zero": 0,
    "fraction": 2.5,
    "nan": math.nan,
    "infinity": math.inf,
    "complex": 1j,
    "no float": 10**400,
    "empty list": [],
    "ragged list": [[1.0], [1.0, 2.0]],
    "list of texts": ["a", "b"],
    "dictionary": {},
    "set": {1, 2},
    "object": object(),
    "function": len,
    "class": int,
    "module": math,
    "generator": (number for number in (1, 2)),
    "text in an array": np.array("35"),
    "array of texts": np.array(["a", "b"]),
    "array of objects": np.array([None, object()]),
    "empty array": np.zeros((0, 2, 2)),
    "array of truth values": np.ones(3, bool),
    "complex array": np.ones((3, 4)) * 1j,
    "array with nan": np.full((3, 4, 5), np.nan),
    "array of six axes": np.ones((1,) * 6),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "single precision": np.ones((3, 4), "float32"),
    "random key": jax.random.key(0),
    "dataset": xr.Dataset({"a": 1.0}),
}

RNG = np.random.default_rng(0)
KEY, HEADS, FEATURES, WIDTH = jax.random.key(0), (2,), 3, 8  # one layer: nearly all of the time is compilation
INPUTS, LABELS = RNG.normal(size=(3, 4, FEATURES)), np.array([1.0, -1.0, 1.0])
PRODUCTS = [RNG.normal(size=(2, FEATURES, FEATURES)) for _ in HEADS]
QUERIES = [RNG.normal(size=(2, 2, FEATURES)) for _ in HEADS]
ATTENTION = sma.attention_from_products(PRODUCTS)
MATRICES = sma.attention_matrices(INPUTS, ATTENTION)
MASK = np.ones((3, 4), bool)
FORM = {"layout": "key_query", "mask": MASK}
SEEN = sma.attentioned_inputs(INPUTS, ATTENTION)
PHYSICS = {"width": WIDTH, "temperature": 0.3}
TRAIN = {"attentioned": SEEN, "labels": LABELS}
SOLVED = sma.solve(SEEN, LABELS, **PHYSICS)
U, OVERLAPS = SOLVED.order_parameter, SOLVED.order_parameters
WEIGHTS = sma.sample_weights(KEY, heads=HEADS, width=WIDTH, features=FEATURES)
CHAINS = {"draws": 4, "chains": 2, "warmup": 2, "warn": False}
CONTRIBUTIONS = pruning.path_contributions(WEIGHTS, SEEN)
TASK = tasks.OneShot(tasks.glyphs(6, 2))
SPLIT = tasks.glyph_split(TASK.images)
PARAMETERS = initial(KEY, HEADS, WIDTH, 2, 192)
NETWORK = training.trained_network(PARAMETERS)
PATTERNS = dmft.independent(seed=1, sites=6)
MODEL = dmft.dynamics(PATTERNS, beta=1.2, gamma=3.0, epsilon=0.1)
WINDOW, SILENT = dmft.start(MODEL), MODEL.at(beta=0.0)
FOLDER = Path(tempfile.mkdtemp())
RESULT = results.save(xr.Dataset({"a": 1.0}), FOLDER / "one.nc", parameters={})
NETWORK_FILE = training.save_network(NETWORK, FOLDER / "network.nc", parameters={})
BOTH = {"model": MODEL, "window": WINDOW}
SERIES = np.sin(np.arange(16.0))
SPECTRUM = dmft.LyapunovSpectrum(np.array([0.1, -0.2]), np.full(2, 0.01), np.zeros(2), WINDOW)
PAIR = [(one.words, one.positions) for one in (PATTERNS.query, PATTERNS.key, PATTERNS.value, PATTERNS.output)]
SELECTED = (
    RNG.normal(size=(8, 4, 3)),
    [RNG.dirichlet(np.ones(4), size=(8, 2, 4)).swapaxes(2, 3)],
    np.tile([1.0, -1.0], 4),
)
DRAWS = RNG.normal(size=(2, 8))
SAMPLES = xr.Dataset({"output": (("chain", "draw", "example"), RNG.normal(size=(2, 4, 3)))})
MATRIX = {"order_parameter": U, "heads": HEADS}
REMOVED = {"contributions": CONTRIBUTIONS, "labels": LABELS, "heads": HEADS}
SCORES = np.array([1.0, 0.5])
SAMPLE = (
    TRAIN
    | PHYSICS
    | {"key": KEY, "attentioned_test": SEEN, "checkpoint": None, "variance": 1.0, "heads": None, "thinning": 1}
    | CHAINS
)

WEIGHT_SAMPLES = sampling.gibbs_posterior(**TRAIN, **PHYSICS, key=KEY, keep_weights=True, **CHAINS)
SEEN192 = sma.attentioned_inputs(RNG.normal(size=(2, 3, 192)), NETWORK.attention, readout="mean")


def follow(model, window):
    """A measure for `continuation`."""
    return dmft.attractors(model, window, transient=1, steps=10, discard=1, blocks=2, longest=4)


# By room and function what it takes; what has a default and is not here keeps it.
TABLE = {
    sma: {
        "accuracy": {"mean": LABELS, "labels": LABELS},
        "action": {"order_parameters": OVERLAPS, **TRAIN, **PHYSICS, "variance": 1.0, "heads": None},
        "attention_from_products": {"products": PRODUCTS, "mask": None, "bias": None},
        "attention_from_queries_and_keys": {"queries": QUERIES, "keys": QUERIES, "mask": None, "bias": None},
        "attention_from_torch": {"model": None, "inputs": INPUTS, "layers": None},
        "attention_from_transformers": {"model": None, "layers": None},
        "attention_matrices": {"inputs": INPUTS, "attention": MATRICES} | FORM,
        "attentioned_inputs": {"inputs": INPUTS, "attention": ATTENTION, "readout": "last", "heads": None} | FORM,
        "centred_alignment": {"kernel": np.eye(3), "labels": LABELS},
        "check_layer": {"layer": sma.Heads(1), "seed": 0},
        "effective_weights": {"weights": WEIGHTS, "heads": None},
        "enable_x64": {},
        "energy": {"order_parameter": U, **TRAIN, "temperature": 0.3, "variance": 1.0, "heads": None},
        "entropy": {"order_parameters": OVERLAPS, "heads": HEADS, "width": WIDTH, "variance": 1.0},
        "fit": TRAIN
        | PHYSICS
        | {"variance": 1.0, "heads": None, "chosen": ["temperature"], "temperature_range": (1e-3, 10.0)}
        | {"variance_range": (1e-3, 1e3), "tolerance": 1e-8, "max_steps": 100},
        "forward": {"weights": WEIGHTS, "inputs": INPUTS, "attention": ATTENTION, "readout": "last", "heads": None}
        | FORM,
        "forward_paths": {"weights": WEIGHTS, "attentioned": SEEN},
        "evidence_slopes": TRAIN | {"temperature": 1.0, "variance": 1.0, "heads": None},
        "gp_order_parameters": {"heads": HEADS, "variance": 1.0},
        "head_indices": {"heads": HEADS},
        "head_scores": MATRIX | {"definition": "both"},
        "kernel": {"attentioned": SEEN, "others": SEEN, "order_parameter": U, "variance": 1.0, "heads": None},
        "load_network": {"path": NETWORK_FILE},
        "mean_free": {"weights": WEIGHTS},
        "normalisation_scales": {"weights": WEIGHTS, "inputs": INPUTS, "attention": ATTENTION, "heads": None}
        | {"norm": "post", "epsilon": 0.0, "mask": MASK},
        "pad_sequences": {"sequences": [INPUTS[0], INPUTS[1, :2]]},
        "path_indices": {"heads": HEADS},
        "path_kernel": {"attentioned": SEEN, "others": SEEN, "path": 0, "other_path": 1, "heads": None},
        "predict": {
            **TRAIN,
            "attentioned_test": SEEN,
            "order_parameter": U,
            "temperature": 0.3,
            "variance": 1.0,
            "paths": None,
            "heads": None,
        },
        "principal_overlaps": {"kernel": np.eye(3), "labels": LABELS},
        "prune": {"network": SEEN, "removed": [0], "heads": None},
        "relative_bias": {"table": np.ones((2, 3)), "tokens": 4},
        "restrict_paths": {"order_parameter": U, "paths": [0], "outputs": 1},
        "select_heads": dict(zip(("inputs", "attention", "labels"), SELECTED, strict=True))
        | {"keep": 1, "width": 10, "layout": "key_query", "mask": np.ones((8, 4), bool)}
        | {"temperature": 0.1, "readout": "first", "heads": None, "directions": 2, "folds": 2, "seed": 0}
        | {"definition": "both"},
        "sample_weights": {"key": KEY, "heads": HEADS, "width": WIDTH, "features": FEATURES, "variance": 1.0},
        "save_network": {"network": NETWORK, "path": FOLDER / "other.nc", "parameters": {}},
        "solve": TRAIN
        | PHYSICS
        | {"variance": 1.0, "heads": None, "start": None, "tolerance": 1e-8, "max_steps": 200, "method": "auto"},
        "solve_sweep": TRAIN
        | {"widths": [8, 4], "temperatures": [0.3], "variance": 1.0, "heads": None, "tolerance": 1e-8}
        | {"max_steps": 200, "method": "auto"},
        "train": {
            "task": TASK,
            "split": SPLIT,
            "heads": (2,),
            "width": 4,
            "dimension": 2,
            "seed": 0,
            "epochs": 1,
            "batch": 4,
            "learning_rate": 1e-3,
            "weight_decay": 0.0,
            "validate_every": 100,
            "checkpoint": None,
            "stop_after": 1,
        },
        "train_weights": TRAIN
        | PHYSICS
        | {"key": KEY, "variance": 1.0, "heads": None, "steps": 2, "learning_rate": 0.03},
        "weights_order_parameters": {"weights": WEIGHTS, "heads": None},
    },
    layers: {"chain": {"heads": HEADS}, "Heads": {"count": 2}, "Outputs": {"count": 2}, "SkipHeads": {"count": 2}},
    dmft: {
        "advance": BOTH | {"steps": 2},
        "attractors": BOTH
        | {"transient": 1, "steps": 10, "count": None, "discard": 1, "blocks": 2, "longest": 4, "threshold": 0.1}
        | {"standard_errors": 3.0},
        "autocorrelation": {"series": SERIES, "lags": 3, "axis": -1},
        "bifurcation_diagram": BOTH
        | {"transient": 1, "steps": 2, "pairs": ((0, 1),), "thickness": 0.1, "levels": 5, "limit": 1.0},
        "continuation": {"model": MODEL.at(beta=np.ones((1, 2))), "window": WINDOW, "measure": follow},
        "correlations": {"patterns": PATTERNS},
        "damage": {"model": MODEL, "key": KEY, "steps": 2, "first": WINDOW, "second": WINDOW, "pairs": 1},
        "dynamics": {"patterns": PATTERNS, "beta": 1.0, "gamma": 1.0, "epsilon": 0.1, "average": "sites"},
        "floquet_multipliers": {
            "model": SILENT,
            "window": dmft.advance(SILENT, WINDOW, steps=20),
            "period": 4,
            "turns": 1,
        },
        "fluctuations": BOTH | {"steps": 2},
        "given": dict(zip(("query", "key", "value", "output"), PAIR, strict=True)),
        "independent": {"key": KEY, "seed": None, "features": 3, "window": 4, "sites": 6},
        "jacobian": BOTH,
        "log_likelihood_ratios": {"model": MODEL, "key": KEY, "steps": 2, "first": WINDOW, "second": WINDOW}
        | {"replicas": 1, "copies": 1},
        "lyapunov_spectrum": BOTH | {"steps": 10, "count": 2, "discard": 1, "blocks": 2},
        "onset": {"patterns": PATTERNS},
        "pair_correlations": {"one": PATTERNS.query, "other": PATTERNS.key},
        "period": BOTH | {"longest": 4, "tolerance": 1e-9},
        "periodic_orbit": {"model": SILENT, "window": dmft.start(SILENT), "period": 4, "max_steps": 5},
        "positional_code": {"window": 4},
        "power_spectrum": {"series": SERIES, "axis": -1},
        "regimes": {"spectrum": SPECTRUM, "threshold": 0.1, "standard_errors": 3.0},
        "segments": {"key": KEY, "seed": None, "features": 3, "segments": 3, "window": 4, "sites": 6},
        "simulate": {"model": MODEL, "key": KEY, "steps": 2, "replicas": 1, "window": WINDOW, "copies": 1}
        | {"keep": ("attention",)},
        "start": {"model": MODEL},
        "step": BOTH,
        "trajectory": BOTH | {"steps": 2, "keep": ("attention",)},
        "window_from_attention": {"model": MODEL, "attention": np.zeros((4, 3)), "slot": 0},
        "window_from_overlaps": {"model": MODEL, "keys": np.zeros((4, 3)), "values": np.zeros((4, 3))}
        | {"attention": np.zeros(3), "slot": 0},
        "window_from_words": {"model": MODEL, "words": np.ones((1, 6)), "slot": 0},
    },
    pruning: {
        "every_removal": REMOVED | {"count": 1, "bias": 0.0},
        "greedy_order": REMOVED | {"bias": 0.0},
        "head_confidence": {"attention": MATRICES} | FORM,
        "head_drops": REMOVED | {"bias": 0.0},
        "head_evidence": TRAIN
        | PHYSICS
        | {"variance": 1.0, "heads": None, "coefficients": "kept", "start": None, "tolerance": 1e-8},
        "head_shares": MATRIX,
        "head_weight_norms": {"network": NETWORK},
        "heads_left": {"heads": HEADS, "removed": [0]},
        "kernel_shares": {"weights": U, "covariance": U, "heads": HEADS},
        "layer_shares": MATRIX,
        "log_evidence": {"solution": SOLVED},
        "masked_outputs": {"contributions": CONTRIBUTIONS, "heads": HEADS, "kept": np.ones((1, 2), bool), "bias": 0.0},
        "normalised_by_layer": {"scores": SCORES, "heads": HEADS},
        "order_parameters_left": {"solution": SOLVED, "head": 0},
        "ordering": {"scores": [SCORES], "drops": [SCORES], "heads": [HEADS], "resamples": 3, "seed": 0},
        "path_contributions": {"network": WEIGHTS, "attentioned": SEEN},
        "path_covariance": {"attentioned": SEEN},
        "path_weights": MATRIX,
        "predictor_contributions": {
            "attentioned": SEEN,
            "labels": LABELS,
            "attentioned_test": SEEN,
            "order_parameter": U,
            "temperature": 0.3,
        },
        "predictor_vectors": {"attentioned": SEEN, "labels": LABELS, "order_parameter": U, "temperature": 0.3},
        "pruning_curve": REMOVED | {"order": [0], "bias": 0.0},
        "rank_correlation": {
            "scores": [SCORES] * 2,
            "drops": [SCORES] * 2,
            "resamples": 3,
            "seed": 0,
            "confidence_level": 0.9,
        },
        "removal_order": {"scores": SCORES, "heads": HEADS},
        "taylor_importance": REMOVED | {"bias": 0.0},
        "without_head": {"attentioned": SEEN, "head": 0, "coefficients": "kept", "heads": None},
        "without_layers": REMOVED | {"heads": (sma.SkipHeads(1),)},
    },
    results: {
        "digest": {"path": RESULT},
        "load": {"path": RESULT},
        "record": {"path": RESULT},
        "save": {"dataset": xr.Dataset({"a": 1.0}), "path": RESULT, "parameters": {}, "inputs": None, "revision": 1},
    },
    sampling: {
        "check_chains": {"draws": 4, "chains": 2, "warmup": 1, "thinning": 1, "chain_method": "auto"},
        "corrected": {"solution": SOLVED, "attentioned_test": SEEN},
        "bulk_size": {"draws": DRAWS},
        "effective_size": {"draws": DRAWS},
        "estimate": {"draws": DRAWS},
        "evidence_by_temperature": TRAIN
        | {"width": WIDTH, "temperatures": [0.3], "key": KEY, "variance": 1.0, "heads": None, "points": 4},
        "gibbs_posterior": SAMPLE | {"start": None},
        "importance": TRAIN
        | PHYSICS
        | {"key": KEY, "variance": 1.0, "heads": None, "points": 4, "attentioned_test": SEEN},
        "mean_accuracy": {"outputs": (LABELS, 0.1 * np.ones(3)), "labels": LABELS},
        "posterior": SAMPLE,
        "inference_data": {"draws": xr.Dataset({"order_parameter": (("chain", "draw"), DRAWS)})},
        "prediction": {"draws": SAMPLES},
        "predictors": {"draws": WEIGHT_SAMPLES, **TRAIN, "heads": None},
        "r_hat": {"draws": DRAWS},
        "rank_r_hat": {"draws": DRAWS},
        "tail_size": {"draws": DRAWS},
        "tempered_posterior": SAMPLE | {"rungs": 2},
        "weights_posterior": SAMPLE | {"start": None, "warmup": 0},
    },
    tasks: {
        "HiddenMarkov": {
            "length": 3,
            "token_size": 4,
            "slow": 0.3,
            "fast": 0.7,
            "parallel_noise": 1.0,
            "perpendicular_noise": 1.0,
            "hardness": 1.0,
        },
        "HiddenMarkovClasses": {"classes": 2, "length": 3, "token_size": 4, "hardness": 1.0},
        "ImageSet": {
            "name": "two",
            "pixels": TASK.images.pixels,
            "starts": TASK.images.starts,
            "names": TASK.images.names,
        },
        "OneShot": {"images": TASK.images, "patch": 8, "epsilon": 1e-5, "label_seed": 0},
        "glyph_split": {"images": TASK.images},
        "glyphs": {"classes": 2, "drawings": 2, "seed": 0},
        "omniglot_split": {"images": TASK.images},
        "one_shot_suite": {"name": "nothing", "root": FOLDER},
    },
    training: {"trained_network": {"parameters": PARAMETERS, "curve": None, "best_step": 0, "heads": None}},
}
# Methods, each of an object that is as it should be.
CHAIN, SUITE = tasks.HiddenMarkov(length=3, token_size=4), None
METHODS = {
    "AttentionedInputs.keep_heads": (SEEN.keep_heads, {"kept": ((0,),)}),
    "ProductAttention": (ATTENTION, {"inputs": INPUTS, "mask": MASK}),
    "Solution.predict": (SOLVED.predict, {"attentioned_test": SEEN, "paths": None}),
    "JointPrediction.samples": (SOLVED.predict(SEEN, joint=True).samples, {"key": KEY, "draws": 2}),
    "Solution.kernel": (SOLVED.kernel, {"attentioned": SEEN, "others": SEEN}),
    "Dynamics.at": (MODEL.at, {"beta": 1.0, "gamma": 1.0, "epsilon": 0.1}),
    "Patterns.repeat": (PATTERNS.repeat, {"times": 2}),
    "HiddenMarkov.sample": (CHAIN.sample, {"key": KEY, "examples": 2}),
    "HiddenMarkov.heads": (CHAIN.heads, {"key": KEY}),
    "HiddenMarkov.trial": (
        CHAIN.trial,
        {"key": KEY, "examples": 2, "test_examples": 2, "products": None, "readout": "last"},
    ),
    "OneShot.sample": (TASK.sample, {"key": KEY, "examples": 2, "classes": [0, 1], "asked": None}),
    "OneShot.sequences": (TASK.sequences, {"key": KEY, "pairs": [[0, 1]]}),
    "OneShot.all_pairs": (TASK.all_pairs, {"classes": [0, 1]}),
    "TrainedNetwork.outputs": (NETWORK.outputs, {"attentioned": SEEN192}),
}
# These have their own parameters for arguments or nothing to refuse.
NOT_CALLED = {"weights_model"}
# Of the encoder and the sentences: their own tests have the cases.
NOT_CALLED |= {
    "encode",
    "encoded_batches",
    "encoded_sentences",
    "freeze",
    "pretrained_encoder",
    "random_encoder",
    "replay",
}
NOT_CALLED |= {"sentence_set", "tokenise"}


# These need files, or Omniglot itself: they refuse what is here, and nonsense too.
REFUSE = {"tasks.omniglot_split", "tasks.one_shot_suite"}
# And these are of PyTorch and of Hugging Face.
REFUSE |= {"statmech_attention.attention_from_torch", "statmech_attention.attention_from_transformers"}


def functions():
    """Name, function and what it takes, of all."""
    for room, table in TABLE.items():
        for name, takes in table.items():
            yield f"{room.__name__.rpartition('.')[2]}.{name}", getattr(room, name), takes
    for name, (method, takes) in METHODS.items():
        yield name, method, takes


def missing():
    """Public functions that the table lacks."""
    named = {name for table in TABLE.values() for name in table}
    for room in ROOMS:
        for name in set(room.__all__) - named - NOT_CALLED:
            function = getattr(room, name)
            if callable(function) and not inspect.isclass(function):
                yield f"missing: {room.__name__}.{name}"


def too_long(*_):
    raise TimeoutError(f"not done after {LONGEST} s")


def complaints(only: str = ""):
    """What is not an error of the house, and what should work and does not."""
    for name, function, takes in functions():
        if only not in name:
            continue
        began, parameters = time.process_time(), inspect.signature(function).parameters
        optional = {one for one in takes if one in parameters and parameters[one].default is None}
        if name not in REFUSE:
            function(**takes)
        slowest = 0.0, ""
        for argument, usual in takes.items():
            if isinstance(usual, bool):
                continue  # anything is true or false
            for kind, value in NONSENSE.items():
                if (value is None and argument in optional) or (callable(usual) and callable(value)):
                    continue
                start = time.process_time()
                try:
                    signal.setitimer(signal.ITIMER_REAL, LONGEST)  # a loop that does not end is another raw error
                    function(**(takes | {argument: value}))
                except HOUSE as error:
                    if not TOLD.search(str(error)):
                        yield f"{name}({argument}={kind}): {type(error).__name__}: {str(error)[:150]!r}"
                except Exception as error:
                    yield f"{name}({argument}={kind}): {type(error).__name__}: {str(error)[:150]!r}"
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                slowest = max(slowest, (time.process_time() - start, f"{argument}={kind}"))
        if VERBOSE:
            print(f"{name}: {time.process_time() - began:.1f} s, {slowest}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.chdir(FOLDER)  # for what is taken for the name of a file
    signal.signal(signal.SIGALRM, too_long)
    warnings.simplefilter("ignore")
    found = 0
    for complaint in itertools.chain(missing(), complaints(*sys.argv[1:])):
        print(complaint, flush=True)
        found += 1
    shutil.rmtree(FOLDER)
    sys.exit(bool(found))
