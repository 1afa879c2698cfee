"""What is measured: cases, each a plain dictionary that a worker process gets as JSON."""

from typing import Any

# The fields of a case:
#   group         a name for the results
#   minimiser     see `minimisers.make`
#   problem       see `problems.make`
#   points        what is solved one after the other in the same process: examples, heads, features, width
#   temperature   T
#   most          evaluations (or trial steps) before giving up
WIDTHS = (1000, 500, 300, 100, 50, 30, 10)
RIVALS = ("L-BFGS (optax)", "L-BFGS (SciPy)", "BFGS (SciPy)", "Newton-CG (SciPy)", "BFGS (Optimistix)", "Adam")


def cases(quick: bool) -> list[dict[str, Any]]:
    """The cases in the order in which they run; `quick`: tiny ones, to see that everything works."""
    return [
        *_widths(quick),
        *_large(quick),
        *_images(quick),
        *_growth(quick),
        *_many_examples(quick),
        *_many_paths(quick),
    ]


def _widths(quick: bool):
    widths, examples = (WIDTHS, 100) if not quick else ((100, 30), 20)
    points = [_point(examples, (2, 2), 231 if not quick else 51, width) for width in widths]
    for minimiser in ("auto", *RIVALS, "Adam, plain coordinates"):
        yield _case("widths", minimiser, "hidden Markov", points, 0.01, _most(minimiser, quick, 2000))


def _large(quick: bool):
    sizes = {(4, 4): ("dense", "products", *RIVALS), (8, 8): ("products", *RIVALS)}
    if quick:
        sizes = {(2, 2): ("dense", "products", RIVALS[0])}
    examples, features = (600, 192) if not quick else (30, 10)
    for heads, minimisers in sizes.items():
        for minimiser in minimisers:
            points = [_point(examples, heads, features, 30)]
            yield _case("large", minimiser, "random", points, 0.05, _most(minimiser, quick))


def _images(quick: bool):
    """One-shot images seen by the recorded network of 16 paths; left out where neither is at hand."""
    if quick:
        return
    points = [_point(600, (4, 4), 192, width) for width in (1000, 100, 10)]
    for minimiser in ("auto", *RIVALS):
        yield _case("images", minimiser, "images", points, 0.05, _most(minimiser, quick))


def _most(minimiser: str, quick: bool, most: int = 500) -> int:
    return (50 if minimiser in ("auto", "dense", "products") else most) if not quick else 60


def _growth(quick: bool):
    axes = {
        "examples": [_point(examples, (2, 2), 64, 100) for examples in (50, 100, 200, 400, 800)],
        "paths": [_point(100, heads, 32, 100) for heads in ((2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8))],
        "features": [_point(200, (2, 2), features, 100) for features in (16, 64, 128, 256, 512)],
    }
    if quick:
        axes = {"examples": [_point(examples, (2, 2), 8, 100) for examples in (20, 40)]}
    for axis, points in axes.items():
        for minimiser in ("dense", "products"):
            # Sixty-four paths are too many for the dense Hessian: it is left out rather than waited for.
            kept = [point for point in points if minimiser == "products" or point["heads"] != [8, 8]]
            yield _case(f"growth with {axis}", minimiser, "random", kept, 0.05, 50)


def _many_examples(quick: bool):
    """More examples than the paths have features: what is more is rotated away."""
    counts = ((100, 1000, 5000, 20_000), (1000, 5000)) if not quick else ((20, 40),)
    for examples, heads in zip(counts, ((2, 2), (4, 4)), strict=False):
        for count in examples:
            features = 192 if not quick else 8
            yield _case("many examples", "auto", "random", [_point(count, heads, features, 100)], 0.05, 50)


def _many_paths(quick: bool):
    """Six layers, and up to 512 paths; a case each, so that the memory is its own. One-shot images leave 87 features."""
    examples, features = (600, 87) if not quick else (30, 10)
    for fours in range(4) if not quick else (0,):
        heads = (2,) * (6 - fours) + (4,) * fours
        yield _case("many paths", "products", "random", [_point(examples, heads, features, 30)], 0.05, 50)


def _case(group, minimiser, problem, points, temperature, most):
    return dict(group=group, minimiser=minimiser, problem=problem, points=points, temperature=temperature, most=most)


def _point(examples, heads, features, width):
    return dict(examples=examples, heads=list(heads), features=features, width=width)
