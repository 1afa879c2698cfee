"""What `make processors` sets is what libraries take, and a test that depends on it stands in its table."""

import ast
import os
import subprocess
import sys

import processors
import pytest

ABLE = [one for one in processors.SETTINGS if not one.lacks(processors.processor())]
TEST = """
import os
def test_of_all():
    pass
def test_of_one():
    assert os.environ["OPENBLAS_CORETYPE"] != {!r}
"""


@pytest.mark.parametrize("setting", ABLE, ids=str)
def test_libraries_take_the_kernels_and_threads_of_a_setting(setting):
    code = """
import numpy, scipy.linalg, threadpoolctl
chosen = [one for one in threadpoolctl.threadpool_info() if "openblas" in one["prefix"]]
print([(one["architecture"], one["num_threads"]) for one in chosen])
"""
    done = subprocess.run([sys.executable, "-c", code], env=setting.environment(), capture_output=True, text=True)
    found = ast.literal_eval(done.stdout)
    assert found and set(found) == {(setting.kernels, min(setting.threads, os.cpu_count()))}


def test_what_the_processor_cannot_do_is_left_out():
    assert processors.Setting("SkylakeX", "AVX2", 1).lacks({"sse4_2", "avx", "avx2"}) == ["avx512f"]
    assert processors.Setting("Haswell", "AVX512", 1).lacks({"sse4_2", "avx", "avx2", "avx512f"}) == []


@pytest.mark.skipif(len(ABLE) < 2, reason="this processor has one setting at most")
def test_the_table_has_the_tests_that_differ(tmp_path):
    path = tmp_path / "test_made.py"
    path.write_text(TEST.format(ABLE[0].kernels))
    found = {one: processors.outcomes(one, [str(path)], "0") for one in ABLE[:2]}
    assert [set(one.values()) for one in found.values()] == [{"passed", "failed"}, {"passed"}]
    head, row = processors.table(found)
    *outcome, name = row.split()
    assert outcome == ["failed", "|", "passed", "|"] and name.endswith("test_made::test_of_one")
    assert str(ABLE[1]) in head
    assert not processors.table({one: {"a": "passed", "b": "skipped"} for one in ABLE[:2]})


def test_tests_that_do_not_run_are_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="the tests did not run"):
        processors.outcomes(processors.SETTINGS[0], [str(tmp_path / "none.py")], "0")
