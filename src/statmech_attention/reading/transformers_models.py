"""Attention read off a model of Hugging Face's transformers, by what the model does; it is not imported here."""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from statmech_attention import checks
from statmech_attention.model.inputs import ReadAttention, attended, in_numpy, keys_first
from statmech_attention.reading.alone import check_alike, in_front, of_one, shortest
from statmech_attention.reading.as_given import check_there, eager, inner_model, loaded, tensors, with_gradients
from statmech_attention.reading.gates import read_gates
from statmech_attention.reading.listening import Run, places
from statmech_attention.reading.trials import ELSE, TOLERANCE, Residuals, Trial, check_sum, in_double, rows_needed, said


def attention_from_transformers(
    model: Any,
    *,
    layers: Sequence[int] | None = None,
    batch_size: int | None = None,
    test: bool = True,
    gates: bool = False,
    **batch: Any,
) -> ReadAttention | Iterator[ReadAttention]:
    """Read the attention of an encoder, or of a decoder such as GPT-2, of Hugging Face's transformers.

    Padding is what a mask of zeros and ones hides. With another mask, or none, it is the tokens to which
    no query attends in any layer.

    Args:
        model: in evaluation mode, alone or in a pipeline or SentenceTransformer. For the time of reading its
            attention is "eager", since other kinds do not compute the matrices; a model that cannot change
            to it has to be loaded so. The tokens are the output of its embedding layer.
        layers: indices of the layers wanted, all of them if None.
        batch_size: examples that go through the model at a time. The result is then an iterator
            for `attentioned_inputs`, which keeps of each batch only what is read out.
        test: whether what is wanted has to pass the three tests of `reading.read_residuals`. They cost
            three further forward passes and three backward ones of a copy in double precision, on the
            first batch. Leave them out for a large model, or to take one that fails. A text with
            padding in front is compared with itself alone in any case.
        gates: whether to read the gates of the feed-forward blocks, too, see `reading.gates`.
        batch: arguments of the model, as from its tokeniser: `input_ids`, `attention_mask`.

    Raises:
        ValueError: a model that returns no attention or is in training, whose attentions are no
            chain of layers among the same tokens, or that fails a test; a batch in which a text is not
            read as it is alone, as with padding on the left and positions that count it.
    """
    model, test, gates = _checked(model, batch), checks.flag("test", test), checks.flag("gates", gates)
    examples = len(next(iter(batch.values())))
    size = examples if batch_size is None else checks.whole("batch_size", batch_size)
    several = {name for name, argument in batch.items() if hasattr(argument, "__len__") and len(argument) == examples}
    reads = (
        _with_gates(
            model,
            batch | {name: batch[name][start : start + size] for name in several},
            layers,
            test and not start,
            gates,
        )
        for start in range(0, examples, size)
    )
    return next(reads) if batch_size is None else reads


@with_gradients
def read_residuals(model: Any, *, layers: Sequence[int] | None = None, **batch: Any) -> list[Residuals]:
    r"""Return what three tests leave unexplained of a model of transformers; near rounding where it can be read.

    1. Random tokens along two directions enter an attention. Its output has to be
       $\sum_h M_h \Omega_h x$, with the matrices $\Omega_h$ that it returns and fixed $M_h$: least
       squares, judged on tokens that were held out.
    2. The same, with all weights of the model changed at random.
    3. Between attentions, and from the last of them to the output, each token depends on the same
       token alone: gradients with respect to all tokens at once, and a run with half of them changed.

    Args:
        model, layers, batch: as in `attention_from_transformers`.
    """
    model = _checked(model, batch)
    with eager(model):
        result, where, chosen, mask = _run(model, batch, layers)
        return _residuals(model, batch, result, where, chosen, layers is None, mask)


def _checked(model, batch: dict):
    """The model of transformers in what was given."""
    torch, given = loaded(), type(model).__name__
    model = model if torch is None else inner_model(torch, model)
    if torch is None or not isinstance(model, torch.nn.Module) or not hasattr(model, "config") or not batch:
        raise ValueError(f"model: wanted a model of transformers and its inputs, as from its tokeniser, got {given}.")
    if any(module.training for module in model.modules()):
        raise ValueError("model: wanted all of it in evaluation, got layers in training. Call model.eval().")
    check_there(model)
    name, first = next(iter(batch.items()))
    if isinstance(first, (str, set, dict)) or not hasattr(first, "__len__") or not len(first):
        raise ValueError(f"{name}: wanted at least one example, got {first!r:.40}.")
    return model


@with_gradients
def _with_gates(model, batch: dict, layers, test: bool, gates: bool) -> ReadAttention:
    read = _read(model, batch, layers, test)
    if not gates:
        return read
    torch = loaded()
    with eager(model):
        result, _, chosen, _ = _run(model, batch, layers)
    found = read_gates(torch, model, _asked(torch, model, batch), len(result.attentions), test)
    return read._replace(gates=tuple(found[layer] for layer in chosen))


def _read(model, batch: dict, layers, test: bool) -> ReadAttention:
    with eager(model):
        result, where, chosen, mask = _run(model, batch, layers)
        if test:
            for residuals in reversed(_residuals(model, batch, result, where, chosen, layers is None, mask)):
                _check_residuals(residuals)
        _check_alone(model, batch, result, chosen, mask, test)
    matrices = keys_first(result.attentions[layer] for layer in chosen)
    if mask is not None and mask.ndim == 2 and np.isin(mask, (0, 1)).all():
        return ReadAttention(in_numpy(result.hidden_states[0]), matrices, mask != 0)
    square = [matrix for matrix in result.attentions if matrix.shape[-2:] == matrices[0].shape[-2:]]
    seen = attended(keys_first(square))
    return ReadAttention(in_numpy(result.hidden_states[0]), matrices, None if mask is None and seen.all() else seen)


def _check_alone(model, batch: dict, result, chosen, mask, test: bool) -> None:
    """Raise ValueError if the text with the most padding is read otherwise than alone."""
    torch, shape = loaded(), tuple(result.hidden_states[0].shape[:2])
    tokens = mask is not None and mask.shape == shape and np.isin(mask, (0, 1)).all()
    one = shortest(mask != 0 if tokens else np.ones(shape, bool))
    if one is None or not (test or in_front(one[1])):
        return
    asked = {name: of_one(value, *one, shape) for name, value in _asked(torch, model, batch).items()}
    try:
        with torch.no_grad():
            alone = model(**asked)
    except (RuntimeError, IndexError):  # arguments of shapes of their own
        return
    pairs = ([each.hidden_states[0], *(each.attentions[layer] for layer in chosen)] for each in (result, alone))
    check_alike(*one, *pairs, named="position_ids" in inspect.signature(model.forward).parameters)


def _run(model, batch: dict, layers) -> tuple:
    """Run a model: what it returned, the places of its attentions, the numbers of those wanted, and the mask given."""
    torch = loaded()
    with torch.no_grad(), Run(torch).listening(model) as run:
        result = model(**_asked(torch, model, batch))
    _check_found(model, result)
    where = places(run, result.attentions)
    chosen = _chosen(model, layers, where, len(result.hidden_states) - 1)
    tokens = result.hidden_states[0].shape[:2]
    for layer in chosen:
        got = tuple(result.attentions[layer].shape)
        if len(got) != 4 or (got[0], *got[2:]) != (*tokens, tokens[1]):
            raise ValueError(
                f"model: wanted matrices ({tokens[0]}, heads, {tokens[1]}, {tokens[1]}) among the tokens, got {got} in "
                f"attention {layer}, as of windows, states or memory. {ELSE}"
            )
    mask = batch["input_mask"] == 0 if "input_mask" in batch else batch.get("attention_mask")  # XLNet's is the opposite
    return result, where, chosen, None if mask is None else np.asarray(getattr(mask, "cpu", lambda: mask)())


def _asked(torch, model, batch: dict) -> dict:
    """The arguments of a run that returns attention, without a cache of keys and values."""
    cache = {"use_cache": False} if getattr(model.config, "use_cache", None) else {}
    outputs = dict.fromkeys(("output_attentions", "output_hidden_states", "return_dict"), True)
    return tensors(torch, batch) | outputs | cache


def _chosen(model, layers, where: list, depth: int) -> list[int]:
    """Numbers of the attentions of the layers wanted; not every layer of a model needs to have attention."""
    count = len(where)
    if count == depth or layers is None:
        every = range(count) if layers is None else checks.indices("layers", layers, count, least=1, what="layers")
        return [int(layer) for layer in every]
    there = [_depth(model, place, depth) for place in where]
    wanted = [int(layer) for layer in checks.indices("layers", layers, depth, least=1, what="layers")]
    if not set(wanted) <= set(there):
        raise ValueError(f"layers: wanted layers with attention, which are {there}, got {wanted}.")
    return [there.index(layer) for layer in wanted]


def _depth(model, place, depth: int) -> int | None:
    """The number of the layer in a list of `depth` modules that a place is in."""
    parts = [] if place is None else place[0].split(".")
    for number, part in enumerate(parts):
        if part.isdigit() and len(list(model.get_submodule(".".join(parts[:number])).children())) == depth:
            return int(part)
    return None


def _residuals(model, batch, result, where, chosen, whole: bool, mask) -> list[Residuals]:
    """The residuals of the attentions wanted, on the examples as often as a fit needs them."""
    torch = loaded()
    if missing := [layer for layer in chosen if where[layer] is None]:
        got = f"none that returns those of attention {missing[0]}"
        raise ValueError(f"model: wanted modules that return the matrices of their attention, got {got}. {ELSE}")
    shape = tuple(result.hidden_states[0].shape[:2])
    counted = mask != 0 if mask is not None and mask.shape == shape else np.ones(shape, bool)
    heads = max(result.attentions[layer].shape[1] for layer in chosen)
    times = -(-rows_needed(heads) // int(counted.sum()))
    times += times * shape[0] == shape[1]  # examples and tokens should differ in number
    given = {
        name: torch.cat([value] * times) if torch.is_tensor(value) and value.ndim and len(value) == shape[0] else value
        for name, value in _asked(torch, model, batch).items()
    }
    first = 0 if whole or 0 in chosen and len(where) == len(result.hidden_states) - 1 else min(chosen) + 1
    links, counted = list(range(first, max(chosen) + 1 + whole)), np.concatenate([counted] * times)

    def residuals(model, ask):
        return Trial(torch, model, ask, where, chosen, links, counted).residuals()

    return in_double(torch, model, given, residuals)


def _check_residuals(residuals: Residuals) -> None:
    """Raise ValueError for a test that leaves something."""
    check_sum(residuals.layer, max(residuals.values, residuals.heads))
    if not residuals.tokens <= TOLERANCE:
        before = f"attention {residuals.layer - 1}" if residuals.layer else "the first tokens"
        got = f"{said(residuals.tokens)} of what comes from {before} carried to other tokens, as by a convolution"
        if residuals.tokens == np.inf:
            got = f"other tokens, or none, behind {before}"
        raise ValueError(f"model: wanted attentions that act on each other token by token, got {got}. {ELSE}")


def _check_found(model, result) -> None:
    """Raise ValueError unless a model returns attention among its own tokens."""
    attentions, hidden = getattr(result, "attentions", None), getattr(result, "hidden_states", None)
    if not attentions or not hidden or not all(hasattr(matrix, "shape") for matrix in attentions):
        raise ValueError(
            f"model: wanted attention of every layer, got none from {type(model).__name__}. Take "
            "model.set_attn_implementation('eager'), or of an encoder with a decoder model.get_encoder()."
        )
    if getattr(result, "cross_attentions", None):
        raise ValueError(
            f"model: wanted attention among the same tokens, got cross-attention to another sequence. {ELSE}"
        )
