"""The calculators of the pages against the library."""

import asyncio
import json
import re
import shutil
import subprocess
from importlib import resources

import browse
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.pages import live
from attention_book.pages.live.language import KIND, WORDS
from statmech_attention.model import AttentionedInputs

POINTS = [
    (width, temperature, heads)
    for width, temperature in [(3, 1.0), (10, 0.01), (30, 0.1), (300, 0.003), (jnp.inf, 0.01)]
    for heads in [((0, 1), (0, 1)), ((0, 1), (0,)), ((1,), (0, 1)), ((0,), (0,))]
]
ALL = (0, 1, 2), (0, 1, 2)
SENTENCES = [  # number of sentences, width, temperature, heads
    (60, 10, 0.1, ALL),
    (60, jnp.inf, 0.1, ALL),
    (20, 5, 0.03, ALL),
    (120, 30, 1.0, ALL),
    (60, 10, 0.1, ((0, 1, 2), (0, 2))),
    (90, 5, 0.3, ((1, 2), (0, 1))),
    (60, 10, 0.03, ((0,), (0, 1))),
]
READ = """
const found = POINTS.map(([examples, width, temperature, heads]) => (
  solveNetwork(fewer(task, examples), { width: width ?? Infinity, temperature, heads })));
console.log(JSON.stringify(found.map(({ U, evidence, outputs }) => ({ U, evidence, outputs }))));
"""
SOLVE = """
const found = POINTS.map(([width, temperature, heads]) =>
  solveNetwork(task, { width: width ?? Infinity, temperature, heads }));
console.log(JSON.stringify(found.map(({ U, accuracy }) => ({ U, accuracy }))));
"""


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def from_node(page, name, scripts, points, ask):
    """What `ask` prints in Node, given the data and the scripts of a calculator, and the points."""
    data = page.html.partition(f"const {name} = ")[2].partition(";\n")[0]
    folder = resources.files("attention_book.pages.live")
    points = [[None if part == jnp.inf else part for part in point] for point in points]
    sources = "\n".join((folder / f"{one}.js").read_text() for one in scripts)
    load = "loadTask" if name == "TASK" else "loadLanguage"
    program = f"{sources}\nconst task = {load}({data}), POINTS = {json.dumps(points)};\n{ask}"
    answer = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


@needs_node
def test_javascript_of_the_calculator_solves_what_the_library_solves():
    trial = sma.tasks.HiddenMarkov().trial(60, 200, key=jax.random.key(5))
    answers = from_node(live.calculator(trial), "TASK", ["saddle_point"], POINTS, SOLVE)
    trial = live.rounded(trial)
    for (width, temperature, heads), found in zip(POINTS, answers, strict=True):
        problem = sma.Problem(trial.train.keep_heads(heads), trial.labels, width=width, temperature=temperature)
        solution = sma.solve(problem)
        np.testing.assert_allclose(found["U"], solution.order_parameter, rtol=1e-5, atol=1e-5)
        mean = solution.predict(trial.test.keep_heads(heads)).mean
        assert abs(found["accuracy"] - sma.accuracy(mean, trial.test_labels)) <= 0.5 / len(mean)


def test_inputs_of_the_calculator_are_rounded_by_half_a_level():
    trial = sma.tasks.HiddenMarkov().trial(10, 10, key=jax.random.key(5))
    apart = live.rounded(trial).train.values - trial.train.values
    assert 0 < jnp.abs(apart).max() <= jnp.abs(trial.train.values).max() / 2 / 127


@pytest.fixture(scope="module")
def toy():
    return live.language()


@pytest.fixture(scope="module")
def transformer(toy):
    return live.transformer(toy, plt.figure(figsize=(1, 1)))


@pytest.mark.slow
@needs_node
def test_javascript_reads_sentences_and_solves_their_theory_as_the_library_does(toy, transformer):
    train, test = toy.seen(toy.train), toy.seen(toy.test)
    answers = from_node(transformer, "LANGUAGE", ["saddle_point", "attend"], SENTENCES, READ)
    for (examples, width, temperature, heads), found in zip(SENTENCES, answers, strict=True):
        seen = AttentionedInputs(train.values[:examples], train.chain).keep_heads(heads)
        solution = sma.solve(sma.Problem(seen, toy.labels[:examples], width=width, temperature=temperature))
        np.testing.assert_allclose(found["U"], solution.order_parameter, rtol=1e-6, atol=1e-6)
        assert found["evidence"] == pytest.approx(float(sma.log_evidence(solution)), abs=1e-6)
        mean = solution.predict(test.keep_heads(heads)).mean
        np.testing.assert_allclose(found["outputs"], mean, rtol=0, atol=1e-6)


def test_calculator_of_sentences_is_small_and_has_a_still_figure(transformer):
    before, still, after = re.split(r'(<img class="still"[^>]*>)', transformer.html)
    assert "data:image/svg+xml;base64," in still
    assert len((before + after).encode()) < 40_000


def test_label_of_a_sentence_is_that_of_the_word_before_the_noun_that_is_asked_for(toy):
    for words, label in zip(toy.train, toy.labels, strict=True):
        names = [WORDS[word] for word in words]
        first = names.index(names[-1])
        assert first < len(names) - 1 and (names[first - 1] in KIND) == (label > 0)


def test_head_for_the_same_word_sees_it_e_times_as_much_as_another(toy):
    """Path 1→1 of a sentence by hand: the adjective asked for, the others, and the word before the last."""
    words = toy.train[0]
    first = list(words).index(words[-1])
    same, other = np.e / (2 * np.e + 8), 1 / (2 * np.e + 8)
    near, far = np.exp(5) / (np.exp(5) + 9), 1 / (np.exp(5) + 9)  # one back; from the first word it sees all alike
    weights = np.zeros(len(WORDS))
    for place in range(1, 10):
        share = same if place in (first, 9) else other
        for key in range(10):
            weights[words[key]] += share * (near if key == place - 1 else far)
    np.add.at(weights, words, other / 10)
    np.testing.assert_allclose(toy.seen(toy.train[:1]).values[0, 0], len(WORDS) ** 0.5 * weights, rtol=1e-12)


def test_calculator_of_sentences_answers_in_a_browser(transformer, tmp_path):
    """Switching a head off by the keyboard moves what is said and the number of the text beside."""
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html>{transformer.html}<p><i data-sentences=all>none</i></p>")

    async def seen():
        async with browse.chromium() as browser:
            page = await browser.new_page()
            await page.goto((tmp_path / "page.html").as_uri())
            await page.wait_for_function("document.querySelector('[data-sentences]').textContent !== 'none'")
            said = [await page.inner_text("[role=status]")]
            await page.focus("input[value='0,0']")
            await page.keyboard.press("Space")
            said.append(await page.inner_text("[role=status]"))
            return said, await page.inner_text("[data-sentences]"), await page.locator(".still").count()

    try:
        (before, after), beside, stills = asyncio.run(seen())
    except browse.Unavailable as reason:
        pytest.skip(str(reason))
    assert before.startswith("97.3 % of 400") and after.startswith("63.5 % of 400")
    assert beside == "0.97" and stills == 0
