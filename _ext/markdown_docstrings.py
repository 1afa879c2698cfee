"""Sphinx extension: the docstrings of this package in reStructuredText, as autodoc wants them.

They are Markdown with formulas, `$x$`, code, `` `x` `` or indented by four, and sections `Args:`, `Attributes:`,
`Returns:` and `Raises:`. Napoleon is not used: it takes what stands before a colon in `Returns:` for a type.
"""

import enum
import re
import textwrap

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):\n((?:(?:    .*)?(?:\n|$))+?)(?=\S|\Z)", re.MULTILINE)
_NAMES = re.compile(r"^\*{0,2}\w+(?:, \*{0,2}\w+)*(?=: )")
_MARKED = re.compile(
    r"""(?:(?<=\n\n)|\A)(?P<block>(?:[ ]{4}.*(?:\n|\Z))+)    # indented code
    | (?P<ticks>`+)(?P<code>(?:.|\n)+?)(?P=ticks)
    | (?<!\\)\$(?P<formula>[^$]+)\$""",
    re.VERBOSE,
)


def setup(app):
    """Register with Sphinx; pages may be read in parallel."""
    app.connect("autodoc-process-docstring", _translate)
    app.connect("autodoc-process-signature", _sign)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}


def _translate(app, what, name, thing, options, lines):
    text = _SECTION.sub(_section, "\n".join(lines))
    if isinstance(thing, enum.EnumMeta):
        text += "\n\n" + ", ".join(f"`{member.name}` = {member.value}" for member in thing)
    lines[:] = _MARKED.sub(_marked, text).split("\n")


def _section(found: re.Match) -> str:
    """A field of that name, with a list of what the entries name."""
    text = textwrap.dedent(found[2]).strip()
    if found[1] != "Returns":
        entries = (_NAMES.sub(lambda names: f"`{names[0]}`", entry) for entry in re.split(r"\n(?=\S)", text))
        text = "\n".join("- " + re.sub(r"\n *", "\n  ", entry) for entry in entries)
    return f":{found[1]}:\n" + textwrap.indent(text, "  ") + "\n\n"


def _marked(found: re.Match) -> str:
    if found["block"]:
        return f"::\n\n{found['block']}"
    return f":math:`{found['formula']}`" if found["formula"] else f"``{found['code'].strip()}``"


def _sign(app, what, name, thing, options, signature, result):
    return ("", None) if isinstance(thing, enum.EnumMeta) else None


def _skip(app, what, name, member, skip, options):
    # The fields of a named tuple stand in the docstring of their class.
    return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None
