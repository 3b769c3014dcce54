"""Writes the report of the two passes, as Markdown: report.py FOLDER VERSION SEED MAX_EXAMPLES."""

import re
import sys
from pathlib import Path

folder, version, seed, max_examples = Path(sys.argv[1]), *sys.argv[2:5]
PASSES = [("with-key", "With a key of all scopes"), ("without-key", "Without a key")]

print(f"""# Schemathesis

Made by `make schemathesis SEED={seed} MAX_EXAMPLES={max_examples}`: schemathesis {version} over `/openapi.json`, against a live `rejoin dev`
(PostgreSQL, API, a worker with the demo model, the demo graph), all checks, all phases (examples, coverage, fuzzing, stateful). The
command fails if anything is found, and then writes no report, so this report is of a run without findings: no 5xx, no undocumented
status, no body that violates its schema.

Expectations beyond the document are listed, with reasons, in `scripts/schemathesis/schemathesis.toml`. Because streams have no
end, `scripts/schemathesis/hooks.py` uses the data until a silence of 0.3 s as their body.
""")
for name, title in PASSES:
    text = (folder / f"{name}.txt").read_text()
    summary = text[text.rindex("SUMMARY"):]
    lines = [line.rstrip() for line in summary.splitlines()[1:]]
    kept = [line for line in lines if line and not re.match(r"^[=_]+|.*(report|Report|\.json|stability|Seed)", line)]
    print(f"## {title}\n\n```\n" + "\n".join(kept) + "\n```\n")
