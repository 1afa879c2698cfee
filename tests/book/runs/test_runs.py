"""Every run notebook on the small scale of `workflow/smoke.yaml`: twice, with equal numbers."""

import jax
import pytest
import yaml

from attention_book.runs import results, workflow

CONFIGURATION = yaml.safe_load((workflow.ROOT / "workflow" / "smoke.yaml").read_text(encoding="utf-8"))


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
            assert not list(one.path.parent.rglob("*.npz"))  # no state is left beside a record
            if one.pieces:
                workflow.combine(one.path, list(one.pieces), [path for path, _ in pieces])
        return one

    return make


def run(one, path, given):
    with jax.enable_x64(one.run != "train"):
        workflow.execute(workflow.RUNS / f"{one.run}.md", {**given, "output": str(path)})


@pytest.mark.parametrize("name", [line["record"] for line in CONFIGURATION["runs"]])
def test_run_gives_the_same_numbers_twice(name, made, tmp_path):
    one = made(name)
    recorded_numbers, again = results.load(one.path), tmp_path / "again.nc"
    _, given = next(one.runs())
    run(one, again, given)
    first = recorded_numbers.isel({name: 0 for name in one.pieces})
    assert workflow.largest_difference(results.load(again), first) == 0
