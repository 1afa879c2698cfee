"""Learned queries and keys: measures, tables and figures of the records, and one climb."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.stats import binomtest

import statmech_attention as sma
from attention_book import plotting
from attention_book.experiments.learned import FAMILIES, HARDNESSES, TASK, log_prior, problem_at, random_start, seen
from attention_book.notebooks import tables
from attention_book.temperatures import Difference, difference
from statmech_attention.training import LearnedAttention, attention_evidence, learn_attention

SUCCESS, HARDLY = 0.9, 0.02  # accuracy of a success; a difference that hardly matters
_COLOURS = {10.0: "theory", np.inf: "gp"}


def climb(examples: int, width: float, seed: int, steps: int) -> tuple[LearnedAttention, float, float]:
    """One climb, and the test accuracy before and after it."""
    keys = jax.random.split(jax.random.key(seed), 3)
    train, test, start = TASK.sample(keys[0], examples), TASK.sample(keys[1], 1000), random_start(keys[2])
    data = train.inputs, train.labels
    learned = learn_attention(problem_at(width), start, data=data, log_prior=log_prior, steps=steps)

    def right(theta, solution):
        return float(sma.accuracy(solution.predict(seen(theta, test.inputs)).mean, test.labels))

    return learned, right(start, sma.solve(problem_at(width)(start, *data))), right(learned.theta, learned.solution)


def slope_error(examples: int, width: float, seed: int) -> float:
    """Relative difference of (L2) from a central difference of the log evidence, in one direction."""
    keys = jax.random.split(jax.random.key(seed), 3)
    train, start, along = TASK.sample(keys[0], examples), random_start(keys[1]), random_start(keys[2])
    data = train.inputs, train.labels

    def at(step):
        theta = jax.tree.map(lambda one, way: one + step * way, start, along)
        return float(sma.log_evidence(sma.solve(problem_at(width)(theta, *data), tolerance=1e-11)))

    slopes = attention_evidence(problem_at(width), start, data=data)[1]
    slope = sum(float(jnp.sum(one * way)) for one, way in zip(*map(jax.tree.leaves, (slopes, along)), strict=True))
    return abs((at(1e-5) - at(-1e-5)) / 2e-5 - slope) / abs(slope)


def chance(found: xr.Dataset, width: float) -> tuple[int, int, tuple[float, float]]:
    """Successes, climbs, and Wilson's interval of their ratio."""
    return _wilson(found.accuracy.sel(width=width).values >= SUCCESS)


def _wilson(right: np.ndarray) -> tuple[int, int, tuple[float, float]]:
    share = binomtest(int(right.sum()), right.size).proportion_ci(method="wilson")
    return int(right.sum()), right.size, (share.low, share.high)


def of_successes(found: xr.Dataset, width: float) -> np.ndarray:
    """Mean accuracy of the successes in each draw; NaN where there are none."""
    accuracy = found.accuracy.sel(width=width)
    return accuracy.where(accuracy >= SUCCESS).mean("start").values


def designed(found: xr.Dataset, width: float) -> np.ndarray:
    """Accuracy of the designed heads in each draw, at the temperature of the largest evidence."""
    one = found.sel(width=width)
    return one.designed_accuracy.isel(temperature=one.designed_evidence.argmax("temperature")).values


def descended(found: xr.Dataset) -> np.ndarray:
    """Accuracy of gradient descent in each draw, on the half that did not choose start and decay."""
    accuracy = found.descent_accuracy.stack(choice=("start", "decay")).transpose("descent", "half", "choice").values
    chosen = accuracy[:, ::-1].argmax(axis=-1)
    return np.take_along_axis(accuracy, chosen[..., None], axis=-1)[..., 0].mean(axis=1)


def gains(found: xr.Dataset) -> dict[str, Difference]:
    """Accuracy of the narrowest network minus the limit's: learned, designed, and designed minus learned."""
    narrow, limit = found.width.values[[0, -1]]
    learned = of_successes(found, narrow) - of_successes(found, limit)
    both = np.isfinite(learned)
    fixed = (designed(found, narrow) - designed(found, limit))[both]
    pairs = {"learned": (learned[both], 0.0), "designed": (fixed, 0.0), "excess": (fixed, learned[both])}
    return {name: difference(one, other) for name, (one, other) in pairs.items()}


def verdict(found: xr.Dataset) -> str:
    """Outcome of the claim by its protocol: "holds", "fails" or "stays open"."""
    learned, excess = (gains(found)[name] for name in ("learned", "excess"))
    if abs(learned.mean) + learned.within < HARDLY and excess.mean > excess.within:
        return "holds"
    return "fails" if learned.mean - learned.within > HARDLY or excess.mean < -excess.within else "stays open"


def kept(found: xr.Dataset) -> xr.DataArray:
    """Accuracy of the start of largest log posterior in each draw, over `examples`, `width` and `draw`."""
    accuracy = found.accuracy.transpose("examples", "width", "draw", "start")
    return accuracy.isel(start=found.log_posterior.argmax("start"))


def chance_kept(found: xr.Dataset, width: float, examples: int) -> tuple[int, int, tuple[float, float]]:
    """Draws whose kept start succeeds, draws, and Wilson's interval of their ratio."""
    return _wilson(kept(found).sel(width=width, examples=examples).values >= SUCCESS)


def thresholds(found: xr.Dataset, width: float) -> np.ndarray:
    """Smallest P, in each draw, from which the kept starts succeed; twice the largest if there is none."""
    right = kept(found).sel(width=width).transpose("examples", "draw").values >= SUCCESS
    examples = np.append(found.examples.values, 2 * found.examples.values[-1])
    return examples[(np.cumprod(right[::-1], axis=0)[::-1] == 0).sum(axis=0)]


def transition(found: xr.Dataset) -> tuple[int, int]:
    """Largest P at which no kept start succeeds, and smallest at which most draws are past their threshold."""
    widths, counts = found.width.values, found.examples.values
    none = [P for P in counts if not any(chance_kept(found, width, P)[0] for width in widths)]
    past = [P for P in counts if all(np.mean(thresholds(found, width) <= P) > 0.5 for width in widths)]
    return int(max(none)), int(min(past))


def needs_examples(found: xr.Dataset, width: float) -> bool:
    """True if the chance of success at the largest P has an interval above that at the smallest: claim 1."""
    (_, _, few), (_, _, many) = (chance_kept(found, width, found.examples.values[place]) for place in (0, -1))
    return many[0] > few[1]


def threshold_by_width(found: xr.Dataset) -> tuple[dict[float, Difference], str]:
    """Binary logarithm of the threshold, minus that in the limit, by width, and the outcome of claim 2."""
    *widths, limit = found.width.values
    apart = {
        width: difference(np.log2(thresholds(found, width)), np.log2(thresholds(found, limit))) for width in widths
    }
    if all(abs(one.mean) + one.within < 1 for one in apart.values()):
        return apart, "holds"
    return apart, "fails" if any(abs(one.mean) > one.within for one in apart.values()) else "stays open"


def accuracy_by_width(found: xr.Dataset, least: int = 5) -> tuple[dict[tuple[int, float], Difference], str]:
    """Accuracy of kept starts minus the limit's where both succeed, by P and width, and the outcome of claim 3."""
    *widths, limit = found.width.values
    accuracy, apart = kept(found), {}
    for examples in found.examples.values:
        for width in widths:
            one, other = (accuracy.sel(examples=examples, width=at).values for at in (width, limit))
            both = (one >= SUCCESS) & (other >= SUCCESS)
            if both.sum() >= least:
                apart[int(examples), float(width)] = difference(one[both], other[both])
    if all(abs(one.mean) + one.within < HARDLY for one in apart.values()):
        return apart, "holds"
    outside = any(abs(one.mean) - one.within > HARDLY for one in apart.values())
    return apart, "fails" if outside else "stays open"


def missed(found: xr.Dataset) -> tuple[int, int]:
    """Draws at all P and widths whose kept start fails although another one succeeds, and draws with a success."""
    some = (found.accuracy >= SUCCESS).any("start")
    return int((some & (kept(found) < SUCCESS)).sum()), int(some.sum())


def over_descent(found: xr.Dataset) -> tuple[dict[int, Difference], str]:
    """Accuracy of kept starts minus gradient descent's at the narrowest width, by P, and the outcome of claim 4."""
    width, draws = found.width.values[0], found.sizes["descent"]
    accuracy = kept(found).sel(width=width).isel(draw=slice(draws))
    apart = {
        int(one): difference(accuracy.sel(examples=one).values, descended(found.sel(examples=one)))
        for one in found.examples.values
    }
    if any(one.mean < -one.within for one in apart.values()):
        return apart, "fails"
    return apart, "holds" if any(one.mean > one.within for one in apart.values()) else "stays open"


def beside_table(found: xr.Dataset):
    """Markdown table of mean accuracies by P: learned attention, designed heads, gradient descent and its distance."""
    narrow, limit = found.width.values[[0, -1]]
    heads = [
        "$P$",
        *(f"learned, {_name(one)}" for one in (narrow, limit)),
        "designed",
        "descent",
        "learned minus descent",
    ]
    rows = []
    for examples, apart in over_descent(found)[0].items():
        one, accuracy = found.sel(examples=examples), kept(found).sel(examples=examples)
        means = [accuracy.sel(width=width).mean() for width in (narrow, limit)]
        means += [designed(one, narrow).mean(), descended(one).mean()]
        rows.append((examples, *(f"{float(mean):.3f}" for mean in means), str(apart)))
    return tables.table(heads, rows)


def examples_figure(found: xr.Dataset):
    """Chance of success of kept starts with its interval, share of all climbs, and accuracy, against P."""
    _, (top, bottom) = plotting.new_figure(2, 1, figsize=(5.2, 5.6), sharex=True)
    examples, accuracy = found.examples.values, kept(found)
    for width, aside in zip(found.width.values, (0.94, 1.0, 1.06), strict=True):
        look = {"color": plotting.COLOURS[_COLOURS.get(width, "denoising")], "markersize": 4}
        beside = examples * aside  # side by side, or intervals would cover each other
        counts = [chance_kept(found, width, one) for one in examples]
        share = np.array([right / draws for right, draws, _ in counts])
        low, high = np.array([interval for *_, interval in counts]).T
        errors = np.maximum([share - low, high - share], 0)
        top.errorbar(beside, share, errors, fmt="o-", capsize=2, label=_name(width), **look)
        climbs = (found.accuracy.sel(width=width) >= SUCCESS).mean(("draw", "start"))
        top.plot(examples, climbs.values, ":", **look)
        bottom.plot(beside, accuracy.sel(width=width).transpose("examples", "draw").values, "o", alpha=0.6, **look)
    top.set(ylabel="chance of success", ylim=(-0.03, 1.03))
    bottom.axhline(SUCCESS, color="0.6", linestyle=":")
    bottom.set(xlabel="examples $P$", ylabel="test accuracy", xscale="log")
    bottom.set_xticks(examples, [f"{one}" for one in examples])
    bottom.minorticks_off()
    top.legend()


def ends_figure(found: xr.Dataset):
    """Test accuracy of every climb, of designed heads and of gradient descent."""
    _, axes = plotting.new_figure(figsize=(5.2, 3.4))
    columns = [
        (f"learned, {_name(width)}", found.accuracy.sel(width=width).values.ravel(), width)
        for width in found.width.values
    ]
    columns += [(f"designed, {_name(width)}", designed(found, width), width) for width in found.width.values]
    columns += [("descent, " + _name(found.width.values[0]), descended(found), None)]
    for place, (_, values, width) in enumerate(columns):
        colour = plotting.COLOURS[_COLOURS.get(width, "denoising")]
        spread = place + 0.35 * np.linspace(-1, 1, len(values))
        axes.plot(spread, np.sort(values), "o", color=colour, markersize=4)
    axes.axhline(SUCCESS, color="0.6", linestyle=":")
    axes.set_xticks(range(len(columns)), [name.replace(", ", "\n") for name, *_ in columns], fontsize=9)
    axes.set_ylabel("test accuracy")
    return axes


def climb_figure(learned: LearnedAttention):
    """The log posterior, and the tables of positions of layer 1."""
    _, (left, right) = plotting.new_figure(2, 1, figsize=(5.2, 5.2))
    left.plot(learned.log_posterior, color=plotting.COLOURS["theory"])
    left.set(xlabel="step", ylabel="log posterior")
    for head, colour in enumerate(("good", "adversarial 1")):
        same, empty = (float(learned.theta[name][0, head]) for name in ("same", "empty"))
        label = f"same state ${same:.1f}$, empty token ${empty:.1f}$"
        table = learned.theta["positions"][0][head]
        right.plot(range(-3, 4), table, "o-", color=plotting.COLOURS[colour], label=label)
    right.set(xlabel="key minus query", ylabel="logit")
    right.legend(fontsize=9)


def hardness_figure(found: xr.Dataset, examples: int):
    """Log evidence per example and accuracy against the hardness, by width."""
    _, panels = plotting.new_figure(2, 1, figsize=(5.2, 5.6), sharex=True)
    for width in found.width.values:
        for panel, values in zip(panels, (found.hardness_evidence / examples, found.hardness_accuracy), strict=True):
            plotting.against_width(
                HARDNESSES,
                values.sel(width=width).values,
                label=_name(width),
                colour=_COLOURS.get(width, "denoising"),
                axes=panel,
            )
    for panel, name in zip(panels, ("log evidence per example", "test accuracy"), strict=True):
        panel.axvline(10, color="0.6", linestyle=":")
        panel.set(xlabel=r"hardness $\beta$", ylabel=name)
    panels[0].legend()


def by_hardness(found: xr.Dataset, width: float) -> dict[str, np.ndarray]:
    """Accuracy in each draw at the evidence's hardness, at the paper's, and at the best on test data."""
    one = found.sel(width=width)
    return {
        "chosen": one.hardness_accuracy.isel(hardness=one.hardness_evidence.argmax("hardness")).values,
        "paper": one.hardness_accuracy.sel(hardness=10.0).values,
        "best": one.hardness_accuracy.max("hardness").values,
    }


def table(found: xr.Dataset):
    """Markdown table of chances and accuracies by width."""
    heads = ["", "successes", "chance (95 %)", "accuracy of successes", "designed heads"]
    rows = []
    for width in found.width.values:
        count, climbs, (low, high) = chance(found, width)
        mean, fixed = np.nanmean(of_successes(found, width)), designed(found, width).mean()
        chances = f"{count} of {climbs}", f"{low:.2f} to {high:.2f}"
        rows.append((_name(width), *chances, f"{mean:.3f}", f"{fixed:.3f}"))
    return tables.table(heads, rows)


def hardness_gains(found: xr.Dataset, each: str) -> dict[float, dict[str, Difference]]:
    """Gains in log evidence and accuracy of one hardness per layer or head over one for all, by width."""
    return {
        width: {
            name: difference(*(found[f"each_{name}"].sel(width=width, each=one).values for one in (each, "one")))
            for name in ("evidence", "accuracy")
        }
        for width in found.width.values
    }


def hardness_verdict(gain: Difference) -> str:
    """Outcome of the claim that layers or heads need hardnesses of their own, from the gain in accuracy."""
    if gain.mean > gain.within:
        return "holds"
    return "fails" if abs(gain.mean) + gain.within < 0.01 or gain.mean < -gain.within else "stays open"


def hardness_table(found: xr.Dataset):
    """Markdown table of learned hardnesses, means of logarithms, and of gains, by width."""
    heads = ["", "one for", "designed head", "random, layer 1", "random, layer 2", "gain, nats", "gain in accuracy"]
    rows = []
    for width in found.width.values:
        means = np.exp(np.log(found.each_hardness.sel(width=width)).mean("draw"))
        for each in found.each.values:
            layers = means.sel(each=each).transpose("layer", "head").values
            cells = [f"{one:.3g}" for one in (layers[0, 0], layers[0, 1], layers[1, 1])]
            if each == "one":
                rows.append((_name(width), "all", *cells, "", ""))
                continue
            gain = hardness_gains(found, each)[width]
            nats = f"{gain['evidence'].mean:+.1f} ± {gain['evidence'].within:.1f}".replace("-", "−")
            rows.append((_name(width), f"each {each}", *cells, nats, str(gain["accuracy"])))
    return tables.table(heads, rows)


def sampled(found: xr.Dataset, family: str, labels: int) -> dict[str, float]:
    """Accuracy, score and temperature of the kept chain and of the maximum, and its log evidence before and after."""
    one = found.sel(family=family, labels=labels)
    best = one.isel(chain=int(one.sampled_density.argmax("chain")))
    values = {name: float(best[f"sampled_{name}"]) for name in ("accuracy", "score", "heat")}
    values |= {f"maximum_{name}": float(one[f"maximum_{name}"]) for name in ("accuracy", "score", "heat")}
    return values | dict(zip(("before", "after"), one.maximum_evidence.values, strict=True))


def sampled_table(found: xr.Dataset):
    """Markdown table of both families: accuracy, log density per label and temperature of maximum and posterior."""
    heads = [
        "",
        "accuracy, maximum",
        "posterior mean",
        "nats per label, maximum",
        "posterior",
        "$T$, maximum",
        "posterior",
    ]
    names = {FAMILIES[0]: "queries and keys, 640", FAMILIES[1]: "positions and states, 36"}
    rows = []
    for family, name in names.items():
        one = sampled(found, family, found.labels.values[-1])
        kinds = {"accuracy": ".3f", "score": ".4g", "heat": ".2g"}
        cells = (f"{one[which + kind]:{digits}}" for kind, digits in kinds.items() for which in ("maximum_", ""))
        rows.append((name, *(cell.replace("-", "−") for cell in cells)))
    return tables.table(heads, rows)


def favoured(found: xr.Dataset) -> tuple[float, dict[int, float]]:
    """Log evidence of positions minus that of queries and keys, of all labels given the first of `labels`.

    By the chain rule it adds up the scores of the next label, here averaged over test labels and
    interpolated between the numbers of labels; also returns the difference of scores at each.
    """
    apart = {}
    for count in found.labels.values:
        many, few = (sampled(found, family, count)["score"] for family in FAMILIES)
        apart[int(count)] = few - many
    return float(np.trapezoid([*apart.values()], found.labels.values)), apart


def _name(width: float) -> str:
    return f"$N$ = {width:g}" if np.isfinite(width) else "limit"
