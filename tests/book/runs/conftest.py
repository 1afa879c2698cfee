"""Files of the kinds that were written before they had a format."""

import zipfile
from pathlib import Path

import pytest


@pytest.fixture
def old_files(tmp_path):
    """A folder with a problem, two solutions and a record."""
    with zipfile.ZipFile(Path(__file__).with_name("old_files.zip")) as archive:
        archive.extractall(tmp_path)
    return tmp_path
