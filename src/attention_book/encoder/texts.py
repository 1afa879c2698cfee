"""Sentences and their classes, as in the original collections."""

import csv
import io
import re

# TREC's coarse classes by their marks in the file, the part of a label in front of its colon.
_QUESTIONS = {
    "ABBR": "abbreviation",
    "DESC": "description",
    "ENTY": "entity",
    "HUM": "human",
    "LOC": "location",
    "NUM": "number",
}
_NEUTRAL = 0.5  # ratings go from -4 to 4


def questions(content: bytes) -> list[tuple[str, str]]:
    """Read TREC's questions and classes, one per line as in `DESC:manner How did .. ?`."""
    questions = []
    for number, line in enumerate(content.decode().split("\n"), start=1):
        if line.strip():
            label, _, text = line.partition(" ")
            mark = label.partition(":")[0]
            if mark not in _QUESTIONS:
                raise ValueError(
                    f"line {number}: wanted a question after one of {', '.join(_QUESTIONS)}, got {line!r:.60}."
                )
            questions.append((text, _QUESTIONS[mark]))
    return questions


def reviews(content: bytes) -> list[tuple[str, str]]:
    """Read snippets with a clear mean rating, $|r| > 0.5$, and its sign."""
    lines = [line.split("\t", 2) for line in content.decode().split("\n")[1:] if line.strip()]
    rated = ((text, float(rating)) for _, rating, text in lines)
    return [(text, "positive" if rating > 0 else "negative") for text, rating in rated if abs(rating) > _NEUTRAL]


def messages(content: bytes) -> list[tuple[str, str]]:
    """Read text messages and their classes, all that the original collection has.

    In the file, eight messages hold 737 others, each on its own line after its class and a tab.
    """
    messages = []
    for row in csv.DictReader(io.StringIO(content.decode(), newline="")):
        first, *others = re.split(r"\n(ham|spam)\t", row["text"])
        messages.append((first, "spam" if row["spam"] == "1" else "ham"))
        messages += zip(others[1::2], others[::2], strict=True)
    return messages


def without_doubles(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep the first of equal sentences, and none that has two classes."""
    classes: dict[str, set[str]] = {}
    first: dict[str, tuple[str, str]] = {}
    for text, name in pairs:
        key = " ".join(text.casefold().split())
        classes.setdefault(key, set()).add(name)
        first.setdefault(key, (text.strip(), name))
    return [pair for key, pair in first.items() if key and len(classes[key]) == 1]
