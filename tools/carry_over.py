"""Write the records of hashed code in the new form, once: the same numbers, with revision 1, inputs apart from parameters.

Samples get the opening, and benchmarks the checksum, that `make verify` computes again, drawn by today's code.

    python tools/carry_over.py OLD_FOLDER NEW_FOLDER
"""

import json
import sys
from pathlib import Path

import xarray as xr

import statmech_attention as sma

sma.enable_x64()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.checksums import CHECKSUMS  # noqa: E402
from statmech_attention import results  # noqa: E402
from statmech_attention.experiments import EXPERIMENTS  # noqa: E402
from statmech_attention.results import store  # noqa: E402

MAKERS = {
    "experiments.trained": "network",
    "experiments.theory": "theory",
    "experiments.pruning": "pruning",
    "experiments.evidence_lost": "evidence",
    "experiments.one_shot_sampling": "samples",
    "experiments.sampling": "hidden Markov weights",
    "experiments.dynamics": "diagram",
}
BENCHMARKS = {
    "benchmarks": "benchmark of the minimisers",
    "benchmarks_dmft": "benchmark of the dynamics",
    "benchmarks_sampling": "benchmark of the samplers",
}


def main(old: Path, new: Path) -> None:
    for path in sorted(old.rglob("*.nc")):
        target = new / path.relative_to(old)
        if target.is_file() and "revision" in results.record(target):
            continue
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
        parameters, facts = (json.loads(dataset.attrs.pop(name)) for name in ("parameters", "provenance"))
        before = store.digest(path)
        inputs = {name: parameters.pop(name) for name in ("network", "theory") if len(str(parameters.get(name))) == 16}
        modules = facts.pop("modules")
        for name in ("source", "confirmed"):
            facts.pop(name, None)
        if path.stem in BENCHMARKS:
            maker = BENCHMARKS[path.stem]
            for name in ("benchmarks", "load"):
                parameters.pop(name, None)
            found = CHECKSUMS[maker]()
            dataset["checksum"] = ([f"entry_{axis}" for axis in range(found.ndim)], found)
        else:
            maker = MAKERS[modules[0]]
            if "layers" in parameters:
                parameters.setdefault("kind", "heads")
            experiment = EXPERIMENTS[maker](folder=new / path.relative_to(old).parent, **parameters)
            assert json.loads(json.dumps(experiment.parameters)) == parameters, path
            if maker == "samples":
                sequences = experiment.draw(experiment.number)
                openings = [experiment.opening(sequences, width) for width in experiment.widths]
                dataset = dataset.merge(
                    xr.concat(openings, xr.DataArray(experiment.widths, dims="width", name="width"))
                )
            if maker == "hidden Markov weights":
                dataset = dataset.merge(experiment.opening(experiment.trial()))
        facts |= {"inputs": inputs, "revision": 1, "maker": maker}
        dataset.attrs |= {"parameters": json.dumps(parameters, sort_keys=True)}
        dataset.attrs |= {"provenance": json.dumps(facts, sort_keys=True)}
        with store.replacing(target) as temporary:
            dataset.to_netcdf(temporary, engine="h5netcdf", encoding=store._encoding(dataset))
        print(target, maker, "same digest" if store.digest(target) == before else "digest changed", flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
