"""The reference page: signatures and docstrings of the public names, as Markdown."""

import enum
import inspect
import re
import textwrap
from collections.abc import Iterable

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):\n((?:(?:    .*)?\n?)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*): ", re.MULTILINE)


def reference(things: Iterable) -> str:
    """Markdown for public functions and classes, in the order given.

    Args:
        things: functions and classes with docstrings.

    Returns:
        One entry each: the call in a code block, then the docstring with its lists.

    Raises:
        ValueError: something without a docstring.
    """
    return "\n\n---\n\n".join(_entry(thing) for thing in things)


def _entry(thing) -> str:
    if not inspect.getdoc(thing):
        raise ValueError(f"{thing!r}: wanted a docstring, got none.")
    parts = [f"```python\n{_call(thing)}\n```", _body(inspect.getdoc(thing))]
    if inspect.isclass(thing) and not issubclass(thing, enum.Enum):
        for name, member in vars(thing).items():
            function = member.fget if isinstance(member, property) else member
            if not name.startswith("_") and inspect.isfunction(function) and function.__module__ == thing.__module__:
                call = name if isinstance(member, property) else _call(function, name)
                parts.append(f"`.{call}`\n\n" + textwrap.indent(_body(inspect.getdoc(function)), "> ", lambda _: True))
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        parts.append(", ".join(f"`{member.name}` = {member.value}" for member in thing))
    return "\n\n".join(parts)


def _call(thing, name: str | None = None) -> str:
    name = name or thing.__name__
    if inspect.isclass(thing) and (issubclass(thing, enum.Enum | BaseException)):
        return name
    parameters = inspect.signature(thing).parameters.values()
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters if parameter.name != "self"
    ]
    call = f"{name}{inspect.Signature(plain)}"
    if len(call) <= 90:
        return call
    lines, starred = [], False
    for parameter in plain:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            lines.append("    *,")
            starred = True
        lines.append(f"    {parameter},")
    return "\n".join([f"{name}(", *lines, ")"])


def _body(docstring: str) -> str:
    return _SECTION.sub(lambda found: _section(found[1], textwrap.dedent(found[2])), docstring + "\n").strip()


def _section(title: str, text: str) -> str:
    """A docstring section as a paragraph, or as a list where it has one entry a name."""
    text = text.strip()
    if title == "Returns" or not _ENTRY.match(text):
        return f"**{title}.** {text}\n\n"
    entries = re.split(r"\n(?=\S)", text)
    listed = "\n".join("- " + textwrap.indent(_ENTRY.sub(r"`\1`: ", entry, count=1), "  ").strip() for entry in entries)
    return f"**{title}**\n\n{listed}\n\n"
