"""Figures with sliders have one frame per combination, and load nothing from elsewhere."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from attention_book import plotting

WIDTHS, HEATS = (10, 100, 1000), (0.1, 1.0)


def figure(count=6, first=1, number=0, **changes):
    frames = [
        (
            plotting.Matrix(np.eye(2) * place, (-5, 5), names=("a", "b"), label="U"),
            plotting.Panel({"theory": ([0.0, 1.0], [place, number])}, xscale="log", xlim=(1, 1000)),
        )
        for place in range(count)
    ]
    knobs = [plotting.Knob("width N", WIDTHS, first=first), plotting.Knob("T", HEATS, names=("cold", "hot"))]
    given = {"titles": ("order", "accuracy"), "picture": plt.figure(), "description": 'Two "panels" & sliders.'}
    return plotting.sliders(frames, knobs, **given | changes)


def test_a_frame_for_every_combination_the_last_slider_fastest():
    shown = figure().figure
    assert [one.name for one in shown.frames] == ["0,0", "0,1", "1,0", "1,1", "2,0", "2,1"]
    for number, one in enumerate(shown.frames):
        np.testing.assert_array_equal(one.data[0].z, np.eye(2) * number)
        np.testing.assert_array_equal(one.data[1].y, [number, 0])
    np.testing.assert_array_equal(shown.data[0].z, 2 * np.eye(2))  # the first positions are 1 and 0
    assert (shown.layout.coloraxis.cmin, shown.layout.coloraxis.cmax) == (-5, 5)
    assert shown.layout.xaxis2.type == "log" and shown.layout.xaxis2.range == (0, 3)
    assert shown.layout.xaxis.domain[1] < shown.layout.xaxis2.domain[0]


def test_the_page_has_the_picture_and_loads_nothing_from_elsewhere():
    shown = figure()
    assert shown._repr_mimebundle_().keys() == {"text/html", "image/png"}
    assert shown.png[:4] == b"\x89PNG" and not plt.get_fignums()
    assert " id=" not in shown.html, "two on a page would meet"
    image, script = shown.html.index("<img"), shown.html.index("<script>")
    assert image < script and shown._repr_mimebundle_()["image/png"] in shown.html[image:script]
    assert 'alt="Two &quot;panels&quot; &amp; sliders."' in shown.html[image:script]
    assert '"values": ["0.1, cold", "1, hot"], "first": 0' in shown.html
    assert re.findall(r"\.src = (.*);", shown.html) == ['root + "_static/plotly.min.js"']
    assert not re.search(r"https?:|//\w+\.|@import|\$", re.sub(r"base64,[^\"]*|\"bdata\":\"[^\"]*", "", shown.html))


@pytest.mark.parametrize("changes", [{"count": 5}, {"first": 3}, {"titles": ("one",)}, {"number": np.nan}])
def test_what_does_not_fit_is_refused(changes):
    with pytest.raises(ValueError, match="frames|coordinates|zip"):
        figure(**changes)
