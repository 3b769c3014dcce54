#!/usr/bin/env bash
# The newest versions of packages from npm, with a Node.js of their own: node.sh FOLDER PACKAGE…
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
cd "$folder"
[ -f package.json ] || echo '{"private": true, "type": "module"}' >package.json
npm install --silent --no-audit --no-fund "$@" "node-linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')@24"
ln -sf "node_modules/node-linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/bin/node" node
