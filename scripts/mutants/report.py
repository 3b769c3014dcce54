"""Writes the report of what run.py found, as Markdown: report.py MUTANTS RESULTS REVISION. Reasons of survivors: reasons.toml, and what is
known of files whose results are no longer there: earlier.json."""

import collections
import json
import pathlib
import sys
import time
import tomllib

mutants, results = (json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:3])
known = tomllib.loads((pathlib.Path(__file__).parent / "reasons.toml").read_text())
STATES = ["killed", "timeout", "survived", "unreached", "not viable", "untried"]


def state_of(mutant):
    if mutant["state"] != "switched":
        return mutant["state"]
    return results.get(mutant["name"], {"state": "untried"})["state"]


def text_of(mutant):
    """Without its place, which moves."""
    return mutant["name"].split(": ", 1)[-1]


earlier = json.loads((pathlib.Path(__file__).parent / "earlier.json").read_text())
tried = {mutant["file"] for mutant in mutants if mutant["name"] in results}
counts = collections.defaultdict(collections.Counter)
for mutant in mutants:
    if mutant["file"] in tried or mutant["file"] not in earlier:
        counts[mutant["file"]][state_of(mutant)] += 1
    else:
        counts[mutant["file"]] = collections.Counter(earlier[mutant["file"]]["counts"])
total = sum(counts.values(), collections.Counter())

print(known["words"].format(date=time.strftime("%Y-%m-%d", time.gmtime()), revision=sys.argv[3], mutants=sum(total.values()), **{
    state.replace(" ", "_"): total[state] for state in STATES
}).strip())
print("\n## Counts\n\n| file | tried at | mutants | " + " | ".join(STATES) + " |\n|" + " --- |" * (len(STATES) + 3))
for file in [*sorted(counts), None]:
    of_file = counts[file] if file else total
    name = f"`{file}`" if file else "**all**"
    revision = sys.argv[3] if file in tried else earlier[file]["revision"] if file in earlier else "" if file is None else "never"
    print(f"| {name} | {revision} | {sum(of_file.values())} | " + " | ".join(str(of_file[state]) for state in STATES) + " |")
print("\n## Survivors\n\n| where | mutant | why it stays |\n| --- | --- | --- |")
rows = [
    (mutant["file"], f"{mutant['file']}:{mutant['line']}" if mutant["line"] else mutant["file"], text_of(mutant), state_of(mutant))
    for mutant in mutants
    if mutant["file"] in tried and state_of(mutant) in ("survived", "unreached")
]
rows += [(file, place, text, "") for file in sorted(earlier) if file not in tried for place, text in earlier[file]["survivors"]]
for file, place, text, state in rows:
    reason = known["reasons"].get(file, {}).get(text, "")
    if not reason and state == "unreached":
        reason = "No test of those that it was tried with runs this."
    text = text.replace("|", "\\|")
    print(f"| `{place}` | {text} | {reason or 'Not looked at yet.'} |")
