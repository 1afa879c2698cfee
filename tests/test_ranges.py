"""Pages at the ends of their parameters' ranges: those that take seconds, of what `make ranges` executes."""

import nbformat
import pytest
import try_ranges

from attention_book.runs import notebooks

CHEAP = ["dmft/model", pytest.param("theory/weights_to_u", marks=pytest.mark.slow)]


@pytest.mark.parametrize("page", [one for one in notebooks.chapters() if not one.startswith("runs/")])
def test_what_is_tried_is_allowed_and_has_both_ends_of_every_range(page):
    known = {name: one for name, one in notebooks.parameters_of(page).items() if not one.is_path}
    tried = list(try_ranges.points(page, 3))
    for _, given in tried:
        assert {name: known[name].convert(value) for name, value in given.items()} == given
    for name, one in known.items():
        found = [given[name] for _, given in tried if name in given]
        assert all(end in found for end in (try_ranges.ends(one)[0], try_ranges.ends(one)[-1]))


@pytest.mark.parametrize("page", CHEAP)
def test_page_executes_at_the_lower_end_of_every_range(page):
    (lowest,) = (given for kind, given in try_ranges.points(page, 0) if kind == "all-lower")
    assert try_ranges.attempt(page, lowest, 600) == ""


LINES = {
    "gain nan": True,
    "from 3.1 to inf": True,
    "{np.float64(10.0): 0.8}": True,
    "cell.py:13: RuntimeWarning: invalid value": True,
    "N = inf: 0.759": False,
    "beta = -inf": False,
    "information": False,
}


@pytest.mark.parametrize(("line", "bad"), LINES.items())
def test_a_line_with_a_number_that_is_none_is_found(line, bad):
    output = nbformat.v4.new_output("stream", text=f"1.5\n{line}\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
    assert (line in try_ranges.shown_nothing(notebook)) == bad
