"""Execute pages of the book, several at a time, the longest first, each in a kernel of its own."""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from copy import deepcopy
from pathlib import Path
from typing import IO

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from page_cache import PageCache
from progress import Progress

WATCH = Path(__file__).with_name("watch_reads.py")
# A line of code is worth so much where nobody knows how long a page takes.
SECONDS_A_LINE = 0.3


def execute(
    cache: PageCache, names: Iterable[str], jobs: int, timeout: float, environment: dict[str, str], log: IO
) -> dict[str, str]:
    """Execute pages and keep their outputs.

    Args:
        cache: of the executed pages.
        names: of the pages.
        jobs: how many at a time.
        timeout: seconds a cell.
        environment: of the kernels.
        log: a file for what kernels say.

    Returns:
        For each page that failed, what it said last.
    """
    known = cache.seconds()
    waiting = sorted(names, key=lambda name: known.get(name, _guess(cache.notebooks[name])), reverse=True)
    failed = {}
    progress = Progress(len(waiting), "pages")

    def one(name: str):
        progress.begin(name)
        return _attempt(cache, name, timeout, environment, log)

    pool = ThreadPoolExecutor(jobs)
    try:
        running = {pool.submit(one, name): name for name in waiting}
        while running:
            for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                name, error = running.pop(future), future.exception()
                if error is None:
                    notebook, *facts = future.result()
                    cache.keep(name, notebook, *facts)
                    progress.end(name, f"{facts[0]:.0f} s")
                else:
                    failed[name] = str(error) or type(error).__name__
                    progress.end(name, type(error).__name__)
            progress.show()
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        progress.close()
        # Threads wait for their cells; kernels end by themselves when their parent is gone.
        os._exit(130)
    pool.shutdown()
    progress.close()
    return failed


def _attempt(cache: PageCache, name: str, *settings):
    """Execute a page; once more unless it was a cell that failed: two kernels that start at the same moment can pick one port."""
    try:
        return asyncio.run(_execute(cache, name, *settings))
    except (CellExecutionError, CellTimeoutError):
        raise
    except Exception:
        return asyncio.run(_execute(cache, name, *settings))


async def _execute(cache: PageCache, name: str, timeout: float, environment: dict[str, str], log: IO):
    """The executed notebook, its seconds, what it read, and when it began."""
    notebook = deepcopy(cache.notebooks[name])
    folder = str((cache.root / name).parent)
    # Times of cells would change the cells, by which the cache knows the page.
    options = {"record_timing": False, "resources": {"metadata": {"path": folder}}}
    client = NotebookClient(notebook, timeout=timeout, **options)

    async def ask(message: str) -> dict:
        content = (await client.async_wait_for_reply(message))["content"]
        if content["status"] != "ok":
            raise RuntimeError(f"{content['ename']}: {content['evalue']}")
        return content

    began = time.time()
    with tempfile.TemporaryDirectory() as temporary:
        told = Path(temporary) / "reads.json"
        async with client.async_setup_kernel(env=environment, stdout=log, stderr=log):
            # In a dictionary of its own, so that the page's names stay its own.
            watch = WATCH.read_text(encoding="utf-8")
            make = f"(lambda space: exec({watch!r}, space) or space['Reads']({cache.watched!r}))(dict())"
            await ask(client.kc.execute(f"__import__('sys').page_reads = {make}", silent=True))
            notebook.metadata["language_info"] = (await ask(client.kc.kernel_info()))["language_info"]
            for index, cell in enumerate(notebook.cells):
                await client.async_execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
            client.set_widgets_metadata()
            await ask(client.kc.execute(f"__import__('sys').page_reads.write({str(told)!r})", silent=True))
        return notebook, time.time() - began, json.loads(told.read_text(encoding="utf-8")), began


def _guess(notebook) -> float:
    return SECONDS_A_LINE * sum(len(cell.source.splitlines()) for cell in notebook.cells if cell.cell_type == "code")
