#!/usr/bin/env bash
# The packages of an adapter's package-lock.json, and a Node.js for them: node.sh FOLDER ADAPTER
set -euo pipefail
folder=$1 adapter=$2
mkdir -p "$folder"
cp "$adapter/package.json" "$adapter/package-lock.json" "$folder/"
cd "$folder"
# Their scripts only send statistics of the installation.
npm ci --silent --no-audit --no-fund --ignore-scripts
ln -sf "node_modules/node-linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')/bin/node" node
