#!/usr/bin/env bash
# Makes all ended runs and their events older, as if time had passed: age.sh PORT SECONDS. Maintenance then finds them due.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
exec "$here/../common/postgres.sh" sql "$1" rejoin "
    update stream.events set created_at = created_at - make_interval(secs => $2);
    update kb.agent_runs set finished_at = finished_at - make_interval(secs => $2) where finished_at is not null;
"
