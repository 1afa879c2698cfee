#!/bin/sh
# Make the virtual environment that the Makefile uses, or bring it up to date. Nothing is done, at once, if neither the
# requirements nor the place of the project have changed since the last time.
#   VENV    where the environment goes (.venv)
#   PYTHON  the interpreter to make it with; without it, the first of python3.13, 3.12, 3.11, python3, python that will do
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
wanted=${PYTHON:-}
stamp=$venv/.ready

# A name on the PATH is not enough: a version manager's shim may be there and fail, and Debian splits off ensurepip.
minor() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
supported() { case $(minor "$1") in 3.11 | 3.12 | 3.13) return 0 ;; *) return 1 ;; esac; }
complete() { supported "$1" && "$1" -c 'import ensurepip, venv' 2>/dev/null; }
fail() {
    printf 'make_venv: %s\n' "$@" >&2
    exit 1
}

# An environment cannot be moved, so its place is part of the key.
key=$(pwd && cat constraints.txt pyproject.toml | cksum)
if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" != "$(pwd)" ]; then
    owner=$(head -n 1 "$stamp")
    [ "$(cd "$venv/.." && pwd)" != "$owner" ] || fail "$venv is the environment of the project in $owner." \
        "Leave VENV out for one of this project's own, or name another place."
    echo "$venv was made in another folder: it is made again."
    rm -rf "$venv"
fi
if supported "$venv/bin/python" && { [ -z "$wanted" ] || [ "$(minor "$wanted")" = "$(minor "$venv/bin/python")" ]; }; then
    [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$key" ] || exit 0
else
    for candidate in ${wanted:-python3.13 python3.12 python3.11 python3 python}; do
        ! complete "$candidate" || break
        candidate=
    done
    [ -n "$candidate" ] || fail "found no Python 3.11, 3.12 or 3.13 with the modules venv and ensurepip${wanted:+: $wanted}." \
        "On Debian they come with the package python3-venv. Or name another: make test PYTHON=/path/to/python3.12"
    echo "Making $venv with $candidate (Python $(minor "$candidate"))."
    rm -rf "$venv"
    "$candidate" -m venv "$venv"
fi

version=$(minor "$venv/bin/python")
rm -f "$stamp"
echo "Installing the tested versions for Python $version into $venv (the first time this takes some minutes)."
"$venv/bin/python" -m pip --disable-pip-version-check install --quiet --editable '.[dev]' -c constraints.txt
echo "$key" >"$stamp"
