"""Figures with a slider have one frame per value, and load nothing from elsewhere."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from attention_book import plotting


def figure(count=3, number=0, **changes):
    frames = [
        (
            plotting.Panel({"first": ([0.0, 1.0], [place, 1.0])}),
            plotting.Panel({"theory": ([0.0, 1.0], [place, number])}, xscale="log", xlim=(1, 1000)),
        )
        for place in range(count)
    ]
    given = {"label": "T", "names": ("cold", "warm", "hot"), "first": 1, "picture": plt.figure()}
    return plotting.slider(frames, (0.1, 0.3, 1.0), description='Two "panels" & a slider.', **given | changes)


def test_a_frame_for_every_value():
    shown = figure().figure
    assert [one.name for one in shown.frames] == ["0", "1", "2"]
    for place, one in enumerate(shown.frames):
        np.testing.assert_array_equal(one.data[1].y, [place, 0])
    np.testing.assert_array_equal(shown.data[0].y, [1, 1])  # the first position is 1
    assert shown.layout.xaxis2.type == "log" and shown.layout.xaxis2.range == (0, 3)
    assert shown.layout.xaxis.domain[1] < shown.layout.xaxis2.domain[0]


def test_the_page_has_the_picture_and_loads_nothing_from_elsewhere():
    shown = figure()
    assert shown._repr_mimebundle_().keys() == {"text/html", "image/png"}
    assert shown.png[:4] == b"\x89PNG" and not plt.get_fignums()
    assert " id=" not in shown.html, "two on a page would meet"
    image, script = shown.html.index("<img"), shown.html.index("<script>")
    assert image < script and shown._repr_mimebundle_()["image/png"] in shown.html[image:script]
    assert 'alt="Two &quot;panels&quot; &amp; a slider."' in shown.html[image:script]
    assert '"values": ["0.1, cold", "0.3, warm", "1, hot"], "first": 1' in shown.html
    assert re.findall(r"\.src = (.*);", shown.html) == ['root + "_static/plotly.min.js"']
    assert not re.search(r"https?:|//\w+\.|@import|\$", re.sub(r"base64,[^\"]*|\"bdata\":\"[^\"]*", "", shown.html))


@pytest.mark.parametrize("changes", [{"count": 5}, {"names": ("one",)}, {"number": np.nan}])
def test_what_does_not_fit_is_refused(changes):
    with pytest.raises(ValueError, match="frames|coordinates|zip"):
        figure(**changes)
