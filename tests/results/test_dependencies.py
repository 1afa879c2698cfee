"""Which modules a module needs, and when the hash of their code changes."""

import pytest
import xarray as xr

from statmech_attention import results
from statmech_attention.results import dependencies
from statmech_attention.results.dependencies import code_hash, needed

FILES = {
    "__init__": "from pack.top import run\n",
    "top": '"""Runs."""\n\nfrom pack import bottom, results\nfrom pack.rooms.one import walk\n\n\ndef run():\n    return walk(bottom.X)\n',
    "bottom": "X = 1  # a number\n",
    "lazy": "def late():\n    import pack.bottom\n\n    return pack.bottom.X\n",
    "rooms/__init__": "",
    "rooms/one": "import numpy as np\n\n\ndef walk(x):\n    from pack.rooms import two\n\n    return two.Y + np.sum(x)\n",
    "rooms/two": "Y = 2\n",
    "results": "from pack import unrelated\n",
    "unrelated": "Z = 3\n",
    "round": "from pack import trip\n",
    "trip": "from pack import round\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package in place of this one, to change at will."""
    for name, text in FILES.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(dependencies, "_PACKAGE", tmp_path)
    monkeypatch.setattr(dependencies, "_NAME", "pack")
    code_hash.cache_clear()
    yield tmp_path
    code_hash.cache_clear()


def fresh(*modules):
    """The hash as the next process would find it."""
    code_hash.cache_clear()
    return code_hash(modules)


def test_what_a_module_imports_counts_however_it_says_so(package):
    assert needed(["top"]) == ["bottom", "rooms.one", "rooms.two", "top"]
    assert needed(["lazy"]) == ["bottom", "lazy"]
    assert needed(["rooms"]) == ["rooms"]


def test_modules_that_import_each_other_are_found_once(package):
    assert needed(["round"]) == ["round", "trip"]


def test_a_module_that_is_not_there_is_refused(package):
    with pytest.raises(ValueError, match=r"no module pack\.tops"):
        needed(["tops"])
    with pytest.raises(ValueError, match=r"no module pack\.tops"):
        code_hash(("tops",))


@pytest.mark.parametrize("changed", ["top", "bottom", "rooms/one", "rooms/two"])
def test_code_that_is_needed_changes_the_hash(package, changed):
    before = fresh("top")
    with open(package / f"{changed}.py", "a") as file:
        file.write("\nNEW = 4\n")
    assert fresh("top") != before


@pytest.mark.parametrize("changed", ["__init__", "lazy", "results", "unrelated"])
def test_code_that_is_not_needed_does_not(package, changed):
    before = fresh("top")
    with open(package / f"{changed}.py", "a") as file:
        file.write("\nNEW = 4\n")
    assert fresh("top") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Runs."""', '"""Runs, and says so at\n\nsome length."""'),
        ("def run():\n", 'def run():\n    """Walks."""\n'),
        ("def run():\n", "def run():  # on foot\n    # and back\n"),
        ("\n\n\ndef", "\n\n\n\n\ndef"),
        ("\n", "\r\n"),
    ],
)
def test_words_and_empty_lines_do_not_change_the_hash(package, old, new):
    before, path = fresh("top"), package / "top.py"
    text = path.read_text()
    assert old in text
    path.write_bytes(text.replace(old, new).encode())
    assert fresh("top") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("walk(bottom.X)", "walk(bottom.X + 1)"),
        ("walk(bottom.X)", "walk('# no comment')"),
        ("    return walk", "    if bottom.X:\n        return walk"),
    ],
)
def test_what_only_looks_like_words_does(package, old, new):
    before, path = fresh("top"), package / "top.py"
    path.write_text(path.read_text().replace(old, new))
    assert fresh("top") != before


def test_a_text_with_a_number_sign_is_kept_whole(package):
    path = package / "bottom.py"
    path.write_text("X = 'a # b'\n")
    before = fresh("top")
    path.write_text("X = 'a # c'\n")
    assert fresh("top") != before


def test_moving_code_between_modules_changes_the_hash(package):
    before = fresh("top")
    (package / "rooms" / "two.py").write_text("")
    (package / "bottom.py").write_text("X = 1\nY = 2\n")
    assert fresh("top") != before


def test_within_a_process_the_hash_is_of_the_code_that_it_began_with(package):
    before = code_hash(("bottom",))
    (package / "bottom.py").write_text("X = 5\n")
    assert code_hash(("bottom",)) == before


def test_the_experiments_rest_on_what_computes_them():
    found = needed(["experiments.trained"])
    assert {"experiments.trained", "training", "attention", "tasks.one_shot", "_path_training"} <= set(found)
    assert not {"results", "_provenance", "_dependencies", "saddle_point", "pruning"} & set(found)
    assert not any(name.startswith("plotting") for name in found)


def test_a_result_is_out_of_date_when_its_own_code_changes_and_only_then(package, tmp_path):
    path = results.save(xr.Dataset({"x": 1.0}), tmp_path / "one.nc", parameters={}, modules=("top",))
    assert results.record(path)["modules"] == ["top"] and results.record(path)["source"] == fresh("top")
    (package / "unrelated.py").write_text("Z = 30\n")
    code_hash.cache_clear()
    assert results.is_current(path, {})
    (package / "bottom.py").write_text("X = 10\n")
    code_hash.cache_clear()
    assert not results.is_current(path, {})


def test_a_result_of_a_module_that_is_gone_is_out_of_date(package, tmp_path):
    path = results.save(xr.Dataset({"x": 1.0}), tmp_path / "one.nc", parameters={}, modules=("lazy",))
    (package / "lazy.py").unlink()
    code_hash.cache_clear()
    assert not results.is_current(path, {})
