"""Figures with a slider have one picture per value, and load nothing from elsewhere."""

import json
import re

import matplotlib.pyplot as plt

from attention_book import plotting


def test_a_picture_for_every_value_and_nothing_from_elsewhere():
    drawn = []

    def draw(value):
        drawn.append(value)
        figure, axes = plt.subplots(figsize=(2, 1 + value))
        axes.plot([0, 1], [0, value])
        return figure

    shown = plotting.slider(draw, (0.1, 0.3, 1.0), label="T", first=1, description='Two "panels" & a slider.')
    assert drawn == [0.1, 0.3, 1.0] and not plt.get_fignums()
    assert shown._repr_mimebundle_().keys() == {"text/html", "image/png"} and shown.png[:4] == b"\x89PNG"
    assert 'alt="Two &quot;panels&quot; &amp; a slider."' in shown.html
    assert '"values": ["0.1", "0.3", "1"], "first": 1' in shown.html
    pictures = json.loads(re.search(r"pictures = (\[.*?\]), picture = ", shown.html)[1])
    heights = [float(re.search(r'height="([\d.]+)pt"', one)[1]) for one in pictures]
    assert all(one.startswith("<svg") for one in pictures) and heights == sorted(set(heights))
    outside = re.findall(r"(?:src|href)=\W*https?:|@import|\.src = .*http", shown.html)
    assert outside == [] and " id=" not in shown.html.split("<script>")[0], "two on a page would meet"
