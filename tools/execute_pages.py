"""Execute the pages that the cache has not, several at a time: `build_book.py --jobs` runs this before the build.

Sphinx executes one page after the other, and most of a page's time is compilation, which takes one core. A page that fails
is left to Sphinx, which executes it again and says what is wrong. Seconds of pages on the status page are those of a machine
that executes several.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import yaml
from check_book import page_names
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from jupyter_cache.readers import get_reader

READER = {"name": "myst_nb_md", "type": "plugin"}


def main() -> int:
    """Run the command line; returns 0 whether pages fail or not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the project's folder")
    parser.add_argument("cache", type=Path, help="folder of the cache")
    parser.add_argument("jobs", type=int, help="how many pages at a time")
    options = parser.parse_args()
    settings = yaml.safe_load((options.root / "_config.yml").read_text(encoding="utf-8"))["execute"]
    cache, timeout = get_cache(options.cache), settings["timeout"]
    waiting = missing(cache, options.root)
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {
            pool.submit(single_nb_execution, notebook, cwd=str(page.parent), timeout=timeout, allow_errors=False): page
            for page, notebook in waiting.items()
        }
        for future in as_completed(running):
            page = running[future]
            error = future.exception() or future.result().err
            if error is None:
                done = future.result()
                data = {"execution_seconds": done.time}
                bundle = CacheBundleIn(nb=done.nb, uri=str(page), data=data)
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
            said = type(error).__name__ if error else f"{done.time:.0f} s"
            print(f"{page.relative_to(options.root)}: {said}", flush=True)
    return 0


def missing(cache, root: Path) -> dict:
    """The notebooks among the pages of the table of contents that the cache has no outputs of.

    Args:
        cache: of jupyter-cache.
        root: the project's folder.

    Returns:
        Notebooks by the paths of their pages.
    """
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found = {}
    for page in (root / f"{name}.md" for name in page_names(contents)):
        if "kernelspec:" not in page.read_text(encoding="utf-8"):
            continue
        notebook = get_reader(READER)(str(page))
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            found[page] = notebook
    return found


if __name__ == "__main__":
    sys.exit(main())
