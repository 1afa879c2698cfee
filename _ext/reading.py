"""Sphinx extension: what pages load, and what a reader can take with them.

Thebe, which runs cells on a server, is left out: Jupyter Book declares its constants twice on every
page, an error in the console.
Every page with cells offers its notebook, which `tools/page_notebooks.py` writes.
Folded cells that show nothing stand together in one bar at the end of their page.
Negative numbers of tables and of sentences have a minus sign; "N = 10" and "3 ± 2" stay on one line.
"""

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

NEGATIVE = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")  # a sign, and no dash of a range or a name
TIED = re.compile(r"\s(=(?=\s[\N{MINUS SIGN}-]?\d)|\N{PLUS-MINUS SIGN})\s")
EARLY, LATE = 400, 900  # before and after the theme makes its buttons of what is known about the page


def setup(app):
    """Register with Sphinx; pages may be read in parallel."""
    app.add_post_transform(Setup)
    app.add_post_transform(Minus)
    app.add_post_transform(Tied)
    app.connect("html-page-context", _offer, priority=EARLY)
    for function in (_leave_out, _open_notebooks):
        app.connect("html-page-context", function, priority=LATE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Setup(SphinxPostTransform):
    """Gather the folded cells without output at the end of the page."""

    default_priority = 150  # once outputs are chosen, before cells are folded
    formats = ("html",)

    def run(self, **options):
        """Move the sources of the cells into the first of them, and that one to the end."""
        cells = [cell for cell in self.document.findall(nodes.container) if _folded_without_output(cell)]
        if not cells:
            return
        first, *others = cells
        for cell in cells:
            cell.parent.remove(cell)
        first.children = first.children[:1]
        for cell in others:
            first.children[0].extend(cell.children[0].children)
        first["prompt_show"] = "Setup and code of this page"
        sections = [node for node in self.document.children if isinstance(node, nodes.section)]
        (sections[-1] if sections else self.document).append(first)


class Minus(SphinxPostTransform):
    """Write a minus where Python's formatting left a hyphen."""

    default_priority = 150  # once outputs are chosen

    def run(self, **options):
        """Go through glued numbers and the cells of tables."""
        for text in list(self.document.findall(nodes.Text)):
            if NEGATIVE.search(text) and _number(text):
                text.parent.replace(text, nodes.Text(NEGATIVE.sub("\N{MINUS SIGN}", text)))


class Tied(SphinxPostTransform):
    """Let no line end within "N = 10" or "3 ± 2"."""

    default_priority = 160  # once numbers have their signs

    def run(self, **options):
        """Go through the text apart from code and formulas."""
        for text in list(self.document.findall(nodes.Text)):
            if TIED.search(text) and not isinstance(
                text.parent, (nodes.literal, nodes.literal_block, nodes.math, nodes.raw)
            ):
                text.parent.replace(text, nodes.Text(TIED.sub("\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", text)))


def _number(text: nodes.Text) -> bool:
    above, node = [], text
    while node := node.parent:
        above.append(node)
    if any(isinstance(node, (nodes.literal, nodes.math)) for node in above):
        return False
    return any(isinstance(node, nodes.entry) or "pasted-text" in node.get("classes", ()) for node in above)


def _folded_without_output(cell: nodes.container) -> bool:
    if cell.get("nb_element") != "cell_code" or cell.get("hide_mode") != "input" or not cell.children:
        return False
    shown = [node for part in cell.children[1:] for node in part.children if not _empty(node)]
    return cell.children[0].get("nb_element") == "cell_code_source" and not shown


def _empty(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and all(map(_empty, node.children))


def _offer(app, pagename, templatename, context, doctree):
    if "kernelspec" in app.env.metadata.get(pagename, {}):
        context["ipynb_source"] = f"{pagename}.ipynb"


def _leave_out(app, pagename, templatename, context, doctree):
    for name in ("script_files", "css_files"):
        context[name] = [
            file for file in context[name] if "thebe" not in f"{file} {getattr(file, 'attributes', '')}".lower()
        ]


def _open_notebooks(app, pagename, templatename, context, doctree):
    # The theme names a page's source, unless a notebook lies beside it; here they are made by the build.
    for group in context.get("header_buttons", []):
        if group.get("label") == "launch-buttons":
            for button in group["buttons"]:
                button["url"] = button["url"].removesuffix(".md") + ".ipynb"
