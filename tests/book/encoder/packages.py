"""The packages of `requirements-text.txt` if they are here, and made-up ones in their place."""

import hashlib

import pytest

from attention_book.encoder import installed

absent = installed.missing()
real_texts = pytest.mark.skipif(bool(absent), reason=f"not installed: {', '.join(absent)}; run `make text`")


@pytest.fixture
def put(tmp_path, monkeypatch):
    """A function that installs a package with one file, `installed.FILES[name]`, in front of all others."""

    def install(name: str, held: bytes, *, right: bool = True):
        file = installed.FILES[name]
        package = f"made_{file.package}"
        path = tmp_path / package / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)
        (tmp_path / package / "__init__.py").write_text("raise ImportError('it asks for torch')")
        digest = hashlib.sha256(held).hexdigest() if right else file.digest
        monkeypatch.setitem(installed.FILES, name, file._replace(package=package, digest=digest))
        return path

    monkeypatch.syspath_prepend(tmp_path)
    return install
