#!/usr/bin/env bash
# Whether a key of any provider is set; else says which variables to set.
set -euo pipefail
for variable in OPENAI_API_KEY ANTHROPIC_API_KEY GEMINI_API_KEY VERTEX_API_KEY AZURE_OPENAI_API_KEY OPENROUTER_API_KEY AWS_BEARER_TOKEN_BEDROCK; do
    [ -z "${!variable:-}" ] || exit 0
done
cat >&2 <<'END'
No provider's key is set, so there is nobody to ask. Set one or more of these, and run it again:
  OPENAI_API_KEY             OpenAI
  ANTHROPIC_API_KEY          Anthropic
  GEMINI_API_KEY             Gemini
  VERTEX_API_KEY             Vertex AI: an access token, with VERTEX_BASE_URL
  AZURE_OPENAI_API_KEY       OpenAI's models at Azure, with AZURE_OPENAI_ENDPOINT
  OPENROUTER_API_KEY         OpenRouter
  AWS_BEARER_TOKEN_BEDROCK   Amazon Bedrock, with AWS_REGION
MODELS="openai:NAME anthropic:NAME" asks other models than the probe's own.
END
exit 2
