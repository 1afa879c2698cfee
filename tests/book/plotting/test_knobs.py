"""The figure with several sliders holds a frame for every combination, loads nothing from elsewhere, and refuses what does not fit."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from attention_book import plotting

WIDTHS, HEATS = (10, 100, 1000), (0.1, 1.0)


def frame(number, **changes):
    line = plotting.Panel({"theory": (np.arange(3.0), np.full(3, number))}, xscale="log", xlim=(1, 1000))
    matrix = {"values": np.eye(2) * number, "limits": (-5, 5), "names": ("a", "b"), "label": "U"}
    return plotting.Matrix(**(matrix | changes)), line


def figure(frames=None, knobs=None, **changes):
    frames = [frame(number) for number in range(6)] if frames is None else frames
    knobs = [plotting.Knob("width N", WIDTHS, first=1), plotting.Knob("T", HEATS)] if knobs is None else knobs
    given = {"titles": ("order", "accuracy"), "picture": plt.figure(), "description": "Two panels."}
    return plotting.sliders(frames, knobs, **(given | changes))


def test_a_frame_for_every_combination_the_last_slider_fastest():
    shown = figure().figure
    assert [one.name for one in shown.frames] == ["0,0", "0,1", "1,0", "1,1", "2,0", "2,1"]
    for number, one in enumerate(shown.frames):
        np.testing.assert_array_equal(one.data[0].z, np.eye(2) * number)
        np.testing.assert_array_equal(one.data[1].y, [number] * 3)
    np.testing.assert_array_equal(shown.data[0].z, 2 * np.eye(2))  # the first positions are 1 and 0
    assert (shown.layout.coloraxis.cmin, shown.layout.coloraxis.cmax) == (-5, 5)
    assert shown.layout.coloraxis.colorbar.title.text == "U"
    (low, below), *_, (high, above) = shown.layout.coloraxis.colorscale
    assert (low, high) == (0, 1) and (below, above) == ("#053061", "#67001f"), "blue below zero, red above"
    assert shown.layout.xaxis2.type == "log" and list(shown.layout.xaxis.ticktext) == ["a", "b"]


def test_panels_do_not_overlap_side_by_side_or_below_each_other():
    layouts = json.loads(re.search(r"layouts = (.*), knobs = ", figure().html).group(1))
    for layout, axes in zip(layouts, (("xaxis", "xaxis2"), ("yaxis2", "yaxis")), strict=True):
        (_, end), (start, _) = (layout[name]["domain"] for name in axes)
        assert end < start
    assert [one["text"] for one in layouts[1]["annotations"]] == ["order", "accuracy"]


def test_the_page_loads_nothing_from_elsewhere():
    html = figure().html
    assert html.index("<img") < html.index("<script>") and " id=" not in html
    assert re.findall(r"\.src = (.*);", html) == ['root + "_static/plotly.min.js"']
    bare = re.sub(r"base64,[^\"]*|\"bdata\":\"[^\"]*", "", html)
    assert not re.search(r"https?:|//\w+\.|@import|\$", bare)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"frames": [frame(0)] * 5},
            "sliders: wanted the same number in frames and combinations of values, got 5 and 6",
        ),
        ({"titles": ("one",)}, "frames: wanted the same 1 panels in all"),
        ({"frames": [frame(0)] * 5 + [frame(0, limits=(0, 1))]}, "frames: wanted the same 2 panels in all"),
        ({"frames": [frame(0)] * 5 + [frame(0, values=np.eye(3))]}, "frames: wanted the same 2 panels in all"),
        ({"frames": [frame(np.nan)] * 6}, r"frames\[0\]: wanted finite numbers"),
        (
            {"knobs": [plotting.Knob("N", WIDTHS, first=3), plotting.Knob("T", HEATS)]},
            r"N: wanted a first position in 0\.\.2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        figure(**changes)
