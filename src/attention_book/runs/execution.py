"""One notebook through papermill, with the kernel of the Python that runs this."""

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any


class RunFailed(RuntimeError):
    """Raised when a started notebook stops early; `path` is its executed part, if that could be kept."""

    path: Path | None = None


def execute(notebook, source: Path, given: dict[str, Any], target: Path, *, progress: bool) -> None:
    """Execute a notebook in a kernel of the running Python; `target` has the executed part after every cell."""
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError

    kernel_environment(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        # papermill reads .ipynb only, and given a notebook object it would store all of it as the "input path".
        copy = Path(folder) / f"{source.stem}.ipynb"
        nbformat.write(notebook, copy)
        files = [str(path).replace("{", "{{").replace("}", "}}") for path in (copy, target)]  # they are templates
        options: dict[str, Any] = {
            "parameters": given,
            "kernel_name": "python3",
            "language": "python",
            "progress_bar": progress,
            "log_output": not progress,
            "cwd": source.parent,  # as in the book's build
            # No warning of local TCP, and no error of a kernel that is interrupted as it ends; papermill has what a
            # cell raises.
            "extra_arguments": ["--IPKernelApp.log_level=50"],
        }
        try:
            try:
                papermill.execute_notebook(*files, **options)
            except Exception as error:
                # Two kernels that start at the same moment can pick the same port. Nothing has run yet then.
                taken = "Address already in use" in str(error) or "died before replying to kernel_info" in str(error)
                if isinstance(error, papermill.PapermillExecutionError) or not taken:
                    raise
                papermill.execute_notebook(*files, **options)
        except papermill.PapermillExecutionError as error:
            raise RunFailed(f"cell {error.exec_count} raised {error.ename}: {error.evalue}") from error
        except DeadKernelError as error:
            raise RunFailed("the kernel died in the middle of a cell; often memory was short") from error
        except OSError as error:
            raise RunFailed(f"{source.stem} could not be executed: {error.strerror or error}") from error


def kernel_environment(environment: MutableMapping[str, str]) -> None:
    """Make `python3` mean the kernel of the running Python, without bars of progress, in `environment` itself."""
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    environment.pop("JUPYTER_PATH", None)
    environment["TQDM_DISABLE"] = "1"
