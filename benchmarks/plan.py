"""The cases of `python -m benchmarks`, each a plain dictionary that a process of its own gets as JSON.

`group` names it in the results; `minimiser` and `problem` are those of `minimisers.make` and `problems.make`; its `points` are
solved one after the other at the temperature, with at most `most` evaluations (or trial steps) each.
"""

from collections.abc import Iterator

from benchmarks.minimisers import OURS, RIVALS


def cases() -> Iterator[dict]:
    """Yield the cases in the order in which they run."""
    points = [_point(100, (2, 2), 231, width) for width in (1000, 500, 300, 100, 50, 30, 10)]
    for minimiser in ("auto", *RIVALS, "Adam, plain coordinates"):
        yield _case("widths", minimiser, "hidden Markov", points, 0.01, 2000)
    for heads, minimisers in {(4, 4): ("dense", "products", *RIVALS), (8, 8): ("products", *RIVALS)}.items():
        for minimiser in minimisers:
            yield _case("large", minimiser, "random", [_point(600, heads, 192, 30)])
    # One-shot images seen by the recorded network of 16 paths.
    points = [_point(600, (4, 4), 192, width) for width in (1000, 100, 10)]
    for minimiser in ("auto", *RIVALS):
        yield _case("images", minimiser, "images", points)
    axes = {
        "examples": [_point(examples, (2, 2), 64) for examples in (50, 100, 200, 400, 800)],
        "paths": [_point(100, heads, 32) for heads in ((2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8))],
        "features": [_point(200, (2, 2), features) for features in (16, 64, 128, 256, 512)],
    }
    for axis, points in axes.items():
        for minimiser in ("dense", "products"):
            # Sixty-four paths are too many for the dense Hessian.
            kept = [point for point in points if minimiser == "products" or point["heads"] != [8, 8]]
            yield _case(f"growth with {axis}", minimiser, "random", kept)
    # More examples than the paths have features: what is more is rotated away.
    for heads, counts in {(2, 2): (100, 1000, 5000, 20_000), (4, 4): (1000, 5000)}.items():
        for count in counts:
            yield _case("many examples", "auto", "random", [_point(count, heads, 192)])
    # Six layers, and up to 512 paths; a case each, so that the memory is its own. One-shot images leave 87 features.
    for fours in range(4):
        yield _case("many paths", "products", "random", [_point(600, (2,) * (6 - fours) + (4,) * fours, 87, 30)])


def _case(group, minimiser, problem, points, temperature=0.05, most=500) -> dict:
    most = 50 if minimiser in OURS else most
    return dict(group=group, minimiser=minimiser, problem=problem, points=points, temperature=temperature, most=most)


def _point(examples, heads, features, width=100) -> dict:
    return dict(examples=examples, heads=list(heads), features=features, width=width)
