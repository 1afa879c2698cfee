"""Recorded evidence lost: the numbers of the solver called directly; done once, resumed, refused."""

import jax
import numpy as np
import pytest
import xarray as xr

import statmech_attention as sma
from attention_book import results
from attention_book.experiments import evidence_lost as module
from statmech_attention import pruning

from .conftest import network_in

SETTINGS = dict(layers=2, heads=2, draws=2, widths=(300, 10))
TEMPERATURES = np.array([[0.05, 0.5, 0.1], [0.05, 0.1, 0.5]])  # by draw and width


def sources_in(folder, seed=7, network_digest=None):
    """A network that was not trained, and of the theory on it what the run reads."""
    network = network_in(folder, (2, 2), seed)
    dataset = xr.Dataset(
        {"best_temperature": (("draw", "width"), TEMPERATURES)}, coords={"draw": [0, 1], "width": [10.0, 20.0, 300.0]}
    )
    made = {"draws": 2, "widths": [10.0, 20.0, 300.0], "examples": 30}
    inputs = {"network": network_digest or results.digest(folder / "network-2x2-seed0.nc")}
    results.save(dataset, folder / "theory-2x2-seed0.nc", parameters=made, inputs=inputs)
    return network


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evidence")


@pytest.fixture(scope="module")
def recorded(folder, small):
    network = sources_in(folder)
    path = small("EvidenceLost", folder, **SETTINGS).run(progress=False)
    return path, results.load(path), network


@pytest.fixture
def counted(monkeypatch):
    calls, original = [], module.head_evidence

    def counting(*arguments, **options):
        calls.append(options["width"])
        return original(*arguments, **options)

    monkeypatch.setattr(module, "head_evidence", counting)
    return calls


def test_every_number_is_that_of_the_solver(recorded, suite):
    path, found, network = recorded
    assert path.name == "evidence-2x2-seed0.nc" and found["width"].values.tolist() == [10, 300]
    assert found["lost"].dims == ("draw", "width", "coefficients", "head")
    assert found["head_layer"].values.tolist() == [1, 1, 2, 2] and found["head_number"].values.tolist() == [1, 2, 1, 2]
    for number in range(2):
        # The theory's sequences, drawn as it draws them.
        key = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 3)[0]
        train = suite.train(key, 30)
        xi = sma.attentioned_inputs(train.inputs, network.attention, readout="mean")
        for place, width in ((0, 10.0), (2, 300.0)):
            temperature = TEMPERATURES[number, place]
            here = found.sel(draw=number, width=width)
            assert here["temperature"] == temperature
            whole = sma.solve(xi, train.labels, width=width, temperature=temperature)
            np.testing.assert_allclose(here["action"], whole.action, rtol=1e-8)
            np.testing.assert_allclose(here["log_evidence"], pruning.log_evidence(whole), rtol=1e-8)
            for coefficients in pruning.COEFFICIENTS:
                for head in range(4):
                    less = pruning.without_head(xi, head, coefficients=coefficients)
                    one = sma.solve(less, train.labels, width=width, temperature=temperature)
                    lost = pruning.log_evidence(whole) - pruning.log_evidence(one)
                    np.testing.assert_allclose(here["lost"].sel(coefficients=coefficients)[head], lost, atol=1e-6)
    assert (found["outcome"] == 0).all() and (found["whole_outcome"] == 0).all()
    assert (found["gradient_norm"] < 1e-6).all() and (found["steps"] > 0).any()


def test_it_is_done_once_and_again_when_network_or_theory_change(recorded, folder, small, counted, tmp_path):
    assert small("EvidenceLost", folder, **SETTINGS).run() == recorded[0] and not counted
    sources_in(tmp_path, seed=12)
    (tmp_path / recorded[0].name).write_bytes(recorded[0].read_bytes())
    small("EvidenceLost", tmp_path, **{**SETTINGS, "draws": 1, "widths": (300,)}).run(progress=False)
    assert counted == [300, 300]
    record = results.record(tmp_path / recorded[0].name)
    assert record["maker"] == "evidence" and record["seed"] == 0
    assert record["inputs"]["theory"] == results.digest(tmp_path / "theory-2x2-seed0.nc")


def test_a_loss_computed_again_tells_another_solver(recorded, folder, small, monkeypatch):
    lost = small("EvidenceLost", folder, **SETTINGS)
    again = lost.again()
    assert again.what == "what head 1 of layer 1 is worth at N = 10" and again.difference < again.tolerance
    solve = module.solve
    monkeypatch.setattr(module, "solve", lambda *data, **options: solve(*data, **options, variance=1.001))
    assert lost.again().difference > again.tolerance


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, small, tmp_path, monkeypatch):
    _, whole, _ = recorded
    sources_in(tmp_path)
    original, calls = module.head_evidence, []

    def killed_at_the_fourth(*arguments, **options):
        calls.append(options["width"])
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, "head_evidence", killed_at_the_fourth)
        with pytest.raises(KeyboardInterrupt):
            small("EvidenceLost", tmp_path, **SETTINGS).run(progress=False)
    assert not (tmp_path / "evidence-2x2-seed0.nc").exists()
    monkeypatch.setattr(
        module, "head_evidence", lambda *a, **options: calls.append(options["width"]) or original(*a, **options)
    )
    found = results.load(small("EvidenceLost", tmp_path, **SETTINGS).run(progress=False))
    # The first width was whole; of the second one half was lost, and the second draw was to come.
    assert calls == [10, 10, 300, 300, 300, 300, 10, 10, 300, 300]
    for name in set(whole) - {"seconds"}:
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-9, atol=1e-9)
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == [
        "evidence-2x2-seed0.nc",
        "network-2x2-seed0.nc",
        "theory-2x2-seed0.nc",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 1}, "heads: wanted at least 2"),
        ({"draws": 0}, "draws: wanted a whole number of at least 1"),
        ({"draws": 3}, "draws: wanted at most the theory's 2, got 3"),
        ({"widths": ()}, "widths: wanted different positive numbers"),
        ({"widths": (10, 10)}, "widths: wanted different positive numbers"),
        ({"widths": (np.inf,)}, "widths: wanted different positive numbers"),
        ({"widths": (10, 50)}, r"widths: wanted some of the theory's, .*got also \[50.0\]"),
    ],
)
def test_what_the_theory_has_not_is_refused(recorded, folder, small, counted, changes, message):
    with pytest.raises(ValueError, match=message):
        small("EvidenceLost", folder, **{**SETTINGS, **changes}).run()
    assert not counted


def test_what_is_missing_or_does_not_fit_is_said(small, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"network-2x2-seed0\.nc: no recorded result"):
        small("EvidenceLost", tmp_path, **SETTINGS).run()
    sources_in(tmp_path, network_digest="of another one")
    with pytest.raises(ValueError, match=r"theory-2x2-seed0\.nc: the theory of another network"):
        small("EvidenceLost", tmp_path, **SETTINGS).run()
    (tmp_path / "theory-2x2-seed0.nc").unlink()
    with pytest.raises(FileNotFoundError, match=r"theory-2x2-seed0\.nc: no recorded result"):
        small("EvidenceLost", tmp_path, **SETTINGS).run()
