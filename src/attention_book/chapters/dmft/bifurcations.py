"""Oscillations and bifurcations: checks of the onset, recorded diagrams, attractors, other patterns."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import scipy.optimize

from attention_book import plotting, results
from attention_book.chapters.dmft.orbits import floquet_multipliers, periodic_orbit
from attention_book.dynamics import attractors, bifurcation_diagram, power_spectrum
from attention_book.experiments import marked
from attention_book.notebooks import pages
from statmech_attention import dmft

CHAOS = (dmft.Regime.CHAOTIC, dmft.Regime.HYPERCHAOTIC)


def roots_of_n2(patterns, beta: float) -> np.ndarray:
    """All multipliers by the polynomial (N2)."""
    window = patterns.window
    correlation = np.asarray(dmft.pair_correlations(patterns.value, patterns.output))
    return np.concatenate([np.roots([1, *np.full(window, -beta * c / window)]) for c in np.linalg.eigvals(correlation)])


def multipliers_against_jacobian(patterns, beta: float, gamma: float) -> float:
    """Return the largest distance from singular of the Jacobian (B12) minus a root of (N2) at the silent state."""
    silent = dmft.dynamics(patterns, beta=beta, gamma=gamma, epsilon=0.0)
    size = patterns.window * patterns.features
    zero = dmft.window_from_attention(silent, jnp.zeros((patterns.window, patterns.features)), slot=0)
    jacobian = np.asarray(dmft.jacobian(silent, zero))
    rest = [np.linalg.svd(jacobian - one * np.eye(size), compute_uv=False)[-1] for one in roots_of_n2(patterns, beta)]
    return float(max(rest))


def oscillating(patterns, betas, gamma: float, steps: int, seed: int) -> np.ndarray:
    """Truth values of an end in motion without positions: (betas, sizes of the disturbance, four of each)."""
    sizes = np.array([1e-6, 0.01, 0.1, 0.3, 1.0])
    shape = len(betas), len(sizes), 4
    cases = dmft.dynamics(patterns, beta=np.broadcast_to(betas[:, None, None], shape), gamma=gamma, epsilon=0.0)
    shapes = np.random.default_rng(seed).uniform(-1, 1, (*shape, patterns.window, patterns.features))
    begin = dmft.window_from_attention(cases, sizes[:, None, None, None] * shapes, slot=0)
    end = dmft.advance(cases, begin, steps=steps)
    return (
        np.abs(np.asarray(dmft.trajectory(cases, end, steps=200, keep="attention").attention)).max(axis=(-1, -2)) > 1e-3
    )


class Forced:
    """The orbit that positions force, followed beyond its loss of stability."""

    def __init__(self, patterns, epsilon: float):
        self.patterns, self.epsilon, self.onset = patterns, epsilon, dmft.onset(patterns).beta
        codes = np.asarray(dmft.dynamics(patterns, beta=1.0, gamma=0.0, epsilon=0.0).codes)
        self.shape = np.einsum("tb,cb,ca->ta", codes[0], codes[1], codes[2]) / patterns.window  # of (N3), by slot

    def deviation(self, gamma: float, share: float) -> tuple[float, float]:
        """Largest entry of the orbit well below the onset, and how far (N3) is from it, relative to that."""
        model = dmft.dynamics(self.patterns, beta=0.8 * self.onset, gamma=gamma, epsilon=share)
        orbit = np.asarray(dmft.advance(model, dmft.initial_window(model), steps=4000).attention)
        leading = gamma / np.sqrt(self.patterns.features) * share**3 * self.shape
        return float(np.abs(orbit).max()), float(np.abs(orbit - leading).max() / np.abs(leading).max())

    def multiplier(self, beta: float, gamma: float):
        """Largest Floquet multiplier."""
        here = dmft.dynamics(self.patterns, beta=float(beta), gamma=float(gamma), epsilon=self.epsilon)
        sharpness, window = gamma / np.sqrt(self.patterns.features), self.patterns.window
        begin = dmft.window_from_attention(here, sharpness * self.epsilon**3 * self.shape[::-1], slot=window - 1)
        return floquet_multipliers(here, periodic_orbit(here, begin, window), window)[0]

    def critical(self, gamma: float) -> float:
        """Inverse temperature at which the largest multiplier has modulus one."""

        def growth(beta):
            return np.log(np.abs(self.multiplier(beta, gamma)))

        return float(scipy.optimize.brentq(growth, 0.9 * self.onset, 1.15 * self.onset, xtol=1e-7))


class Recorded:
    """Records of one set of patterns, or live diagrams where there are none for the parameters of the page."""

    def __init__(self, folder, last, seed: int, gamma: float, epsilon: float):
        self.folder, self.last, self.seed = Path(folder), last, seed
        self.wanted = {"gamma": gamma, "epsilon": epsilon, "window": last.patterns.window}

    def load(self, kind: str, low: float, high: float):
        """A record and its parameters, or None."""
        path = self.folder / f"{kind}-seed{self.seed}-beta{low:g}-{high:g}.nc"
        if not path.exists():
            return None
        settings = results.record(path)["parameters"]
        wanted = {name: value for name, value in self.wanted.items() if kind != "phases" or name != "gamma"}
        return (
            (results.load(path), settings) if all(settings[name] == value for name, value in wanted.items()) else None
        )

    def diagram(self, low: float, high: float, *, networks: int, transient: int, steps: int) -> dict:
        """Values, sections and regimes by inverse temperature."""
        found, exponents = self.load("bifurcation", low, high), self.load("exponents", low, high)
        if found is None or exponents is None:
            return self._live(low, high, networks, transient, steps)
        (data, settings), (told, _) = found, exponents
        visited, sections = (marked(data[name], settings["levels"]) for name in ("visited", "sections"))
        values = np.linspace(-settings["limit"], settings["limit"], settings["levels"])
        nearest = np.abs(data["beta"].values[:, None] - told["beta"].values).argmin(axis=1)
        kinds = told["regime"].values.astype(int)[nearest]
        # Regimes change between neighbours: one that visits many values has not the regime of a periodic neighbour.
        kinds[(kinds == dmft.Regime.PERIODIC) & (visited.sum(axis=1) > 500)] = dmft.Regime.UNDECIDED
        regimes = told["beta"].values, told["regime"].values.astype(int)
        parts = dict(grid=data["beta"].values, visited=visited, sections=sections[:, 0], values=values, kinds=kinds)
        return parts | dict(regimes=regimes, recorded=True)

    def _live(self, low, high, networks, transient, steps) -> dict:
        grid = np.linspace(low, high, networks)
        models, common = (
            self.last.at(beta=grid),
            dmft.advance(self.last, dmft.initial_window(self.last), steps=transient),
        )
        options = dict(transient=transient, steps=steps, pairs=((0, 1),), thickness=1e-2, levels=2001)
        found = bifurcation_diagram(models, common, **options)
        kinds = attractors(models, found.window, transient=0, steps=5000).regime
        parts = dict(grid=grid, visited=found.visited[:, 0], sections=found.sections[:, 0], values=found.values)
        return parts | dict(kinds=kinds, regimes=(grid, kinds), recorded=False)

    def both_ways(self, zoom: dict, low: float, high: float) -> list[tuple[float, float]]:
        """The two widest ranges in which runs up, down and from a common window visit different values."""
        found = self.load("continuation", low, high)
        if found is None or not zoom["recorded"]:
            return []
        data, settings = found
        grid = data["beta"].values
        every = np.round((zoom["grid"] - grid[0]) / (grid[1] - grid[0])).astype(int)
        tables = [marked(data["visited"].sel(way=way), settings["levels"])[every] for way in ("up", "down")]
        tables.append(zoom["visited"])
        spans = [np.array([np.ptp(np.flatnonzero(row)) for row in table]) for table in tables]
        differ = np.zeros(len(every), bool)
        for one in range(3):
            for other in range(one):
                # A chaotic attractor around a torus shares all values of the torus: ranges count, too.
                least, most = np.minimum(spans[one], spans[other]), np.maximum(spans[one], spans[other])
                differ |= (_shared(tables[one], tables[other]) < 0.5) | (most > 1.3 * least + 20)
        places = np.flatnonzero(differ)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 3) + 1)
        return sorted((float(zoom["grid"][run[0]]), float(zoom["grid"][run[-1]])) for run in sorted(runs, key=len)[-2:])


def _shared(first, second) -> np.ndarray:
    """Share of the values of the smaller set that the other has, too, up to one level."""
    wide = [table | np.roll(table, 1, axis=1) | np.roll(table, -1, axis=1) for table in (first, second)]
    return np.sum(wide[0] & wide[1], axis=1) / np.minimum(wide[0].sum(axis=1), wide[1].sum(axis=1))


def diagram_figure(found: dict) -> None:
    """Bifurcation diagram above a strip of regimes."""
    ratios = {"height_ratios": (1, 0.07)}
    figure, (axes, ribbon) = plotting.new_figure(2, 1, figsize=(5.4, 4.2), sharex=True, gridspec_kw=ratios)
    options = dict(sections=found["sections"], regimes=found["kinds"], axes=axes)
    plotting.bifurcation(found["grid"], found["visited"], found["values"], **options)
    betas, regimes = found["regimes"]
    plotting.regime_map(betas, np.zeros(1), np.asarray(regimes)[:, None], axes=ribbon)
    ribbon.set(yticks=[], ylabel="")
    top = 1.05 * np.abs(found["values"][found["visited"].any(axis=0)]).max() or 1.0
    axes.set(ylabel="$m^o_1$", ylim=(-top, top), xlabel="", xlim=found["grid"][[0, -1]])
    plotting.legend_above(axes, columns=3)


def first_chaos(found: dict) -> tuple[float, float]:
    """Smallest chaotic value of the grid, and the smallest whose neighbour is chaotic, too."""
    grid, regimes = found["regimes"]
    chaotic = grid[np.isin(regimes, CHAOS)]
    pairs = chaotic[np.append(np.diff(chaotic) < 1.5 * (grid[1] - grid[0]), False)] if len(chaotic) else chaotic
    first, steady = (float(one.min()) if len(one) else float("nan") for one in (chaotic, pairs))
    return first, steady


def portraits_figure(models, window, betas, *, transient: int):
    """Portraits above spectra, one attractor per column; returns regimes, periods and the largest exponents."""
    found = attractors(models, window, transient=transient, steps=50_000)
    kinds = [plotting.REGIMES[kind] for kind in found.regime]
    series = np.asarray(dmft.trajectory(models, found.window, steps=16384, keep="output_words").output_words)
    frequencies, power = power_spectrum(jnp.asarray(series[..., 0]), axis=1, hann=True)
    figure, axes = plotting.new_figure(2, len(betas), figsize=(5.4, 4.0), squeeze=False)
    for (top, low), beta, kind, one, spread in zip(axes.T, betas, kinds, series, np.asarray(power), strict=True):
        plotting.phase_portrait(one[:, 0], one[:, min(1, one.shape[1] - 1)], regime=kind, axes=top)
        plotting.spectrum(frequencies, spread, regime=kind, decades=10.0, axes=low)
        end = float(f"{0.7 * np.abs(one[:, :2]).max():.1g}")
        title = rf"$\beta$ = {beta:g}" + f"\n{kind}"
        top.set(xlabel="$m^o_1$", title=title, xticks=[-end, end], yticks=[-end, end])
        low.set(xlabel="frequency", xticks=[0, 0.5])
        if top is not axes[0, 0]:
            top.set_ylabel("")
            low.set(ylabel="", yticklabels=[])
    return kinds, np.asarray(found.period), np.asarray(found.exponents[:, 0]), np.asarray(found.errors[:, 0])


class Lifetimes:
    """Recorded runs that leave strong chaos one after the other."""

    def __init__(self, data, settings):
        self.block, self.blocks = settings["steps"] // settings["blocks"], settings["blocks"]
        self.values, self.betas = data["block_exponent"].values, data["beta"].values  # betas, starts, blocks
        strong = self.values > 0.08  # between the two levels of the figure
        until = np.where(strong.any(axis=2), self.blocks - np.argmax(strong[:, :, ::-1], axis=2), 0)
        gone = until < self.blocks - 5
        self.starts, self.count, self.exposure = gone.shape[1], gone.sum(axis=1), until.sum(axis=1) * self.block
        self.lifetime = np.where(self.count > 0, self.exposure / np.maximum(self.count, 1), np.inf)
        self.mortal = self.count == self.starts
        ends = [self.values[row, gone[row], -5:].mean() if self.count[row] else np.nan for row in range(len(gone))]
        self.weak, self.ends, self.strong = (
            self.mortal & (np.array(ends) > dmft.THRESHOLD),
            np.array(ends),
            self.values[strong].mean(),
        )

    def figure(self, beta: float = 1.276) -> None:
        """Exponents of blocks of all starts at one beta, and mean lifetimes."""
        figure, axes = plotting.new_figure(1, 2, figsize=(6.4, 3.2))
        chosen = int(np.argmin(np.abs(self.betas - beta)))
        times = self.block * (np.arange(self.blocks) + 0.5)
        for line in self.values[chosen]:
            axes[0].plot(times / 1e5, line, color="0.3", linewidth=0.5, alpha=0.6)
        title = rf"$\beta$ = {self.betas[chosen]:g}"
        axes[0].set(xlabel="steps / $10^5$", ylabel=r"$\lambda_1$ within a block", title=title)
        for name, mine in (("periodic", self.mortal & ~self.weak), ("chaotic", self.weak)):
            label = f"then {'weakly ' if name == 'chaotic' else ''}{name}"
            look = dict(fmt="o", color=plotting.REGIME_COLOURS[name], capsize=2, label=label)
            errors = self.lifetime[mine] / np.sqrt(np.maximum(self.count[mine], 1))
            axes[1].errorbar(self.betas[mine], self.lifetime[mine], errors, **look)
        look = dict(color="0.3", markerfacecolor="white", linewidth=0, label="longer than")
        axes[1].plot(self.betas[~self.mortal], self.exposure[~self.mortal] / 3, "^", **look)
        axes[1].legend(fontsize=9)
        axes[1].set(yscale="log", xlabel=r"$\beta$", ylabel="mean lifetime (steps)", xticks=[1.274, 1.276, 1.278])
        axes[1].ticklabel_format(axis="x", useOffset=False)

    def facts(self) -> dict:
        mortal = self.lifetime[self.mortal]
        return dict(
            life_first=float(self.betas[self.mortal].max()), life_boundary=float(self.betas[~self.mortal].min()),
            life_short=float(mortal.min() / 1e5), life_long=float(mortal.max() / 1e5), life_starts=self.starts,
            life_immortal=int(np.sum(~self.mortal)) * self.starts, life_strong=float(self.strong),
            life_values=len(self.betas), life_block=self.block, life_steps=pages.in_powers(self.block * self.blocks, 1),
        )  # fmt: skip

    def assert_as_written(self) -> None:
        assert self.mortal.sum() == 9 and self.count[~self.mortal].sum() == 0
        assert np.all(np.diff(self.mortal.astype(int)) <= 0) and np.all(self.ends[self.weak] < 0.03)
        assert self.lifetime[self.mortal].min() > 0.5e5 and self.lifetime[self.mortal].max() < 5e5


def phases_figure(told, gamma: float) -> None:
    """Regimes over both inverse temperatures."""
    figure, axes = plotting.new_figure(figsize=(5.4, 3.8))
    betas = told["beta"].values
    plotting.regime_map(betas, told["gamma"].values, told["regime"].values.astype(int), axes=axes)
    axes.axhline(gamma, color="white", linestyle="--", linewidth=1)
    axes.set(ylabel=r"inverse temperature of attention $\gamma$", xlim=(1.1, betas[-1]))
    plotting.legend_above(axes, columns=3)


def chaotic_shares(told) -> dict[tuple[int, int], float]:
    """Percentage of chaos beyond the onset, by range of the attention's inverse temperature."""
    beyond, gammas = told["beta"].values > 1.25, told["gamma"].values
    chaotic = np.isin(told["regime"].values.astype(int), CHAOS)[beyond]
    ranges = ((0, 0), (1, 9), (9, 10), (10, 15), (15, 20), (20, 60), (60, 150), (150, 301))
    return {ends: 100 * float(chaotic[:, (gammas >= ends[0]) & (gammas < max(ends[1], 1))].mean()) for ends in ranges}


def largest_exponent(told) -> tuple[float, float]:
    """Largest exponent of the record, and the inverse temperature of attention where it is."""
    by_gamma = told["exponents"].values[..., 0].max(axis=0)
    return float(by_gamma.max()), float(told["gamma"].values[by_gamma.argmax()])


def features_of(survey) -> dict[str, np.ndarray]:
    """For each set of patterns: tori, chaos, several attractors above its onset; a finite one below; no rotation."""
    kinds, periods, sizes = (survey[name].values for name in ("regime", "period", "size"))
    kinds, scale = kinds.astype(int), survey["scale"].values
    above, below = scale > 1, scale < 0.98
    known, returns = kinds != dmft.Regime.UNDECIDED, periods > 0
    low, high = np.where(known, kinds, 9).min(axis=2), np.where(known, kinds, -1).max(axis=2)
    most, least = np.where(returns, periods, 0).max(axis=2), np.where(returns, periods, 10**6).min(axis=2)
    big, little = np.where(returns, sizes, -1.0).max(axis=2), np.where(returns, sizes, 9.0).min(axis=2)
    pair = (returns.sum(axis=2) > 1) & ((most != least) | (big > 1.05 * little))
    several = ((high > low) & known.any(axis=2)) | pair
    return {
        "tori": ((kinds == dmft.Regime.QUASI_PERIODIC) & above[:, None]).any(axis=(1, 2)),
        "chaos": (np.isin(kinds, CHAOS) & above[:, None]).any(axis=(1, 2)),
        "several": (several & above).any(axis=1),
        "below": (sizes[:, below] > 0.05).any(axis=(1, 2)),
        "still": survey["frequency"].values < 1e-9,
    }


def survey_facts(surveys, folder: Path) -> dict:
    """Settings of the recorded surveys of other patterns."""
    if not surveys:
        return {}
    asked = results.record(folder / "patterns-seed1-beta0.9-2.4.nc")["parameters"]
    spaced = {name: f"{asked[name]:,}".replace(",", "\u2009") for name in ("steps", "transient")}
    plain = {name: asked[name] for name in ("sets", "starts", "gamma")}
    return {f"survey_{name}": value for name, value in (plain | spaced).items()}


def share(values) -> str:
    """Share of sets in percent, with its standard error."""
    mean = float(np.mean(values))
    return f"{100 * mean:.0f} ± {100 * np.sqrt(mean * (1 - mean) / len(values)):.0f} %"


def patterns_figure(surveys) -> None:
    """Regimes of many sets of patterns in units of each set's own onset."""
    figure, axes = plotting.new_figure(1, len(surveys), figsize=(6.4, 4.0), sharey=True, squeeze=False)
    for panel, (name, one) in zip(axes[0], surveys.items(), strict=True):
        kinds = one["regime"].values.astype(int)
        common = np.array([[np.bincount(cell, minlength=5).argmax() for cell in row] for row in kinds])
        plotting.regime_map(one["scale"].values, one["set"].values, common.T, axes=panel)
        panel.set(xlabel=r"$\beta$ / onset", ylabel="", title=name)
    axes[0, 0].set_ylabel("seed of the patterns")
    handles = {
        text: handle for panel in axes[0] for handle, text in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
