#!/usr/bin/env bash
# Chooses an agent for each of the labelled first messages, prints how often that is right and how long it takes, and writes it into
# docs/guide/routing.md. With --errors, also what is wrong in the half that rules may be made with.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# Only what is measured is optimised: everything else is there from other builds.
exec cargo bench --locked --quiet --profile dev --config 'profile.dev.package.rejoin-routing.opt-level=3' \
    -p rejoin-routing --bench routing -- "$@"
