"""Execute the pages of the book that need it, several at a time, each in a kernel of its own.

Jupyter's cache keeps executed pages and recognises a page by its cells. Beside each of them stands the fingerprint of all
that pages may read: the source, the records, the versions. A page is executed again if its cells or the fingerprint change.
"""

import asyncio
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import deepcopy
from pathlib import Path
from typing import IO

from check_book import page_names
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.readers import get_reader
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from tqdm import tqdm

READER = {"name": "myst_nb_md", "type": "plugin"}
KEPT = 300  # executed pages; enough for the branches between which one goes to and fro


class Pages:
    """The pages with cells: `notebooks` by name, such as "book/theory/model", and the cache of the executed ones."""

    def __init__(self, root: Path):
        self.root, self.folder = root, root / ".cache" / "book"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._cache, self.notebooks = get_cache(self.folder), {}
        for name in page_names(root):
            path = root / f"{name}.md"
            if path.is_file() and "kernelspec:" in path.read_text(encoding="utf-8"):
                self.notebooks[name] = get_reader(READER)(str(path))

    def executed(self, name: str):
        """Return the executed notebook of a page, or None if these cells were not executed."""
        record = self._record(name)
        return None if record is None else self._cache.get_cache_bundle(record.pk).nb

    def stale(self, fingerprint: str) -> list[str]:
        """Return the names of the pages that were not executed under this fingerprint."""
        records = {name: self._record(name) for name in self.notebooks}
        return [name for name, one in records.items() if not one or one.data.get("fingerprint") != fingerprint]

    def execute(
        self, names: Iterable[str], fingerprint: str, jobs: int, timeout: float, environment: dict[str, str], log: IO
    ) -> dict[str, str]:
        """Execute pages, the longest first, and keep them; return the error of each that failed."""
        waiting, failed = sorted(names, key=self._code, reverse=True), {}
        pool = ThreadPoolExecutor(jobs)
        running = {pool.submit(self._attempt, name, timeout, environment, log): name for name in waiting}
        try:
            for future in tqdm(as_completed(running), total=len(running), unit="page", disable=None, leave=False):
                name, error = running[future], future.exception()
                if error:
                    failed[name] = str(error) or type(error).__name__
                    tqdm.write(f"{name}: {type(error).__name__}")
                else:
                    notebook, seconds = future.result()
                    self._keep(name, notebook, {"execution_seconds": seconds, "fingerprint": fingerprint})
                    tqdm.write(f"{name}: {seconds:.0f} s")
        except KeyboardInterrupt:
            os._exit(130)  # threads would wait for their cells; kernels end by themselves when their parent is gone
        pool.shutdown()
        return failed

    def _attempt(self, name: str, *settings):
        """Execute a page; retry unless a cell failed, since two kernels that start at once can pick the same port."""
        try:
            return self._execute(name, *settings)
        except (CellExecutionError, CellTimeoutError):
            raise
        except Exception:
            return self._execute(name, *settings)

    def _execute(self, name: str, timeout: float, environment: dict[str, str], log: IO):
        began, folder = time.time(), str((self.root / name).parent)
        # Times of cells would change the cells, by which the cache recognises the page.
        options = {"timeout": timeout, "record_timing": False, "resources": {"metadata": {"path": folder}}}
        client = NotebookClient(deepcopy(self.notebooks[name]), **options)
        return asyncio.run(client.async_execute(env=environment, stdout=log, stderr=log)), time.time() - began

    def _keep(self, name: str, notebook, data: dict) -> None:
        bundle = CacheBundleIn(nb=notebook, uri=str(self.root / f"{name}.md"), data=data)
        self._cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        self._cache.change_cache_limit(KEPT)

    def _record(self, name: str):
        try:
            return self._cache.match_cache_notebook(self.notebooks[name])
        except KeyError:
            return None

    def _code(self, name: str) -> int:
        """Return the number of a page's lines of code, by which its time is guessed."""
        return sum(len(cell.source.splitlines()) for cell in self.notebooks[name].cells if cell.cell_type == "code")
