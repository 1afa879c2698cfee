"""The figure with a slider holds the numbers given and a picture, loads nothing from elsewhere, and refuses what does not fit."""

import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from attention_book import plotting

PLACES = np.array([0.01, 0.1, 1.0])


def slider(accuracies=((0.5, 0.7, 0.6), (0.6, 0.8, 0.7)), values=(10, 1000), **changes):
    frames = [
        (
            plotting.Panel(
                {"theory": (PLACES, accuracy), "GP limit": (PLACES, np.full(3, 0.5))},
                xlabel="temperature T",
                ylim=(0.5, 1.0),
                xlim=(0.001, 10),
                xscale="log",
                colours={"GP limit": "gp"},
            ),
            plotting.Panel({"error": (PLACES, np.subtract(1, accuracy))}, colours={"error": "0.5"}, dots=3),
        )
        for accuracy in accuracies
    ]
    given = {"label": "width N", "picture": plt.figure(), "description": 'Two "panels" & a slider.'}
    return plotting.slider(frames, values, **(given | changes))


def test_every_frame_holds_its_lines():
    figure = slider(first=1).figure
    assert [frame.name for frame in figure.frames] == ["0", "1"]
    theory, limit, error = figure.frames[0].data
    np.testing.assert_allclose([theory.x, theory.y], [PLACES, [0.5, 0.7, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(error.y, [0.5, 0.3, 0.4], rtol=1e-6)
    assert [(line.name, line.xaxis, line.yaxis, line.mode) for line in (theory, limit, error)] == [
        ("theory", "x", "y", "lines"),
        ("GP limit", "x", "y", "lines"),
        ("error", "x2", "y2", "markers"),
    ]
    assert limit.line.color == plotting.COLOURS["gp"].lower() and error.marker.color == "#808080"
    assert error.marker.size == 3
    assert [line.showlegend for line in (theory, limit, error)] == [True] * 3
    axis = figure.frames[1].layout.xaxis
    np.testing.assert_allclose(axis.range, (-3, 1))
    assert (axis.type, axis.title.text) == ("log", "temperature T")
    np.testing.assert_allclose(figure.data[0].y, [0.6, 0.8, 0.7], rtol=1e-6)


def test_a_line_in_two_panels_stands_in_the_legend_once():
    panels = [plotting.Panel({"theory": (PLACES, PLACES)}, ticks=(1, 0.5), equal=number == 0) for number in range(2)]
    figure = plotting.slider([panels], [1.0], label="N", picture=plt.figure(), description="two panels").figure
    assert [line.showlegend for line in figure.data] == [True, False]
    layout = figure.layout
    assert (layout.xaxis.dtick, layout.yaxis.dtick, layout.yaxis.scaleanchor, layout.yaxis2.scaleanchor) == (
        1,
        0.5,
        "x",
        None,
    )


def test_every_step_shows_the_frame_of_its_value():
    figure = slider(first=1, names=("narrow", "wide")).figure
    (knob,) = figure.layout.sliders
    assert (knob.active, knob.currentvalue.prefix) == (1, "width N = ")
    assert [(step.label, *step.args[0]) for step in knob.steps] == [("10, narrow", "0"), ("1000, wide", "1")]
    assert [step.label for step in slider().figure.layout.sliders[0].steps] == ["10", "1000"]


def test_the_page_has_the_picture_and_loads_nothing_from_elsewhere():
    picture, axes = plt.subplots()
    axes.plot([0, 1])
    shown = slider(picture=picture)
    assert shown._repr_mimebundle_().keys() == {"text/html", "image/png"}
    assert shown.png[:8] == b"\x89PNG\r\n\x1a\n" and picture.number not in plt.get_fignums()
    assert " id=" not in shown.html, "two on a page would meet"
    # The picture is there before any script, and the library comes from the book's own files.
    image, script = shown.html.index("<img"), shown.html.index("<script>")
    assert image < script and shown._repr_mimebundle_()["image/png"] in shown.html[image:script]
    assert 'alt="Two &quot;panels&quot; &amp; a slider."' in shown.html[image:script]
    assert re.findall(r"\.src = (.*);", shown.html) == ['root + "_static/plotly.min.js"']
    assert not re.search(r"https?:|//\w+\.|@import", re.sub(r"base64,[^\"]*|\"bdata\":\"[^\"]*", "", shown.html))
    assert "$" not in re.sub(r"base64,[^\"]*", "", shown.html)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": (10, 100, 1000)}, "slider: wanted the same number in frames and values, got 2 and 3"),
        ({"names": ("one",)}, "slider: wanted the same number in names and values, got 1 and 2"),
        ({"names": ()}, "slider: wanted the same number in names and values, got 0 and 2"),
        ({"accuracies": (), "values": ()}, "values: wanted at least one entry"),
        ({"values": (10, np.inf)}, "values: wanted finite numbers"),
        ({"accuracies": ((0.5, 0.7, 0.6), (0.5, np.nan, 0.6))}, r"frames\[1\], 'theory': wanted finite numbers"),
        ({"accuracies": ((0.5, 0.7, 0.6), (0.5, 0.6))}, r"frames\[1\], 'theory': wanted the same number in x and y"),
        ({"first": 2}, r"first: wanted the number of a frame in 0\.\.1, got 2"),
        ({"first": -1}, "first: wanted the number of a frame"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        slider(**changes)


def test_frames_have_the_same_panels_and_lines():
    one, two = (plotting.Panel({name: (PLACES, PLACES)}) for name in ("a", "b"))
    for frames in ([[one], [two]], [[one], [one, one]], [[], []], [[plotting.Panel({})]] * 2):
        with pytest.raises(ValueError, match="frames: wanted panels with the same lines in all"):
            plotting.slider(frames, (1, 2), label="", picture=plt.figure(), description="")


def test_plotly_is_loaded_only_by_who_asks():
    code = "import sys; from statmech_attention import plotting; assert 'plotly' not in sys.modules; plotting.slider"
    subprocess.run([sys.executable, "-c", code], check=True)
