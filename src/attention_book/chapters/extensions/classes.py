"""Several classes: hidden Markov chains of C classes, the silent output, networks trained by gradient descent."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import helmert

import statmech_attention as sma
from attention_book import plotting
from attention_book.temperatures import compare


class Classes:
    """Draws of the task, and what the theory makes of them with C - 1 outputs."""

    def __init__(self, classes: int, seed: int, draws: int, examples: int, test_examples: int):
        self.classes, self.examples = classes, examples
        self.task = sma.tasks.HiddenMarkov(classes=classes, token_size=210 // classes * classes)
        *self.keys, self.example_key = jax.random.split(jax.random.key(seed), draws + 1)
        self.basis = jnp.asarray(helmert(classes))  # B: orthonormal, rows sum to zero
        outputs = sma.Outputs(classes)
        self.trials = []
        for trial in (self.task.trial(key, examples, test_examples) for key in self.keys):
            seen = {name: getattr(trial, name) for name in ("train", "test")}
            seen = {name: sma.AttentionedInputs(one.values, (*one.layers, outputs)) for name, one in seen.items()}
            self.trials.append(trial._replace(**seen))
        self.layers = self.trials[0].train.layers
        self.networks = {  # heads that are kept in layer 1 and in layer 2
            "all paths": (tuple(range(classes)), (0, 1)),
            "good + denoising": (tuple(range(classes)), (0,)),
        }

    def fewer(self, trial):
        """The same data for the network of C - 1 outputs."""
        several = self.classes > 2
        layers = (*trial.train.layers[:-1], *([sma.Outputs(self.classes - 1)] if several else []))
        labels = (trial.labels @ self.basis.T).reshape(len(trial.labels), *([self.classes - 1] if several else []))
        train, test = (sma.AttentionedInputs(part.values, layers) for part in (trial.train, trial.test))
        return trial._replace(train=train, test=test, labels=labels)

    def outputs_of(self, mean):
        """The C outputs from C - 1."""
        return mean.reshape(len(mean), self.classes - 1) @ self.basis

    def accuracy(self, mean, labels):
        """Accuracy of C - 1 outputs."""
        return sma.accuracy(self.outputs_of(mean), labels)

    def together(self, part, rest):
        """(Z3): the order parameter of C outputs from that of C - 1 and that of the silent one."""
        part, rest = np.atleast_2d(part), np.atleast_2d(rest)
        rows = np.kron(np.eye(len(rest)), self.basis)
        return rows.T @ part @ rows + np.kron(rest, np.full((self.classes,) * 2, 1 / self.classes))

    def silent(self, trial, **numbers):
        """Saddle point of the silent output."""
        problem = sma.Problem(trial.train.values, jnp.zeros(self.examples), layers=self.layers[:-1], **numbers)
        return sma.solve(problem)

    def theory(self, widths, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        """Accuracies `(draws, widths)`, and order parameters of C - 1 outputs."""
        accuracies, overlaps = [], []
        for trial in self.trials:
            seen = self.fewer(trial)
            problem = sma.Problem(seen.train, seen.labels)
            sweep = sma.solve_sweep(problem, widths=widths, temperatures=[temperature])[:, 0]
            means = sweep.predict(seen.test).mean
            accuracies.append([float(self.accuracy(mean, trial.test_labels)) for mean in means])
            overlaps.append(np.asarray(sweep.order_parameter))
        return np.array(accuracies), np.array(overlaps)

    def kept(self, network: str) -> list:
        """The draws for a network with only some of the heads."""
        heads, trials = self.networks[network], self.trials
        seen = [one._replace(train=one.train.keep_heads(heads), test=one.test.keep_heads(heads)) for one in trials]
        return [self.fewer(one) for one in seen]

    def limit(self, network: str, temperature: float) -> np.ndarray:
        """Accuracies of the Gaussian-process limit of a network."""
        found = []
        for seen in self.kept(network):
            equal = sma.theory.gp_order_parameters(seen.train.layers)[0]
            problem = sma.Problem(seen.train, seen.labels, temperature=temperature)
            found.append(
                float(self.accuracy(sma.kernel_regression(problem, equal).predict(seen.test).mean, seen.test_labels))
            )
        return np.array(found)

    def compared(self, width: float, temperatures) -> dict:
        """Comparisons over temperature, by network."""
        options = {"width": width, "temperatures": temperatures, "accuracy": self.accuracy}
        return {name: compare(self.kept(name), **options) for name in self.networks}

    def trained(self, widths, temperature: float, steps: int):
        """Accuracies of trained networks `(draws, widths)`, which are not zero, and the first draw's networks."""
        right, alive = np.zeros((2, len(self.trials), len(widths)))
        firsts: dict = {}
        for row, (trial, key) in enumerate(zip(self.trials, self.keys, strict=True)):
            for column, width in enumerate(widths):
                problem = sma.Problem(trial.train, trial.labels, width=width, temperature=temperature)
                network = sma.training.train_weights(problem, steps=steps, key=jax.random.fold_in(key, 1)).weights
                firsts.setdefault(width, network)
                outputs = sma.model.forward_paths(network, trial.test)
                right[row, column] = sma.accuracy(outputs, trial.test_labels)
                alive[row, column] = float(jnp.abs(outputs).max()) > 1e-3
        return right, alive, firsts

    def split(self, width: float, temperature: float):
        """Error of (Z3) at one width, and the saddle point of C outputs."""
        trial = self.trials[0]
        numbers: dict[str, Any] = {"width": width, "temperature": temperature}
        full = sma.solve(sma.Problem(trial.train, trial.labels, **numbers))
        seen = self.fewer(trial)
        small, silent = sma.solve(sma.Problem(seen.train, seen.labels, **numbers)), self.silent(trial, **numbers)
        errors = [float(jnp.abs(full.predict(trial.test).mean.sum(axis=1)).max())]
        for whole, *parts in zip(full.order_parameters, small.order_parameters, silent.order_parameters, strict=True):
            errors.append(float(np.abs(whole - self.together(*parts)).max()))
        return max(errors), full

    def covariance(self, order_parameter, few, temperature: float):
        """(Z4) on some test examples, `(examples, outputs, outputs)`."""
        train, classes = self.trials[0].train, self.classes
        gram = sma.kernel(train, train, order_parameter).reshape(self.examples * classes, -1)
        across = sma.kernel(train, few, order_parameter).reshape(self.examples * classes, -1)
        own = jnp.einsum("mcmd->mcd", sma.kernel(few, few, order_parameter))
        solved = jnp.linalg.solve(gram + temperature * jnp.eye(len(gram)), across)
        rows, columns = (one.reshape(-1, len(few.values), classes) for one in (across, solved))
        return own - jnp.einsum("rmc,rmd->mcd", rows, columns)

    def sure(self, full, temperature: float) -> tuple[float, float]:
        """Error of (Z4), and the mean correlation of two outputs on the first test examples."""
        few = sma.AttentionedInputs(self.trials[0].test.values[:50], self.layers)
        found = self.covariance(full.order_parameter, few, temperature)
        # The variance of a difference is that of an output after a rotation, with second row (1, -1, 0, ..).
        turn = helmert(self.classes, full=True)
        turned = np.kron(np.eye(len(full.order_parameter) // self.classes), turn)
        given = sma.Problem(self.trials[0].train, self.trials[0].labels @ turn.T, temperature=temperature)
        rotated = sma.kernel_regression(given, turned @ full.order_parameter @ turned.T).predict(few).variance[:, 1]
        difference = found[:, 0, 0] + found[:, 1, 1] - 2 * found[:, 0, 1]
        size = jnp.sqrt(jnp.einsum("mcc->mc", found))
        correlations = (found / (size[:, :, None] * size[:, None, :]))[:, ~np.eye(self.classes, dtype=bool)]
        errors = difference - 2 * rotated, jnp.einsum("mcc->mc", found) - full.predict(few).variance
        return max(float(jnp.abs(one).max()) for one in errors), float(correlations.mean())

    def padded(self, network, width: int) -> float:
        """Error of (Z5): a trained network, and a wider one that is the same function with zeros for new neurons."""
        wider, few = width + 7, sma.AttentionedInputs(self.trials[0].test.values[:50], self.layers)
        like = sma.sample_weights(self.keys[0], layers=self.layers, width=wider, features=self.task.features)

        def pad(leaf, shape):
            grown = [(0, new - old) for old, new in zip(leaf.shape, shape.shape, strict=True)]
            return (wider / width) ** (3 / 8) * jnp.pad(leaf, grown)  # L = 2

        one, other = (sma.model.forward_paths(w, few) for w in (jax.tree.map(pad, network, like), network))
        return float(jnp.abs(one - other).max())

    def whole(self, overlaps, width: float, temperature: float) -> np.ndarray:
        """Order parameters `(draws, rows, rows)` of C outputs at a width."""
        numbers = {"width": width, "temperature": temperature}
        silents = [self.silent(trial, **numbers).order_parameter for trial in self.trials]
        return np.array([self.together(one, rest) for one, rest in zip(overlaps, silents, strict=True)])

    def weights(self, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (traces over classes) of paths, `(draws, paths)`; leading eigenvalue's share of good paths."""
        paths = whole.shape[1] // self.classes
        diagonal = np.einsum("dpcpe->dpce", whole.reshape(len(whole), paths, self.classes, paths, self.classes))
        spectra = np.linalg.eigvalsh(diagonal[:, : 2 * (self.classes - 1) : 2])
        return np.einsum("dpcc->dp", diagonal), (spectra[..., -1] / spectra.sum(axis=-1)).mean(axis=1)


def accuracy_drawn(found: Classes, ceiling: float, temperature: float, theory, limits, trained) -> None:
    """Accuracy against width; `theory` and `trained` are (widths, accuracies)."""
    _, axes = plotting.new_figure(figsize=(5.6, 4.0))
    axes.axhline(ceiling, color="0.5", linewidth=1, label="best possible")
    axes.axhline(1 / found.classes, color="0.5", linewidth=1, linestyle=":", label="chance")
    for (name, rows), style in zip(limits.items(), ("-", ":"), strict=True):
        plotting.reference_line(rows, label=f"GP limit, {name}", style=style, axes=axes)
    plotting.against_width(*theory, label="theory, all paths", axes=axes)
    plotting.against_width(*trained, label="gradient descent", colour="descent", style="D-", axes=axes)
    axes.set(ylabel="test accuracy", title="")
    plotting.legend_above(axes)
