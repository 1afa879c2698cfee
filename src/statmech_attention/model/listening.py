"""Hooks at all modules of a network of PyTorch: which of them computes an attention, what enters and leaves it."""

from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np


class Run:
    """One run of a network with hooks at all its modules.

    A place is a module's name and the number of its call: layers may share a module. `enter` and
    `leave` take the number of a place and the first sequence that enters or leaves it, and return
    what goes on instead.

    Attributes:
        several: place and 4-dimensional tensors of each call that returned several things, by its end.
        inside: the input of each norm called inside a place, and what leaves it, with and without a sequence
            that was handed to it to be added.
    """

    def __init__(self, torch, places=(), *, enter: Callable | None = None, leave: Callable | None = None):
        self.torch, self.places, self.enter, self.leave = torch, list(places), enter, leave
        self.several: list[tuple] = []
        self.inside: dict[int, list] = {number: [] for number in range(len(self.places))}
        self._calls: Counter = Counter()
        self._open: list[tuple[str, int]] = []

    @contextmanager
    def listening(self, model):
        """Hooks in place, and none of them afterwards."""
        hooks = []
        for name, module in model.named_modules():
            hooks.append(module.register_forward_pre_hook(self._before(name), with_kwargs=True))
            hooks.append(module.register_forward_hook(self._after, with_kwargs=True))
        try:
            yield self
        finally:
            for hook in hooks:
                hook.remove()

    def _before(self, name: str):
        def before(module, arguments, named):
            place = (name, self._calls[name])
            self._calls[name] += 1
            self._open.append(place)
            if self.enter is None or place not in self.places:
                return None
            given = self._replaced([*arguments, *named.values()], self.enter, place)
            return tuple(given[: len(arguments)]), dict(zip(named, given[len(arguments) :], strict=True))

        return before

    def _after(self, module, arguments, named, result):
        place = self._open.pop()
        for one in self._open:
            if one in self.places:
                self._note(self.inside[self.places.index(one)], module, arguments)
        if not isinstance(result, tuple | list):
            return None
        self.several.append((place, [one for one in result if self.torch.is_tensor(one) and one.ndim == 4]))
        if place in self.places:
            self._note_end(self.inside[self.places.index(place)], [*arguments, *named.values()], result)
        if self.leave is None or place not in self.places:
            return None
        return tuple(self._replaced(list(result), self.leave, place))

    def _replaced(self, given: list, change: Callable, place) -> list:
        number = next((number for number, one in enumerate(given) if self._sequence(one)), None)
        if number is not None:
            given[number] = change(self.places.index(place), given[number])
        return given

    def _note(self, noted: list, module, arguments) -> None:
        dimensions = [one.ndim for one in module.parameters(recurse=False)]
        if dimensions and max(dimensions) == 1 and arguments and self._sequence(arguments[0]):
            noted.append(("norm", arguments[0]))

    def _note_end(self, noted: list, given: list, result) -> None:
        end = next((one for one in result if self._sequence(one)), None)
        if end is not None:
            _, *others = [one for one in given if self._sequence(one) and one.shape == end.shape] or [None]
            noted.extend(("end", end - one) for one in (0, *others))

    def _sequence(self, one) -> bool:
        return self.torch.is_tensor(one) and one.ndim == 3 and one.is_floating_point()


def places(run: Run, matrices) -> list[tuple[str, int] | None]:
    """The innermost call that returned each of the matrices, None where there is none."""
    found: dict[int, tuple[str, int]] = {}
    for place, tensors in run.several:
        for one in tensors:
            found.setdefault(one.untyped_storage().data_ptr(), place)
    return [found.get(one.untyped_storage().data_ptr()) for one in matrices]


def tensors(torch, given: dict) -> dict:
    """Arguments of a model with tensors for lists and arrays."""
    return {name: torch.as_tensor(one) if type(one) in (list, np.ndarray) else one for name, one in given.items()}
