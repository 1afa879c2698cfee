"""Every run notebook on the small scale of `workflow/smoke.yaml`; twice, with equal numbers, where threads draw."""

import contextlib
from pathlib import Path

import check_book
import jax
import numpy as np
import pytest
import yaml

from attention_book.runs import notebooks, results, workflow
from attention_book.runs.parameters import check_parameters

TESTS = Path(__file__).parents[2]
IN_A_KERNEL = {"comparison"}  # as readers execute it; the others here, where most is imported and compiled
CONFIGURATION = yaml.safe_load((workflow.ROOT / "workflow" / "smoke.yaml").read_text(encoding="utf-8"))
DRAWN_ON_THREADS = {"sampling", "one_shot_sampling", "skips", "learned", "many_paths", "trust"}
QUICK = {"trust", "phases", "memory", "chain", "encoder-curve", "gates", "order-one", "transition", "order"}


def records(runs=None):
    """The records of some runs, or of all of them."""
    names = [line["record"] for line in CONFIGURATION["runs"] if runs is None or line["run"] in runs]
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The small records, each made when it is first asked for."""
    small = {one.path.stem: one for one in workflow.records(CONFIGURATION, tmp_path_factory.mktemp("runs"))}

    def make(name: str):
        one = small[name]
        for path in one.inputs:
            make(path.stem)
        if not one.path.is_file():
            pieces = list(one.runs())
            for path, given in pieces:
                run(one, path, given)
            assert {path.suffix for path in one.path.parent.rglob("*") if path.is_file()} <= {".nc", ".ipynb"}
            if one.pieces:
                workflow.combine(one.path, list(one.pieces), [path for path, _ in pieces])
        return one

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONSTARTUP", str(TESTS / "checked_kernel.py"))
        yield make


def run(one, path, given):
    source = workflow.RUNS / f"{one.run}.md"
    if one.run in IN_A_KERNEL:
        notebooks.run(source, {**given, "output": path}, output=path.with_suffix(".ipynb"))
        return
    values = check_parameters(notebooks.parameters_of(source), {**given, "output": str(path)})
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"__name__": "__main__"}
    with contextlib.chdir(source.parent), jax.numpy_rank_promotion("allow"):
        for above, code in check_book.cells(source):
            exec(compile(code, str(source), "exec"), names)
            names |= values if "tags: [parameters]" in above else {}


@pytest.mark.parametrize("name", records())
def test_run_makes_a_record_of_its_parameters_with_numbers(name, made):
    one = made(name)
    parameters, numbers = results.record(one.path)["parameters"], results.load(one.path)
    asked = {name: value for name, value in one.parameters.items() if value not in map(str, one.inputs)}
    assert {name: parameters[name] for name in asked} == asked
    assert any(np.isfinite(one).all() for one in numbers.data_vars.values() if one.dtype.kind in "fi")


@pytest.mark.parametrize("name", records(DRAWN_ON_THREADS))
def test_run_that_draws_on_threads_gives_the_same_numbers_twice(name, made, tmp_path):
    one, again = made(name), tmp_path / "again.nc"
    _, given = next(one.runs())
    run(one, again, given)
    first = results.load(one.path).isel({name: 0 for name in one.pieces})
    assert workflow.largest_difference(results.load(again), first) == 0
