"""Hooks at all modules of a network of PyTorch: which of them computes an attention, what enters and leaves it."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager

# Functions of PyTorch that multiply by a matrix, or norm: the first tensor that they take is heard.
_PRODUCTS = {"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "conv1d"}
_NORMS = {"layer_norm", "rms_norm", "group_norm"}


class Run:
    """One run of a network with hooks at all its modules.

    A place is a module's name and the number of its call: layers may share a module. `enter` takes the
    number of a place, a sequence that enters it and the number of the sequence, `leave` the number of a
    place and the sequence that leaves it; both return what goes on instead.

    Attributes:
        several: place and 4-dimensional tensors of each call that returned several things, by its end.
        ahead: place and result of each call that ended before any of the places was entered.
        inside: what enters and leaves each norm called inside a place, and what leaves the place, with and
            without a sequence that was handed to it to be added.
        behind: what matrices and norms take after a place was left and before the next one is.
    """

    def __init__(self, torch, places=(), *, enter: Callable | None = None, leave: Callable | None = None):
        self.torch, self.places, self.enter, self.leave = torch, list(places), enter, leave
        self.several: list[tuple] = []
        self.ahead: list[tuple] = []
        self.inside: dict[int, list] = {number: [] for number in range(len(self.places))}
        self.behind: dict[int, list] = {number: [] for number in range(len(self.places))}
        self._left: int | None = None
        self._begun = False
        self._calls: Counter = Counter()
        self._open: list[tuple[str, int]] = []

    @contextmanager
    def listening(self, model, products: bool = False):
        """Hooks in place, and none of them afterwards; with `products` also at functions of PyTorch."""
        with ExitStack() as stack:
            for name, module in model.named_modules():
                for hook in (
                    module.register_forward_pre_hook(self._before(name), with_kwargs=True),
                    module.register_forward_hook(self._after, with_kwargs=True),
                ):
                    stack.callback(hook.remove)
            if products:
                stack.enter_context(_functions(self.torch, self._behind))
            yield self

    def _before(self, name: str):
        def before(module, arguments, named):
            place = (name, self._calls[name])
            self._calls[name] += 1
            self._open.append(place)
            if _is_norm(module) and arguments:
                self._behind("norm", arguments[0])
            self._begun |= place in self.places
            if self.enter is None or place not in self.places:
                return None
            given = self._entered([*arguments, *named.values()], self.places.index(place))
            return tuple(given[: len(arguments)]), dict(zip(named, given[len(arguments) :], strict=True))

        return before

    def _after(self, module, arguments, named, result):
        place = self._open.pop()
        several = isinstance(result, tuple | list)
        if self.places and not self._begun and self._sequence(result):
            self.ahead.append((place, result))
        if _is_norm(module) and arguments and self._sequence(arguments[0]):
            for outer in self._open:
                if outer in self.places:
                    self.inside[self.places.index(outer)].append(("norm", arguments[0], result))
        if several:
            self.several.append((place, [part for part in result if self.torch.is_tensor(part) and part.ndim == 4]))
        if place not in self.places:
            return None
        number = self.places.index(place)
        if several:
            self._note_end(self.inside[number], [*arguments, *named.values()], result)
        self._left = number
        if self.leave is None:
            return None
        return self._instead(list(result) if several else [result], number, several)

    def _entered(self, given: list, number: int) -> list:
        """Arguments with each different sequence, as long as the first, replaced by what `enter` makes of it."""
        replaced: list[tuple] = []
        for position, argument in enumerate(given):
            if not self._sequence(argument) or replaced and argument.shape != replaced[0][0].shape:
                continue
            other = next((new for old, new in replaced if old is argument), None)
            if other is None:
                other = self.enter(number, argument, len(replaced))  # type: ignore[misc]
                replaced.append((argument, other))
            given[position] = other
        return given

    def _instead(self, given: list, number: int, several: bool):
        position = next((position for position, part in enumerate(given) if self._sequence(part)), None)
        if position is not None:
            given[position] = self.leave(number, given[position])  # type: ignore[misc]
        return tuple(given) if several else given[0]

    def _note_end(self, noted: list, given: list, result) -> None:
        end = next((part for part in result if self._sequence(part)), None)
        if end is not None:
            _, *others = [tensor for tensor in given if self._sequence(tensor) and tensor.shape == end.shape] or [None]
            noted.extend(("end", end - added, end) for added in (0, *others))

    def _behind(self, kind: str, operand) -> None:
        if self._left is not None and self.torch.is_tensor(operand) and operand.requires_grad:
            self.behind[self._left].append((kind, operand))

    def _sequence(self, value) -> bool:
        return self.torch.is_tensor(value) and value.ndim == 3 and value.is_floating_point()


def _is_norm(module) -> bool:
    """True for a module whose own parameters are vectors."""
    dimensions = [parameter.ndim for parameter in module.parameters(recurse=False)]
    return bool(dimensions) and max(dimensions) == 1


def _functions(torch, hear: Callable):
    """A context in which `hear` gets what matrix products and norms take."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            name = getattr(function, "__name__", "")
            if name in _PRODUCTS | _NORMS:
                given = [tensor for tensor in [*arguments, *(named or {}).values()] if torch.is_tensor(tensor)]
                for tensor in given if name in _PRODUCTS else given[:1]:
                    hear("norm" if name in _NORMS else "channels" if name == "conv1d" else "matrix", tensor)
            return function(*arguments, **(named or {}))

    return Mode()


def places(run: Run, matrices) -> list[tuple[str, int] | None]:
    """The innermost call that returned each of the matrices, None where there is none."""
    returned: dict[int, tuple[str, int]] = {}
    for place, tensors in run.several:
        for tensor in tensors:
            returned.setdefault(tensor.untyped_storage().data_ptr(), place)
    return [returned.get(matrix.untyped_storage().data_ptr()) for matrix in matrices]
