"""Tests of reading: their arithmetic, without PyTorch."""

import json
from pathlib import Path

import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.model.inputs import attended
from statmech_attention.reading.transformers_models import _check_residuals
from statmech_attention.reading.trials import TOLERANCE, Residuals, unexplained

EXAMPLES, TOKENS, WIDTH, HEADS = 8, 9, 6, 2
RNG = np.random.default_rng(0)


def matrices():
    found = RNG.exponential(size=(EXAMPLES, HEADS, TOKENS, TOKENS))
    return found / found.sum(axis=2, keepdims=True)


def summed(omega, tokens, mixers):
    """Sum over heads of M_h times the tokens that head h sees, one example and token at a time."""
    found = np.zeros((EXAMPLES, TOKENS, WIDTH))
    for example, query, head in np.ndindex(EXAMPLES, TOKENS, HEADS):
        found[example, query] += mixers[head] @ (tokens[example].T @ omega[example, head, :, query])
    return found


def test_a_sum_over_heads_is_explained_and_a_gate_or_a_router_is_not():
    omega, counted = matrices(), np.ones((EXAMPLES, TOKENS), bool)
    sizes, mixers = RNG.normal(size=(EXAMPLES, TOKENS, 2)), RNG.normal(size=(HEADS, WIDTH, WIDTH))
    tokens, first = sizes @ RNG.normal(size=(2, WIDTH)), sizes[..., :1]
    counted[:, -1] = False
    whole = summed(omega, tokens, mixers) + RNG.normal(size=WIDTH)
    whole[:, -1] = 1e3  # padding
    assert unexplained(omega, sizes, whole, counted)[0] < 1e-12
    assert unexplained(0.5 * omega, sizes, whole, counted)[0] < 1e-12  # a sink, whose sums are below one
    assert unexplained(omega, sizes, whole / (1 + np.exp(-0.1 * first)), counted)[0] > 1e-3
    even = 1 + 0.1 * first**2 / (sizes**2).sum(axis=-1, keepdims=True)  # the same along each direction
    assert unexplained(omega, sizes, whole * even, counted)[0] > 1e-3
    routed = np.where(first > 0, whole, summed(omega, tokens, mixers[::-1]))
    assert unexplained(omega, sizes, routed, counted)[0] > 0.1
    assert unexplained(omega, sizes, whole + tokens, counted)[0] > 0.1
    assert unexplained(omega, sizes, whole + tokens, counted, skip=True)[0] < 1e-12
    assert unexplained(omega * np.nan, sizes, whole, counted)[0] == np.inf


def test_a_bias_is_explained_where_the_sums_of_matrices_differ():
    omega = matrices() * RNG.uniform(0.2, 0.9, size=(EXAMPLES, HEADS, 1, TOKENS))
    sizes, counted = RNG.normal(size=(EXAMPLES, TOKENS, 1)), np.ones((EXAMPLES, TOKENS), bool)
    whole = summed(omega, sizes * RNG.normal(size=WIDTH), RNG.normal(size=(HEADS, WIDTH, WIDTH)))
    of_values = np.einsum("ehst,hf->etf", omega, RNG.normal(size=(HEADS, WIDTH)))
    for bias in (RNG.normal(size=WIDTH), of_values):
        assert unexplained(omega, sizes, whole + bias, counted)[0] < 1e-12


def test_noise_is_not_explained_by_fitting_it():
    sizes, counted = RNG.normal(size=(EXAMPLES, TOKENS, 1)), np.ones((EXAMPLES, TOKENS), bool)
    noise = RNG.normal(size=(EXAMPLES, TOKENS, WIDTH))
    assert unexplained(matrices(), sizes, noise, counted)[0] > 1  # a fit is judged on tokens that it has not seen


def test_heads_beside_each_other_are_told_from_their_sum():
    omega, counted = matrices(), np.ones((EXAMPLES, TOKENS), bool)
    sizes, mixers = RNG.normal(size=(EXAMPLES, TOKENS, 2)), RNG.normal(size=(HEADS, WIDTH, WIDTH))
    tokens = sizes @ RNG.normal(size=(2, WIDTH))
    assert not unexplained(omega, sizes, summed(omega, tokens, mixers), counted)[1]
    for head, rows in enumerate(np.split(np.arange(WIDTH), HEADS)):
        mixers[head, np.setdiff1d(np.arange(WIDTH), rows)] = 0
    assert unexplained(omega, sizes, summed(omega, tokens, mixers), counted)[1]


def test_padding_is_what_no_query_attends_to():
    omega = matrices()
    omega[:3, :, 5:] = 0
    np.testing.assert_array_equal(attended([omega]).sum(axis=1), [5, 5, 5, 9, 9, 9, 9, 9])
    assert attended([omega, matrices()]).all()


def test_matrices_behind_a_sink_are_taken_with_sums_below_one():
    omega, tokens = 0.6 * matrices(), RNG.normal(size=(EXAMPLES, TOKENS, WIDTH))
    seen = sma.attentioned_inputs(sma.model.ReadAttention(tokens, (omega,), None), readout="last").values
    np.testing.assert_allclose(seen, np.einsum("ehs,esf->ehf", omega[..., -1], tokens), rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "heads", "tokens", "message"),
    [
        (1e-3, 0.0, 0.0, r"0\.1 % of the output of attention 2 unexplained"),
        (0.0, 1e-3, 0.0, r"0\.1 % of the output of attention 2 unexplained"),
        (0.0, 0.0, 1e-3, r"0\.1 % of what comes from attention 1 carried to other tokens"),
        (0.0, 0.0, np.inf, "other tokens, or none, behind attention 1"),
    ],
)
def test_each_of_the_three_tests_alone_refuses_a_model(values, heads, tokens, message):
    with pytest.raises(ValueError, match=message):
        _check_residuals(Residuals(2, values, heads, tokens))
    _check_residuals(Residuals(2, TOLERANCE, TOLERANCE, TOLERANCE))


def test_the_table_of_models_agrees_with_its_residuals():
    record = json.loads((Path(__file__).parents[2] / "results/reading.json").read_text(), parse_constant=pytest.fail)
    rows = record["models"]
    read = [row for row in rows if row["outcome"] == "read"]
    assert len(rows) >= 40 and {row["kind"] for row in rows} == {"encoder", "decoder", "vision", "speech", "hybrid"}
    assert all(max(row[one] for one in ("values", "heads", "tokens")) < TOLERANCE for row in read)
    others = [row for row in rows if row["outcome"] != "read" and "values" in row]
    assert others and all(max(row[one] for one in ("values", "heads", "tokens")) > TOLERANCE for row in others)
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert f"torch=={record['torch']} transformers=={record['transformers']}" in makefile
