"""Every public function stands in `caller.py`, right and misspelled; the type checkers of `make lint` do the rest."""

import inspect
import re
from pathlib import Path

import pytest

import statmech_attention as sma
from statmech_attention import dmft, model, plotting, pruning, sampling, tasks, theory, training

ROOMS = (sma, dmft, model, plotting, pruning, sampling, tasks, theory, training)
CALLS, _, MISSPELLED = (Path(__file__).parent / "caller.py").read_text(encoding="utf-8").partition("# Misspelled.")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_function_is_called(room):
    named = {name: getattr(room, name) for name in getattr(room, "__all__", vars(room)) if name[0] != "_"}
    public = {
        name
        for name, thing in named.items()
        if inspect.isfunction(thing) and (hasattr(room, "__all__") or thing.__module__ == room.__name__)
    }
    for text in (CALLS, MISSPELLED.replace("enable_x46", "enable_x64").replace("use_styles", "use_style")):
        assert public <= set(re.findall(r"\.(\w+)\(", text))
