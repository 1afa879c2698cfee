"""How far to trust the theory: recorded errors of the mean output, and the criterion r."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import scipy.stats
import xarray as xr

import statmech_attention as sma
from attention_book import experiments, plotting, results
from statmech_attention import sampling
from statmech_attention.plotting.style import MUTED

TASKS = {
    "chains": ("Markov chains", "o", "indigo"),
    "images": ("images", "s", "rose"),
    "sentences": ("sentences", "^", "green"),
}


class Trust:
    """Recorded errors of the theory over numbers of paths, widths and sources of attention, and the criterion r."""

    def __init__(self, folder: Path):
        self.files = {name: folder / f"paths-{name}-seed0.nc" for name in TASKS}
        self.recorded = {name: results.load(file) for name, file in self.files.items()}
        cases = {name: one.stack(case=("paths", "width")).reset_index("case") for name, one in self.recorded.items()}
        self.cases = {
            name: one.isel(case=np.flatnonzero(np.isfinite(one.output_correction))) for name, one in cases.items()
        }
        every = xr.concat(list(self.cases.values()), "case")
        self.size, self.off, self.noise = (
            np.asarray(one) for one in (every.output_correction, every.output_off, every.output_off_error)
        )
        self.ratio, self.scaled = np.asarray(every.paths / every.width), np.asarray(every.width * every.output_off)
        self.known = self.noise < self.off / 4
        self.within = self.known & (self.size / 2 <= self.off) & (self.off <= 2 * self.size)
        self.small = self.size <= 0.1
        self.small_right = self.small & (self.off <= 0.2 + 2 * self.noise)

    def numbers(self) -> dict[str, int | float]:
        """Statements of the text on them."""
        counts = {name: int(getattr(self, name).sum()) for name in ("known", "within", "small", "small_right")}
        ranks = {
            name: float(scipy.stats.spearmanr(one, self.off).statistic)
            for name, one in (("rank_r", self.size), ("rank_paths", self.ratio))
        }
        ends = {"least": float(self.scaled[self.known].min()), "most": float(self.scaled[self.known].max())}
        return counts | ranks | ends | {"ratio": float(self.ratio.max())}

    def recomputed(self) -> float:
        """r of one case computed again, relative to the record."""
        file = self.files["chains"]
        experiment = experiments.ManyPaths(folder=file.parent, **results.record(file)["parameters"])
        posed, unseen = experiment.problem(experiment.seen(), 4, 10)
        found = sma.solve(posed)
        return float(criterion(found, unseen) / self.recorded["chains"].output_correction.sel(paths=4, width=10)) - 1

    def draw(self) -> None:
        """Errors against the criterion, and against the number of paths per neuron."""
        figure, panels = plotting.new_figure(1, 2, figsize=(6.5, 3.5), sharey=True)
        for name, (label, marker, colour) in TASKS.items():
            one, colour = self.cases[name], MUTED[colour]
            known = (one.output_off_error < one.output_off / 4).values
            shown = one.output_off.clip(min=1e-4)
            for panel, across in zip(panels, (one.output_correction, one.paths / one.width), strict=True):
                panel.errorbar(across, shown, one.output_off_error, fmt="none", color=colour, linewidth=0.7, alpha=0.6)
                for fill, among in ((colour, known), ("white", ~known)):
                    said = label if panel is panels[0] and fill == colour else None
                    look = {"color": colour, "markerfacecolor": fill, "markersize": 4.5, "label": said}
                    panel.plot(across[among], shown[among], marker, **look)
        ends = np.array([1e-3, 1.0])
        for factor, style in ((1, "-"), (2, ":"), (0.5, ":")):
            panels[0].plot(ends, factor * ends, style, color="0.6", linewidth=0.8, zorder=0)
        panels[0].set(xscale="log", yscale="log", ylim=(1e-3, 1), xlabel="criterion $r$")
        panels[0].set_ylabel("error of the mean output\nover posterior deviation")
        panels[1].set(xscale="log", xlabel="paths per neuron, $d_1 / N$")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)


def criterion(solution: sma.Solution, test):
    """Size r of the first correction to the mean output over the posterior deviation, root mean squares."""
    mean, spread = solution.predict(test)
    better = sampling.corrected(solution, test).prediction.mean
    return jnp.sqrt(jnp.mean((better - mean) ** 2) / jnp.mean(spread))
