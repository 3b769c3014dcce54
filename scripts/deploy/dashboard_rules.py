"""Writes each query of a Grafana dashboard as a recording rule, for promtool to parse: dashboard_rules.py DASHBOARD.

Also checks what promtool does not see: panels without a query, a title or a place, and ids that are there twice.
"""

import json
import sys


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        dashboard = json.load(file)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    rules, ids = [], set()
    for panel in dashboard["panels"]:
        name = panel.get("title") or f"panel {panel['id']}"
        assert panel["id"] not in ids, f"{name}: the id {panel['id']} is there twice"
        ids.add(panel["id"])
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, f"{name}: it is too wide"
        if panel["type"] == "row":
            continue
        assert panel["title"] and panel["targets"], f"{name}: it has no title or no query"
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "5m")
            for variable in variables:
                query = query.replace(f"${variable}", "x")
            assert "$" not in query, f"{name}: {query} has an unknown variable"
            rules.append({"record": f"dashboard:query{len(rules)}", "expr": query})
    assert len(rules) > 30, f"only {len(rules)} queries"
    # JSON is YAML.
    json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, sys.stdout, indent=1)


main()
