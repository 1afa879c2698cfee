"""One notebook through papermill, with the kernel of the Python that runs this."""

import os
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from attention_book.runs.parameters import Refused


class RunFailed(RuntimeError):
    """Raised when a started notebook stops early; `path` is its executed part, if that could be kept."""

    path: Path | None = None
    raised: str = ""  # the class of what a cell raised


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
            "start_timeout": 300,  # of a busy machine
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
            failed = RunFailed(f"cell {error.exec_count} raised {error.ename}: {error.evalue}")
            failed.raised = error.ename
            raise failed from error
        except DeadKernelError as error:
            raise RunFailed("the kernel died in the middle of a cell; often memory was short") from error
        except OSError as error:
            raise RunFailed(f"{source.stem} could not be executed: {error.strerror or error}") from error


def kernel_environment(environment: MutableMapping[str, str]) -> None:
    """Make `python3` mean the kernel of the running Python, without bars of progress, in `environment` itself."""
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    environment.pop("JUPYTER_PATH", None)
    environment["TQDM_DISABLE"] = "1"


@contextmanager
def alone(record: Path) -> Iterator[None]:
    """Make a record alone, or refuse; the system frees the lock when this process ends, also if it is killed."""
    lock = FileLock(f"{record}.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise Refused(f"output: another process makes {record.name} here. Wait until it is done, or stop it.") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
