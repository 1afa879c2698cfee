"""The numbers of a figure as CSV."""

import csv
import io

import matplotlib.pyplot as plt
import numpy as np

from attention_book.plotting.data import data


def test_points_error_bars_bars_and_matrices_are_in_the_table():
    figure, (left, middle, right) = plt.subplots(1, 3)
    left.errorbar([1, 2], [3, 4], yerr=[0.5, 0.25], label="with bars")
    left.scatter([5], [6], label="alone")
    left.axhline(7)  # a reference, and no number
    middle.imshow([[1.0, 2.0], [np.nan, 4.0]])
    right.bar([0, 1], [8, 9], label="bars")
    right.set_title("last")
    head, *rows = csv.reader(io.StringIO(data(figure)))
    plt.close(figure)
    assert head == ["panel", "series", "x", "y", "value", "from", "to"]
    assert rows == [
        ["1", "with bars", "1", "3", "", "2.5", "3.5"],
        ["1", "with bars", "2", "4", "", "3.75", "4.25"],
        ["1", "alone", "5", "6", "", "", ""],
        *(["2", "", str(x), str(y), v, "", ""] for x, y, v in [(0, 0, "1"), (1, 0, "2"), (0, 1, ""), (1, 1, "4")]),
        ["last", "bars", "0", "8", "", "", ""],
        ["last", "bars", "1", "9", "", "", ""],
    ]
