#!/usr/bin/env bash
# A virtual environment with the newest versions of packages: python.sh FOLDER PACKAGE…
# PYTHON: the interpreter, python3 unless set.
set -euo pipefail
folder=$1
shift
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "$@"
