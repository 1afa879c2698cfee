"""The script that prints what the machine gives; JAX itself is checked by `make doctor`."""

import doctor
import pytest


@pytest.mark.parametrize(
    ("code", "threads", "patience", "wanted"),
    [
        ("import os; print(os.environ['NPROC'])", "2", 100, (True, "2")),
        ("raise OSError('no such library')", None, 100, (False, "fails: OSError: no such library")),
        ("while True: pass", "2", 1, (False, "hangs: no end after 1 s")),
    ],
)
def test_what_hangs_or_fails_is_told(code, threads, patience, wanted):
    assert doctor.run(code, threads, patience) == wanted
