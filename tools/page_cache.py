"""The executed pages of the book, and whether they are still what executing them again would give.

Jupyter's cache knows a page by its cells. Beside each of them stands here what the page read when it was executed: modules of
the package, records, images, the pinned versions; with their contents as hashes. A page is executed anew if its cells or one
of these changed, appeared or disappeared. What was not read does not count.
"""

import functools
import glob
import hashlib
import os
import sys
from pathlib import Path

import yaml
from check_book import page_names
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.readers import get_reader

from attention_book.tasks.images import data_root

READER = {"name": "myst_nb_md", "type": "plugin"}
IMAGES = "{images}"  # in names of files, for the folder of the images
UNCOUNTED = (".", "_build", "__pycache__", "venv")  # what tools keep in the project's folder
KEPT = 300  # executed pages: for some branches one goes to and fro between


class PageCache:
    """The cache of a project's executed pages.

    Attributes:
        root: the project's folder.
        folder: of the cache.
        watched: folders whose files pages depend on: the project's and that of the images.
        notebooks: the pages of the table of contents that have cells, by name, such as "book/theory/model".
    """

    def __init__(self, root: Path):
        self.root, self.folder = root, root / ".cache" / "book"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._cache, self._images = get_cache(self.folder), data_root().absolute()
        self.watched = (str(root), str(self._images))
        contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
        pages = {name: root / f"{name}.md" for name in page_names(contents)}
        self.notebooks = {
            name: get_reader(READER)(str(path))
            for name, path in pages.items()
            if path.is_file() and "kernelspec:" in path.read_text(encoding="utf-8")
        }

    def executed(self, name: str):
        """The executed notebook of a page, or None where these cells were not executed."""
        record = self._record(name)
        return None if record is None else self._cache.get_cache_bundle(record.pk).nb

    def stale(self) -> dict[str, str]:
        """The pages to be executed, with the reason of each."""
        reasons = {name: self._reason(self._record(name)) for name in self.notebooks}
        return {name: reason for name, reason in reasons.items() if reason}

    def seconds(self) -> dict[str, float]:
        """How long pages took when they were last executed, with whatever cells they had then."""
        records = sorted(self._cache.list_cache_records(), key=lambda record: record.created)
        paths = {str(self.root / f"{name}.md"): name for name in self.notebooks}
        return {paths[one.uri]: one.data["execution_seconds"] for one in records if one.uri in paths and one.data}

    def keep(self, name: str, notebook, seconds: float, reads: dict, began: float) -> None:
        """Keep an executed page.

        Args:
            name: of the page.
            notebook: with its outputs.
            seconds: it took.
            reads: what `watch_reads.Reads.write` wrote.
            began: when it was started, in seconds since 1970: what was changed later may have been read before the change.
        """
        versions = f"python{sys.version_info.major}.{sys.version_info.minor}.txt"
        paths = [self.root / "requirements.txt", self.root / "constraints" / versions, *map(Path, reads["paths"])]
        if reads["python"]:
            paths += (self.root / "src").rglob("*.py")
        named = {self._name(path): path for path in paths}
        listed = {self._name(Path(pattern)): names(pattern) for pattern in reads["patterns"]}
        data = {
            "execution_seconds": seconds,
            "read": {
                name: state(path, None if name.startswith(IMAGES) else began) for name, path in named.items() if name
            },
            "listed": {name: found for name, found in listed.items() if name},
        }
        bundle = CacheBundleIn(nb=notebook, uri=str(self.root / f"{name}.md"), data=data)
        self._cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        self._cache.change_cache_limit(KEPT)

    def _record(self, name: str):
        try:
            return self._cache.match_cache_notebook(self.notebooks[name])
        except KeyError:
            return None

    def _reason(self, record) -> str:
        """Why a page must be executed; empty if it need not."""
        if record is None:
            return "these cells were not executed yet"
        if "read" not in (record.data or {}):
            return "what it read was not noted"
        read, listed = record.data["read"], record.data["listed"]
        changed = [name for name, was in read.items() if state(self._path(name)) != was]
        changed += [name for name, was in listed.items() if names(self._path(name)) != was]
        return f"{', '.join(changed[:3])}{' and others' * (len(changed) > 3)} changed" if changed else ""

    def _name(self, path: Path) -> str:
        """A path without where the project or the images are; empty for what tools keep there, which does not count."""
        if path.is_relative_to(self._images):
            parts = path.relative_to(self._images).parts
            return "/".join((IMAGES, *parts)) if len(parts) == 1 or parts[:1] == ("decoded",) else ""
        parts = path.relative_to(self.root).parts
        return "" if any(part.startswith(UNCOUNTED) for part in parts) else "/".join(parts)

    def _path(self, name: str) -> Path:
        return self._images / name.removeprefix(IMAGES + "/") if name.startswith(IMAGES + "/") else self.root / name


def state(path: Path, began: float | None = None) -> str:
    """What is at a path: a hash of a file's content, "folder", "nothing", or "changed meanwhile".

    Args:
        path: to look at.
        began: seconds since 1970; a file that was changed later may have been read before the change.

    Returns:
        A word, or 16 hexadecimal digits, which do not depend on line ends.
    """
    try:
        facts = os.stat(path)
    except OSError:
        return "nothing"
    if path.is_dir():
        return "folder"
    if began is not None and facts.st_mtime > began:
        return "changed meanwhile"
    return _hash(path, facts.st_mtime_ns, facts.st_size)


@functools.cache
def _hash(path: Path, *version: int) -> str:
    """Many pages read the same modules; `version` says whether the file is still the one that was hashed."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]


def names(pattern: os.PathLike | str) -> list[str]:
    """The names that a pattern of paths finds, sorted."""
    pattern = os.fspath(pattern)
    found = glob.glob(pattern, recursive=True)
    return sorted(
        os.path.relpath(path, pattern.partition("*")[0] or ".") for path in found if "__pycache__" not in path
    )
