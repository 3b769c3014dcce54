#!/usr/bin/env bash
# The versions of installed packages, one a line: versions.sh python FOLDER PACKAGE… | versions.sh node FOLDER PACKAGE…
set -euo pipefail
kind=$1 folder=$2
shift 2
for package in "$@"; do
    case $kind in
    python) "$folder/bin/python" -c 'import importlib.metadata, sys; print(sys.argv[1], importlib.metadata.version(sys.argv[1]))' "$package" ;;
    node) sed -n "s|^  \"version\": \"\(.*\)\".*|$package \1|p" "$folder/node_modules/$package/package.json" | head -n 1 ;;
    esac
done
