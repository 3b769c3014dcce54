"""Writes the report of what run.py found, as Markdown: report.py MUTANTS RESULTS REVISION. Reasons of survivors: reasons.toml."""

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


counts = collections.defaultdict(collections.Counter)
for mutant in mutants:
    counts[mutant["file"]][state_of(mutant)] += 1
total = sum(counts.values(), collections.Counter())

print(known["words"].format(date=time.strftime("%Y-%m-%d", time.gmtime()), revision=sys.argv[3], mutants=len(mutants), **{
    state.replace(" ", "_"): total[state] for state in STATES
}).strip())
print("\n## Counts\n\n| file | mutants | " + " | ".join(STATES) + " |\n|" + " --- |" * (len(STATES) + 2))
for file in [*sorted(counts), None]:
    of_file = counts[file] if file else total
    name = f"`{file}`" if file else "**all**"
    print(f"| {name} | {sum(of_file.values())} | " + " | ".join(str(of_file[state]) for state in STATES) + " |")
print("\n## Survivors\n\n| where | mutant | why it stays |\n| --- | --- | --- |")
for mutant in mutants:
    if state_of(mutant) in ("survived", "unreached"):
        reason = known["reasons"].get(mutant["file"], {}).get(text_of(mutant), "")
        if not reason and state_of(mutant) == "unreached":
            reason = "No test of those that it was tried with runs this."
        place = f"`{mutant['file']}:{mutant['line']}`" if mutant["line"] else f"`{mutant['file']}`"
        text = text_of(mutant).replace("|", "\\|")
        print(f"| {place} | {text} | {reason or 'Not looked at yet.'} |")
