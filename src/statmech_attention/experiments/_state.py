"""Whether a recorded experiment still stands, and if not, why."""

import os
from collections.abc import Mapping
from typing import Any

from statmech_attention import results
from statmech_attention.experiments._files import digest, experiment_file


def reason_to_run(kind: str, folder: str | os.PathLike, parameters: Mapping[str, Any]) -> str:
    """Why an experiment has to be run, in a few words; empty where its record stands.

    A record stands if its parameters, the code that it rests on and the numbers of the network and the theory that it
    was computed from are what they are now. When files were written does not count.

    Args:
        kind: "network", "theory" or "pruning".
        folder: of the results.
        parameters: of the experiment, as its notebook takes them, `layers`, `heads` and `seed` among them; what the
            record does not keep is passed over.

    Returns:
        A text.
    """
    path = experiment_file(kind, folder, *(parameters[name] for name in ("layers", "heads", "seed")))
    try:
        kept = results.record(path)["parameters"]
    except FileNotFoundError:
        return "not there"
    except ValueError:
        return "damaged"
    for name, value in parameters.items():
        if name in kept and _plain(kept[name]) != _plain(value):
            return f"{name} was {kept[name]}"
    for source in ("network", "theory"):
        if source in kept:
            used = experiment_file(source, folder, *(parameters[name] for name in ("layers", "heads", "seed")))
            if not used.is_file() or digest(used) != kept[source]:
                return f"another {source}"
    return "" if results.is_current(path, kept) else "the code changed"


def _plain(value: Any) -> Any:
    """Lists are sorted when they are recorded, and whole numbers among them become floats."""
    return sorted(map(float, value)) if isinstance(value, list | tuple) else value
