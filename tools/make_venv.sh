#!/bin/sh
# Make the virtual environment that the Makefile uses, or bring it up to date. Nothing is done, at once, if neither the
# requirements nor the place of the project have changed since the last time.
#   VENV    where the environment goes (.venv)
#   PYTHON  the interpreter to make it with; without it, the first of python3.13, 3.12, 3.11, python3, python that runs
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
wanted=${PYTHON:-}
stamp=$venv/.ready

# A name on the PATH is not enough: a version manager's shim may be there and fail, and Debian splits off ensurepip.
minor() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
supported() { case $(minor "$1") in 3.11 | 3.12 | 3.13) return 0 ;; *) return 1 ;; esac; }
complete() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }
fail() {
    printf 'make_venv: %s\n' "$@" >&2
    exit 1
}

if [ -n "$wanted" ]; then
    version=$(minor "$wanted")
    [ -n "$version" ] || fail "PYTHON=$wanted does not run. Give the path of a Python 3.11, 3.12 or 3.13."
    supported "$wanted" || fail "PYTHON=$wanted is Python $version; wanted 3.11, 3.12 or 3.13."
    if [ -e "$venv/bin/python" ] && [ "$(minor "$venv/bin/python")" != "$version" ]; then
        echo "$venv is not of Python $version: making it anew."
        rm -rf "$venv"
    fi
fi

# The project's folder is part of the key because an environment cannot be moved.
key=$(pwd && cat constraints/*.txt pyproject.toml | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && supported "$venv/bin/python"; then
    exit 0
fi
if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" != "$(pwd)" ]; then
    owner=$(head -n 1 "$stamp")
    [ "$(cd "$venv/.." && pwd)" != "$owner" ] || fail "$venv is the environment of the project in $owner." \
        "Leave VENV out for one of this project's own, or name another place."
    echo "$venv was made in another folder: making it anew."
    rm -rf "$venv"
fi

if ! supported "$venv/bin/python"; then
    if [ -z "$wanted" ]; then
        incomplete=
        for candidate in python3.13 python3.12 python3.11 python3 python; do
            supported "$candidate" || continue
            if complete "$candidate"; then
                wanted=$candidate
                break
            fi
            incomplete=$candidate
        done
        if [ -z "$wanted" ] && [ -n "$incomplete" ]; then
            fail "$incomplete cannot make virtual environments: its modules venv and ensurepip are missing." \
                "On Debian and Ubuntu they come with the package python3-venv. Or name another with PYTHON=/path/to/python."
        fi
        [ -n "$wanted" ] || fail "no Python 3.11, 3.12 or 3.13 that runs was found on the PATH." \
            "Install one, or name it: make test PYTHON=/path/to/python3.12"
    fi
    complete "$wanted" || fail "$wanted lacks the modules venv and ensurepip (Debian: package python3-venv)."
    echo "Making $venv with $wanted (Python $(minor "$wanted"))."
    rm -rf "$venv"
    "$wanted" -m venv "$venv"
fi

version=$(minor "$venv/bin/python")
rm -f "$stamp"
echo "Installing the tested versions for Python $version into $venv (the first time this takes some minutes)."
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet --editable '.[dev]' -c "constraints/python$version.txt"
echo "$key" >"$stamp"
