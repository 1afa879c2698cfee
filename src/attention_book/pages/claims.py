"""The table of claims: what was written down before a run, by page, with the outcome first."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.display import Markdown

HELD = ("holds", "confirmed")


def claims(said: Iterable[dict], book: Path) -> "Markdown":
    """Show claims as `claims.yaml` has them, those of one page of the book together under what folds them."""
    from IPython.display import Markdown

    by_page: dict[str, list[dict]] = {}
    for claim in said:
        by_page.setdefault(claim["page"], []).append(claim)
    return Markdown("\n\n".join(_folded(book, *pair) for pair in by_page.items()))


def _folded(book: Path, page: str, claims: list[dict]) -> str:
    title = re.search(r"^# (.*)$", (book / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    held = sum(str(claim["outcome"]).lower().startswith(HELD) for claim in claims)
    counted = f"{held} of {len(claims)} claims held"
    summary = f"<summary><b>{title[1] if title else page}</b>: {counted}</summary>"
    return "\n\n".join([f"<details>{summary}", *map(_told, claims), "</details>"])


def _told(claim: dict) -> str:
    """One claim, the outcome first; its first words are the verdict."""
    said = {name: " ".join(str(claim[name]).split()) for name in ("claim", "rule", "outcome", "unit", "date", "run")}
    outcome = re.sub(r"^[^.:,;]+", r"**\g<0>**", said["outcome"][:1].upper() + said["outcome"][1:])
    return (
        f"- {outcome}\n\n  *Claimed:* {said['claim']}\n\n"
        f"  *Rule:* {said['rule']}\n\n  *Independent:* {said['unit']}. {said['date']}, `{said['run']}`."
    )
