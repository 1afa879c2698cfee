"""Equations and functions linked both ways: which equations a docstring names."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import statmech_attention as sma

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def equations(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "_ext"), *sys.path])
    import equations

    return equations


def test_docstring_names_the_numbers_of_equations(equations):
    known = {"2", "9", "10", "11", "J7", "J8", "30"}
    text = "The mean, equations (9) and (30), of (2) chains, (J7) to (J8); (Z9), `f(J7)`, $x (10)$.\n\n"
    assert equations.numbers(text + "Source: Vehtari (2021), equation (10).\n\nEquation (11).", known) == [
        "9", "30", "J7", "J8", "11"
    ]  # fmt: skip
    assert equations.numbers("Source: Tiberi et al. (2024), equation (10).", known) == ["10"]


def test_equation_and_function_are_linked_both_ways(equations):
    app = SimpleNamespace(srcdir=str(ROOT))
    equations._scan(app)
    objects = {}
    for name, place in (("theory.action.energy", "a"), ("theory.kernels.kernel", "b"), ("dmft.onset", "c")):
        entry = SimpleNamespace(objtype="function", aliased=False, docname="book/use/reference/theory", node_id=place)
        objects[f"statmech_attention.{name}"] = entry
    env = SimpleNamespace(get_domain=lambda name: SimpleNamespace(objects=objects))
    found = equations.functions(env, app.equation_numbers)
    assert {number: [one[2] for one in places] for number, places in found.items()} == {
        "12": ["a"], "10": ["b"], "N2": ["c"], "N2a": ["c"], "N4": ["c"]
    }  # fmt: skip
    lines = sma.kernel.__doc__.splitlines()
    equations._link(app, "function", "kernel", sma.kernel, None, lines)
    assert ":ref:`(10) <equation-10>`" in "\n".join(lines)
