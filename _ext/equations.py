"""Sphinx extension: links between numbered equations and the texts and functions that name them.

A number is what stands in `\\tag`; "(D3)" in the text of a page leads to the equation. A docstring
names an equation as "equation (9)", or "(J7)" where it has a letter; in the reference the number
leads to the equation, and a line below the equation leads to the functions.
"""

import re
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

TAG = re.compile(r"\\tag\{(\w+)\}")
NUMBER = re.compile(r"\(([A-Z]?\d{1,2}a?)\)")
# What has other numbers in parentheses: other papers, code, formulas. Then a list of numbers, and what goes before.
NAMED = re.compile(
    r"Source: (?!Tiberi|Poc)\w.*?(?=\n\n|\Z)|:math:`[^`]*`|``.*?``|\$[^$]+\$|`[^`]*`|(?P<word>[Ee]quations?\s+)?"
    r"(?P<list>\([A-Z]?\d{1,2}a?\)(?:(?:,? and|,| to|,? or)\s+\([A-Z]?\d{1,2}a?\))*)",
    re.DOTALL,
)
NOT_TEXT = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.reference, nodes.raw, nodes.title)
LATE = 600  # once docstrings are reStructuredText


def setup(app):
    """Register with Sphinx; pages may be read in parallel."""
    app.connect("builder-inited", _scan)
    app.connect("autodoc-process-docstring", _link, priority=LATE)
    app.connect("doctree-read", _register)
    app.add_post_transform(Functions)
    app.add_post_transform(Numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def numbers(docstring: str, known: set[str]) -> list[str]:
    """Return the known equations that a docstring names, in order, each once."""
    found = [
        number for one in NAMED.finditer(docstring) for number in NUMBER.findall(one["list"] or "") if _is(one, number)
    ]
    return [number for number in dict.fromkeys(found) if number in known]


def _is(found: re.Match, number: str) -> bool:
    return bool(found["word"]) or number[0].isalpha()


def _scan(app):
    pages = Path(app.srcdir, "book").rglob("*.md")
    app.equation_numbers = {number for page in pages for number in TAG.findall(page.read_text(encoding="utf-8"))}


def _link(app, what, name, thing, options, lines):
    def linked(found: re.Match) -> str:
        def one(number: re.Match) -> str:
            known = number[1] in app.equation_numbers and _is(found, number[1])
            return f":ref:`{number[0]} <{_label(number[1])}>`" if known else number[0]

        return (found["word"] or "") + NUMBER.sub(one, found["list"]) if found["list"] else found[0]

    # Lines that are indented by four are code.
    text = re.split(r"(^ {4}.*$)", "\n".join(lines), flags=re.MULTILINE)
    lines[:] = "".join(part if part.startswith("    ") else NAMED.sub(linked, part) for part in text).split("\n")


def _label(number: str) -> str:
    return f"equation-{number.lower()}"


def _tagged(document):
    return [(node, found[1]) for node in document.findall(nodes.math_block) if (found := TAG.search(node.astext()))]


def _register(app, document):
    for node, number in _tagged(document):
        if not node["ids"]:
            node["ids"].append(_label(number))
        app.env.get_domain("std").anonlabels[_label(number)] = (app.env.docname, node["ids"][0])


class Numbers(SphinxPostTransform):
    """Let the numbers of equations in a text lead to the equations."""

    default_priority = 150  # once references are resolved
    formats = ("html",)

    def run(self, **options):
        """Go through the text apart from code and what it shows, formulas, links, and the reference."""
        if "/reference/" in self.env.docname:
            return
        places = self.env.get_domain("std").anonlabels
        for text in list(self.document.findall(nodes.Text)):
            if NUMBER.search(text) and _is_text(text):
                parts = [self._part(part, places) for part in re.split(r"(\([A-Z]?\d{1,2}a?\))", text)]
                text.parent.replace(text, [part for part in parts if part.astext()])

    def _part(self, part: str, places: dict) -> nodes.Node:
        found = NUMBER.fullmatch(part)
        if not found or (label := _label(found[1])) not in places:
            return nodes.Text(part)
        docname, place = places[label]
        here, builder = docname == self.env.docname, self.app.builder
        page = "" if here else builder.get_relative_uri(self.env.docname, docname)
        return nodes.reference("", part, internal=True, refuri=f"{page}#{place}")


def _is_text(node: nodes.Node) -> bool:
    while node := node.parent:
        if isinstance(node, nodes.caption):
            return True
        if isinstance(node, NOT_TEXT) or (isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"):
            return False
    return True


class Functions(SphinxPostTransform):
    """Put the functions that name an equation below it."""

    default_priority = 200
    formats = ("html",)

    def run(self, **options):
        """Add a line of links after each equation that has functions."""
        for node, number in _tagged(self.document):
            if links := self._links(number):
                line = nodes.paragraph("", "", nodes.Text("in code: "), classes=["equation-code"])
                for place, link in enumerate(links):
                    line += [nodes.Text(", "), link] if place else [link]
                node.parent.insert(node.parent.index(node) + 1, line)

    def _links(self, number: str) -> list[nodes.reference]:
        if not hasattr(self.app, "equation_functions"):
            self.app.equation_functions = functions(self.env, self.app.equation_numbers)
        builder, links = self.app.builder, []
        for name, docname, place in self.app.equation_functions.get(number, ()):
            address = f"{builder.get_relative_uri(self.env.docname, docname)}#{place}"
            short = ".".join(part for part in name.split(".")[-2:] if not part.islower() or name.endswith(f".{part}"))
            links.append(nodes.reference("", "", nodes.literal("", short), internal=True, refuri=address))
        return links


def functions(env, known: set[str]) -> dict[str, list[tuple[str, str, str]]]:
    """Return what the reference has on each equation: names, their pages and places there."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, entry in env.get_domain("py").objects.items():
        if entry.objtype in ("function", "method", "class", "property") and not entry.aliased:
            for number in numbers(_docstring(name), known):
                found.setdefault(number, []).append((name, entry.docname, entry.node_id))
    return found


def _docstring(name: str) -> str:
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            thing = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            thing = getattr(thing, part, None)
        return getattr(thing, "__doc__", None) or ""
    return ""
