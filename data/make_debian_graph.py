#!/usr/bin/env python3
"""Makes debian-packages.ndjson.gz, the graph of `rejoin dev`, from Debian's package index.

    python3 data/make_debian_graph.py [INDEX] [--packages N] [--output FILE]

INDEX is a `Packages` file of Debian 12 (plain, .gz or .xz; .lz4 where apt is installed). Without it, the one that
`apt-get update` fetched to /var/lib/apt/lists is read. The output depends on the index alone: same index, same bytes.

Taken are all packages of priority required, important and standard, the packages that people ask about (WANTED), and then
the packages that most others depend on. Python 3.9 or newer; nothing but the standard library.
"""
import argparse
import collections
import glob
import gzip
import json
import lzma
import pathlib
import re
import subprocess
import sys

PACKAGES = 6200
# What people ask a package graph about.
WANTED = ("libssl3", "openssl", "curl", "git", "nginx", "postgresql-15", "python3", "openssh-server", "sqlite3", "ffmpeg")
# Of these, everything that directly depends on them comes first among the optional packages.
WANTED_DEPENDENTS = ("libssl3",)
# Libraries that only builds of their own language use; they would crowd out what people know.
LAST_SECTIONS = ("haskell", "rust", "ocaml", "golang", "javascript", "debug")
LISTS = "/var/lib/apt/lists/*_debian_dists_bookworm_main_binary-amd64_Packages*"
RELATION = re.compile(r"^\s*([a-z0-9][a-z0-9+.\-]+)(?::[a-z0-9]+)?\s*(?:\(\s*(<<|<=|=|>=|>>)\s*([^)\s]+)\s*\))?")


def open_index(path):
    if path.endswith(".gz"):
        return gzip.decompress(pathlib.Path(path).read_bytes()).decode()
    if path.endswith(".xz"):
        return lzma.decompress(pathlib.Path(path).read_bytes()).decode()
    if path.endswith(".lz4"):
        # Python has no lz4, but the apt that wrote the file has.
        return subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], check=True, capture_output=True).stdout.decode()
    return pathlib.Path(path).read_text(encoding="utf-8")


def stanzas(text):
    for block in text.split("\n\n"):
        fields = {}
        name = None
        for line in block.splitlines():
            if line[:1] in (" ", "\t"):
                # Only the first line of a long field is of use here, except in wrapped lists of packages.
                if name in ("Depends", "Pre-Depends", "Recommends", "Provides"):
                    fields[name] += line
            elif ":" in line:
                name, value = line.split(":", 1)
                fields[name] = value.strip()
        if "Package" in fields:
            yield fields


def relations(field):
    """[[(name, constraint or None), … alternatives], …]"""
    groups = []
    for group in (field or "").split(","):
        alternatives = []
        for alternative in group.split("|"):
            match = RELATION.match(alternative)
            if match:
                name, operator, version = match.groups()
                alternatives.append((name, f"{operator} {version}" if operator else None))
        if alternatives:
            groups.append(alternatives)
    return groups


def read(text):
    packages = {}
    for fields in stanzas(text):
        # The index may hold several versions of a package; the last one is the newest.
        packages[fields["Package"]] = fields
    return packages


def provided(packages):
    providers = collections.defaultdict(set)
    for name, fields in packages.items():
        for group in relations(fields.get("Provides")):
            providers[group[0][0]].add(name)
    return providers


def choose(packages, count):
    """The names of the packages of the set, closed over what they depend on as far as the count allows."""
    providers = provided(packages)

    def targets(name):
        """For each dependency the package that satisfies it first."""
        fields = packages[name]
        for group in relations(fields.get("Pre-Depends")) + relations(fields.get("Depends")):
            for alternative, _ in group:
                if alternative in packages:
                    yield alternative
                    break
                if providers.get(alternative):
                    yield min(providers[alternative])
                    break

    needs = {name: sorted(set(targets(name))) for name in packages}
    dependents = collections.Counter(target for names in needs.values() for target in names)
    for name in packages:
        for group in relations(packages[name].get("Recommends")):
            if group[0][0] in packages:
                dependents[group[0][0]] += 1
    chosen = set()

    def take(name):
        """With all that it needs, unless that is more than there is room for."""
        closure, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current in chosen or current in closure:
                continue
            closure.add(current)
            waiting.extend(needs[current])
        if len(chosen) + len(closure) <= count:
            chosen.update(closure)

    first = [n for n, f in packages.items() if f.get("Priority") in ("required", "important", "standard")]
    first += [name for name in WANTED if name in packages]
    for name in sorted(first):
        take(name)
    near = [n for n in packages if any(wanted in needs[n] for wanted in WANTED_DEPENDENTS)]
    rank = lambda name: (packages[name].get("Section") in LAST_SECTIONS, -dependents[name], name)
    for name in sorted(near, key=rank):
        # Leave most of the room to the rest.
        if len(chosen) < count * 2 // 5:
            take(name)
    for name in sorted(packages, key=rank):
        if len(chosen) >= count:
            break
        take(name)
    return chosen


def person(field):
    """The name without the address; addresses have no place in a demonstration."""
    name = re.sub(r"<[^>]*>", "", field or "").strip().strip('"').strip()
    return name if name and "@" not in name else "Unknown maintainer"


def build(packages, chosen):
    objects, edges = {}, {}

    def entity(kind, key, name=None, labels=(), **properties):
        properties = {k: v for k, v in properties.items() if v is not None}
        line = {"kind": "object", "type": kind, "key": key, "name": name or key}
        if labels:
            line["labels"] = sorted(labels)
        line["properties"] = properties
        objects.setdefault((kind, key), line)

    def edge(relation, source, target, **properties):
        properties = {k: v for k, v in properties.items() if v is not None}
        known = edges.setdefault((relation, source, target), properties)
        # Two constraints on one package (>= 1, << 2) are one relationship.
        if known is not properties and properties.get("constraint"):
            both = [part for part in (known.get("constraint"), properties["constraint"]) if part]
            known["constraint"] = ", ".join(dict.fromkeys(both))

    providers = provided({name: packages[name] for name in chosen})
    needed = {
        name
        for package in chosen
        for field in ("Pre-Depends", "Depends", "Recommends")
        for group in relations(packages[package].get(field))
        for name, _ in group
    }
    for name in sorted(chosen):
        fields = packages[name]
        here = ("Package", name)
        section = fields.get("Section", "unknown").split("/")[-1]
        labels = [fields.get("Priority", "optional"), section]
        if fields.get("Essential") == "yes":
            labels.append("essential")
        entity(
            "Package", name, labels=labels,
            version=fields.get("Version"),
            architecture=fields.get("Architecture"),
            section=section,
            priority=fields.get("Priority"),
            installed_size_kb=int(fields["Installed-Size"]) if fields.get("Installed-Size", "").isdigit() else None,
            essential=True if fields.get("Essential") == "yes" else None,
            homepage=fields.get("Homepage"),
            summary=fields.get("Description"),
        )
        entity("Section", section)
        edge("IN_SECTION", here, ("Section", section))
        maintainer = person(fields.get("Maintainer"))
        entity("Maintainer", maintainer)
        edge("MAINTAINED_BY", here, ("Maintainer", maintainer))
        source = fields.get("Source", name).split(" ")[0]
        entity("SourcePackage", source)
        edge("BUILT_FROM", here, ("SourcePackage", source))
        for group in relations(fields.get("Provides")):
            virtual, constraint = group[0]
            if virtual not in packages:
                # Most names that only one package provides are hashes of its binary interface.
                if virtual not in needed and len(providers[virtual]) < 2:
                    continue
                entity("VirtualPackage", virtual)
                edge("PROVIDES", here, ("VirtualPackage", virtual), constraint=constraint)
            elif virtual in chosen and virtual != name:
                edge("PROVIDES", here, ("Package", virtual), constraint=constraint)
        for field, relation, how in (
            ("Pre-Depends", "DEPENDS_ON", "pre-depends"),
            ("Depends", "DEPENDS_ON", "depends"),
            ("Recommends", "RECOMMENDS", None),
        ):
            for group in relations(fields.get(field)):
                for wanted, constraint in group:
                    target = ("Package", wanted) if wanted in chosen else ("VirtualPackage", wanted)
                    if target[0] == "VirtualPackage" and (wanted in packages or wanted not in providers):
                        continue
                    others = [other for other, _ in group if other != wanted]
                    edge(relation, here, target, constraint=constraint, kind=how, alternatives=others or None)
                    break
    return objects, edges


def write(path, objects, edges):
    order = ("Package", "SourcePackage", "VirtualPackage", "Section", "Maintainer")
    lines = [objects[key] for key in sorted(objects, key=lambda key: (order.index(key[0]), key[1]))]
    for kind, source, target in sorted(edges):
        line = {
            "kind": "relationship", "type": kind,
            "source": {"type": source[0], "key": source[1]}, "target": {"type": target[0], "key": target[1]},
        }
        if edges[kind, source, target]:
            line["properties"] = edges[kind, source, target]
        lines.append(line)
    # No name and no time in the header: the same lines give the same bytes.
    with open(path, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0) as zipped:
        for line in lines:
            zipped.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index", nargs="?")
    parser.add_argument("--packages", type=int, default=PACKAGES)
    parser.add_argument("--output", default=str(pathlib.Path(__file__).with_name("debian-packages.ndjson.gz")))
    arguments = parser.parse_args()
    index = arguments.index or next(iter(sorted(glob.glob(LISTS))), None)
    if index is None:
        sys.exit("no package index: run apt-get update on Debian 12, or name a Packages file")
    packages = read(open_index(index))
    objects, edges = build(packages, choose(packages, arguments.packages))
    write(arguments.output, objects, edges)
    for what, keys in (("objects", objects), ("relationships", edges)):
        counts = collections.Counter(key[0] for key in keys)
        print(f"{sum(counts.values())} {what}: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    print(f"{pathlib.Path(arguments.output).stat().st_size} bytes in {arguments.output}")


if __name__ == "__main__":
    main()
