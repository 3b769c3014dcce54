#!/usr/bin/env bash
# A virtual environment with the packages of a lock file, as `scripts/lock-python.sh` writes it: python.sh FOLDER REQUIREMENTS OLDEST
# OLDEST is the oldest Python that they are for. PYTHON names the interpreter; otherwise it is the first one here that is new enough,
# also of those that pyenv has installed.
set -euo pipefail
folder=$1 requirements=$2 oldest=$3

is_new() { "$1" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$oldest'.split('.'))))" 2>/dev/null; }

if ! is_new "$folder/bin/python"; then
    found=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3}; do
        if is_new "$candidate"; then
            found=$candidate
            break
        fi
    done
    if [ -z "$found" ]; then
        echo "Python $oldest or newer is needed: install it, or name it in PYTHON" >&2
        exit 1
    fi
    rm -rf "$folder"
    "$found" -m venv "$folder"
fi
# The lists are whole; an old pip does not accept extras of what they name.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --requirement "$requirements"
