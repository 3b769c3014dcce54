#!/usr/bin/env bash
# The Python clients of OpenAI, Anthropic, Google, AWS and Ollama, by which tests check the stand-in of model providers. Into
# .cache/model-clients.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

python_tools scripts/wheels/clients.txt .cache/model-clients "tests with the providers' own clients"
