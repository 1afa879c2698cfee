"""The cone of positive 2 x 2 matrices, seen from the side."""

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from statmech_attention.plotting import axes_or_new

_RAISED = np.radians(14)  # of the eye, which sees U_12 in its true size


def in_cone(matrices: ArrayLike):
    """Places `(2, ..)` in the picture of `positive_cone` for matrices `(.., 2, 2)`."""
    U = np.asarray(matrices, float)
    middle, difference = (U[..., 0, 0] + U[..., 1, 1]) / 2, (U[..., 0, 0] - U[..., 1, 1]) / 2
    return np.stack([U[..., 0, 1], middle * np.cos(_RAISED) + difference * np.sin(_RAISED)])


def positive_cone(top: float, *, axes: Axes | None = None):
    """Matrices with det U = 0 as a cone, up to this mean of the diagonal."""
    axes = axes_or_new(axes, figsize=(3, 3))
    high, flat = top * np.cos(_RAISED), np.sin(_RAISED)
    edge = np.arccos(-np.tan(_RAISED))
    side, end = top * np.sin(edge), high + top * np.cos(edge) * flat
    axes.fill([-side, 0, side], [end, 0, end], color="0.93", linewidth=0, zorder=-2)
    axes.add_patch(Ellipse((0, high), 2 * top, 2 * top * flat, facecolor="0.87", edgecolor="0.45", zorder=-1))
    axes.plot([-side, 0, side], [end, 0, end], color="0.45", linewidth=0.9, zorder=0)
    half, marks = top / 2, np.array([0, top / 2, top])
    axes.set_yticks(np.cos(_RAISED) * marks, [f"{mark:g}" for mark in marks])
    axes.set_xticks([-half, 0, half], [f"\N{MINUS SIGN}{half:g}", "0", f"{half:g}"])
    axes.set(xlabel="$U_{12}$", ylabel="mean of $U_{11}$, $U_{22}$", xlim=(-1.04 * top, 1.04 * top))
    axes.set_ylim(-0.03 * top, high + 1.04 * top * flat)
    return axes
