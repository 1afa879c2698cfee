"""Equations and functions linked both ways: which equations a docstring names."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes

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
    for name, place in (
        ("theory.functionals.energy", "a"),
        ("theory.kernels.similarity.kernel", "b"),
        ("dmft.onset", "c"),
    ):
        entry = SimpleNamespace(objtype="function", aliased=False, docname="book/use/reference/theory", node_id=place)
        objects[f"statmech_attention.{name}"] = entry
    env = SimpleNamespace(get_domain=lambda name: SimpleNamespace(objects=objects))
    found = equations.functions(env, app.equation_numbers)
    assert {number: [one[2] for one in places] for number, places in found.items()} == {
        "12": ["a"], "10": ["b"], "N2": ["c"], "N2a": ["c"], "N4": ["c"], "K2": ["b"], "K3": ["b"], "Z2": ["b"]
    }  # fmt: skip
    lines = sma.kernel.__doc__.splitlines()
    equations._link(app, "function", "kernel", sma.kernel, None, lines)
    assert ":ref:`(10) <equation-10>`" in "\n".join(lines)


def test_numbers_in_a_text_lead_to_equations_and_those_in_code_do_not(equations):
    shown = nodes.container("", nodes.paragraph("", "seeds (D3)"), nb_element="cell_code")
    said = nodes.paragraph("", "", nodes.Text("By (D3) and (99), "), nodes.literal("", "f(D3)"))
    document = nodes.section("", said, shown)
    places = {"equation-d3": ("book/theory/weights_to_u", "equation-d3")}
    env = SimpleNamespace(docname="book/paper", get_domain=lambda name: SimpleNamespace(anonlabels=places))
    app = SimpleNamespace(builder=SimpleNamespace(get_relative_uri=lambda here, there: "theory/weights_to_u.html"))
    linked = SimpleNamespace(document=document, env=env, app=app)
    linked._part = lambda part, places: equations.Numbers._part(linked, part, places)
    equations.Numbers.run(linked)
    assert said.astext() == "By (D3) and (99), f(D3)"
    links = list(document.findall(nodes.reference))
    assert [(link.astext(), link["refuri"]) for link in links] == [("(D3)", "theory/weights_to_u.html#equation-d3")]


def test_no_line_ends_within_a_number_with_its_name_or_error(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "_ext"), *sys.path])
    import reading

    document = nodes.paragraph("", "", nodes.Text("At N = 10: 3 ± 2 if a = b. "), nodes.literal("", "N = 10"))
    reading.Tied.run(SimpleNamespace(document=document))
    assert document.astext() == "At N\xa0=\xa010: 3\xa0±\xa02 if a = b. N = 10"
