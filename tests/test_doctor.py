"""The script that prints what the machine gives; JAX itself is checked by `make doctor`."""

import doctor
import pytest


def test_what_is_there_is_printed_and_all_is_well(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("STATMECH_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setattr(doctor, "FACTORISATIONS", "")
    assert doctor.main() == 0
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["images"] == "of mnist, fashion_mnist what comes with the book"
    assert "numbers are float64" in said["devices"]
    assert "jax 0." in said["packages"] and "None" not in said["packages"]


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
