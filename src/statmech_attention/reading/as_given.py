"""A model as somebody hands it over, made fit to be read: the inner one, copied, with eager attention."""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def inner_model(torch, model) -> Any:
    """The model of transformers within a pipeline, a SentenceTransformer or another wrapper; else the model itself."""
    model = model if isinstance(model, torch.nn.Module) else getattr(model, "model", model)
    if not isinstance(model, torch.nn.Module):
        return model
    within = (module for module in model.modules() if hasattr(module, "set_attn_implementation"))
    return next(within, model)


def check_there(model) -> None:
    """Raise ValueError for weights that are nowhere."""
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ValueError("model: wanted weights in memory, got some on the device 'meta'. Load them first.")


@contextmanager
def eager(model) -> Iterator[None]:
    """Attention that computes its matrices, in models of transformers that can change to it, and back at the end."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "set_attn_implementation")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    with ExitStack() as stack:
        for config, implementation in before:
            stack.callback(setattr, config, "_attn_implementation", implementation)
        if any(implementation != "eager" for _, implementation in before):
            model.set_attn_implementation("eager")
        yield


def with_gradients(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
    """A function that finds gradients also where it is called under `no_grad` or `inference_mode`."""

    @wraps(function)
    def tracked(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Returned:
        torch = loaded()
        if torch is None:
            return function(*arguments, **named)
        with torch.inference_mode(False), torch.enable_grad():
            return function(*arguments, **named)

    return tracked


def copied(torch, model) -> Any:
    """A copy of a network, also if its modules keep tensors of their last run, which PyTorch does not copy."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in _tensors_in(torch, list(vars(module).values())):
            if tensor.grad_fn is not None:
                memo[id(tensor)] = tensor.detach().clone()
    try:
        return copy.deepcopy(model, memo)
    except RuntimeError:  # a tensor deeper inside
        raise ValueError(
            "model: wanted modules that can be copied, got one that keeps a tensor of its last run. "
            "Run the model once under torch.no_grad(), or detach what it keeps."
        ) from None


def _tensors_in(torch, value) -> Iterator:
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(torch, part)


def tensors(torch, given: dict) -> dict:
    """Arguments of a model with tensors for lists and arrays, and for what was made under `inference_mode`."""
    return {name: _tensor(torch, name, value) for name, value in given.items()}


def whole_input(torch, inputs) -> Any:
    """The first argument of a network as a tensor."""
    try:
        given = torch.as_tensor(inputs)
    except (TypeError, ValueError, RuntimeError):
        given = None
    if given is None or not given.ndim or not given.numel():
        raise ValueError(f"inputs: wanted an array or a tensor of examples, got {inputs!r:.40}.")
    return given.clone() if given.is_inference() else given


def _tensor(torch, name: str, value):
    if torch.is_tensor(value) and value.is_inference():
        return value.clone()  # gradients pass it
    if type(value) not in (list, np.ndarray):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}: wanted numbers of one shape for all examples, got lists of unequal length or words. "
            "Call tokeniser(texts, padding=True, return_tensors='pt')."
        ) from None


def doubled_softmax(torch):
    """A context in which a softmax of numbers in double precision stays there, whatever it is told.

    Many models take theirs in single precision. The mask of a model in double precision is minus infinity there,
    and a token of padding that may see no key becomes NaN.
    """

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            named, softmax = dict(named or {}), getattr(function, "__name__", "") == "softmax" and arguments
            if softmax and arguments[0].dtype == torch.float64 and named.get("dtype") == torch.float32:
                named["dtype"] = torch.float64
            return function(*arguments, **named)

    return Mode()


def loaded(name: str = "torch"):
    """A library, if somebody has imported it."""
    return sys.modules.get(name)
