"""Whether a recorded experiment still stands, and if not, why."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statmech_attention import results
from statmech_attention.experiments._files import digest, experiment_file
from statmech_attention.experiments._kinds import PLAIN


def reason_to_run(experiment: str, folder: str | os.PathLike, parameters: Mapping[str, Any]) -> str:
    """Why an experiment has to be run, in a few words; empty where its record stands.

    A record stands if its parameters, the code that it rests on and the numbers of the network and the theory that it
    was computed from are what they are now. When files were written does not count.

    Args:
        experiment: as for `experiment_file`.
        folder: of the results.
        parameters: of the experiment, as its notebook takes them, `layers`, `heads` and `seed` among them, and `kind`
            where it is not "heads"; what the record does not keep is passed over.

    Returns:
        A text.
    """
    network = [*(parameters[name] for name in ("layers", "heads", "seed")), parameters.get("kind", PLAIN)]
    sources = {source: experiment_file(source, folder, *network) for source in ("network", "theory")}
    return reason_to_remake(experiment_file(experiment, folder, *network), parameters, sources)


def reason_to_remake(path: str | os.PathLike, parameters: Mapping[str, Any], sources: Mapping[str, Path]) -> str:
    """Why the record in a file has to be made, in a few words; empty where it stands.

    Args:
        path: the file.
        parameters: of the experiment; what the record does not keep is passed over.
        sources: by name the records that it may have been computed from.

    Returns:
        A text.
    """
    try:
        kept = results.record(path)["parameters"]
    except FileNotFoundError:
        return "not there"
    except ValueError:
        return "damaged"
    for name, value in parameters.items():
        if name in kept and _plain(kept[name]) != _plain(value):
            return f"{name} was {kept[name]}"
    for name, used in sources.items():
        if name in kept and (not used.is_file() or digest(used) != kept[name]):
            return f"another {name}"
    return "" if results.is_current(path, kept) else "the code changed"


def _plain(value: Any) -> Any:
    """Lists are sorted when they are recorded, and whole numbers among them become floats."""
    return sorted(map(float, value)) if isinstance(value, list | tuple) else value
