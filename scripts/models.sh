#!/usr/bin/env bash
# Writes data/models.json from the packages of scripts/wheels/models.txt and from data/models-overlay.json: docs/guide/models.md says how to
# take newer ones.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

wheels=.cache/models
rm -rf "$wheels"
mkdir -p "$wheels"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$wheels" \
    --require-hashes -r scripts/wheels/models.txt
python3 scripts/models.py "$wheels"/litellm-*.whl "$wheels"/genai_prices-*.whl "${DATE:-$(date -u +%F)}"
rm -rf "$wheels"
