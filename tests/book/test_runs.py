"""Every run notebook on the small scale of `workflow/smoke.yaml`: twice, with equal numbers."""

import pytest
import yaml

from attention_book import recorded, results

SMALL = recorded.records(yaml.safe_load((recorded.ROOT / "workflow" / "smoke.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("one", SMALL, ids=lambda one: one.path.stem)
def test_run_gives_the_same_numbers_twice(one, tmp_path):
    _, given = next(one.runs())
    for path in (tmp_path / "first.nc", tmp_path / "second.nc"):
        recorded.execute(recorded.RUNS / f"{one.run}.md", {**given, "output": str(path)})
    first, second = (results.load(path).drop_vars("seconds", errors="ignore") for path in sorted(tmp_path.iterdir()))
    assert first.data_vars and first.identical(second)
