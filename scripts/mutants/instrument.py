"""Makes one source tree in which each mutant is behind a switch of its own, so that one build serves them all:
instrument.py ROOT TREE LISTED OUT [PATTERN…] -- CHECK…, the files whose mutants it makes (all unless named), and what compiles the tree.

Reads the list that `cargo mutants --list --json` gives, and SQL mutants of ours (sql.toml). Writes the tree, and beside it mutants.json:
each mutant with its number, which REJOIN_MUTANT switches on. Mutants whose switched form does not compile are left out by what
`cargo check` says of them, until the rest compiles.
"""

import fnmatch
import hashlib
import json
import pathlib
import subprocess
import sys
import tomllib

import tree_sitter
import tree_sitter_rust

RUST = tree_sitter.Language(tree_sitter_rust.language())
HERE = pathlib.Path(__file__).parent
# Rounds of `cargo check`: each leaves out what the one before found.
ROUNDS = 30
# What else of the tree is changed: programs started with an empty environment, the migrated database, and how long tests wait in vain.
PATCHES = [
    ("shared/db/src/lib.rs", "pub mod outage;", "pub mod mutant;\npub mod outage;"),
    ("extensions/data-sources/src/sqlite/process.rs", ".env_clear()", ".env_clear()\n            .envs(rejoin_db::mutant::environment())"),
    (
        "cli/src/migrate.rs",
        "    let after = applied(&mut connection).await?;\n    let extensions",
        "    let after = applied(&mut connection).await?;\n    if let Some(sql) = rejoin_db::mutant::of_database() {\n"
        "        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await?;\n    }\n    let extensions",
    ),
    ("tests/src/support.rs", "LIMIT: Duration = Duration::from_secs(30)", "LIMIT: Duration = Duration::from_secs(15)"),
]


class Source:
    """A file, parsed."""

    def __init__(self, path):
        self.path = path
        self.bytes = path.read_bytes()
        self.lines = self.bytes.split(b"\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.root = tree_sitter.Parser(RUST).parse(self.bytes).root_node

    def at(self, place):
        """The byte at a line and a column of characters, both from 1."""
        line = self.lines[place["line"] - 1].decode()
        return self.starts[place["line"] - 1] + len(line[: place["column"] - 1].encode())

    def text(self, node):
        return self.bytes[node.start_byte : node.end_byte].decode()

    def node_at(self, start, end):
        return self.root.descendant_for_byte_range(start, end)


class Unfit(Exception):
    """A mutant that has no switched form, or that is no Rust ("not viable")."""

    def __init__(self, reason, state="untried"):
        super().__init__(reason)
        self.state = state


def up(node, *kinds):
    while node is not None and node.type not in kinds:
        node = node.parent
    if node is None:
        raise Unfit("no " + " or ".join(kinds))
    return node


def is_on(source, mutant):
    crate = "crate" if source.path.parts[source.path.parts.index("src") - 1] == "db" else "rejoin_db"
    return f"{crate}::mutant::on({mutant['id']})"


# An edit is (start, end, kind, node, mutants); of one kind and node there is one.
def edit_of(source, mutant):
    start, end = source.at(mutant["span"]["start"]), source.at(mutant["span"]["end"])
    genre = mutant["genre"]
    if genre == "FnValue":
        if "impl " in mutant["function"]["return_type"]:
            raise Unfit("the type is what the body is")
        function = up(source.node_at(start, end), "function_item")
        body = function.child_by_field_name("body")
        if any(child.type == "const" for child in function.children for child in [child, *child.children]):
            raise Unfit("a const function")
        return (body.start_byte + 1, body.start_byte + 1, "value", body)
    if genre in ("BinaryOperator", "UnaryOperator"):
        # Of an operator the list has the place, of `-` and `!` all that they stand before in some releases.
        node = up(source.node_at(start, end), "binary_expression", "compound_assignment_expr", "unary_expression", "let_chain")
        if node.type == "let_chain" and mutant["replacement"] == "||":
            raise Unfit("a chain of lets has no ||", "not viable")
        return (node.start_byte, node.end_byte, "operator", node)
    if genre == "MatchArm":
        arm = up(source.node_at(start, end), "match_arm")
        pattern = arm.child_by_field_name("pattern")
        condition = pattern.child_by_field_name("condition")
        if condition is None:
            return (pattern.end_byte, pattern.end_byte, "arm", pattern)
        return (condition.start_byte, condition.end_byte, "guard", condition)
    if genre == "MatchArmGuard":
        pattern = up(source.node_at(start, end), "match_pattern")
        condition = pattern.child_by_field_name("condition")
        return (condition.start_byte, condition.end_byte, "guard", condition)
    if genre == "StructField":
        # With its comma.
        field = up(source.node_at(start, start + 1), "field_initializer", "shorthand_field_initializer")
        return (field.start_byte, field.end_byte, "field", field)
    raise Unfit(f"genre {genre}")


def pieces_of(source, kind, node, mutants):
    """What stands for a node: text of ours with the mutant that it is of, and (start, end) of what stood there."""
    if kind == "value":
        return [(f" if {is_on(source, m)} {{ return {m['replacement']}; }}", m) for m in mutants]
    if kind == "operator":
        return operator(source, node, mutants)
    if kind == "arm":
        return [(f" if !{is_on(source, m)}", m) for m in mutants]
    if kind == "guard":
        if node.type in ("let_condition", "let_chain"):
            raise Unfit("a guard with let")
        pieces = [("(", None)]
        for m in mutants:
            if m["genre"] == "MatchArm" or m["replacement"] == "false":
                pieces.append((f"!{is_on(source, m)} && ", m))
        pieces.append(("(", None))
        for m in mutants:
            if m["genre"] != "MatchArm" and m["replacement"] == "true":
                pieces.append((f"{is_on(source, m)} || ", m))
        return [*pieces, ("(", None), (node.start_byte, node.end_byte), (")))", None)]
    if kind == "field":
        if node.type == "shorthand_field_initializer":
            name = value = node
        else:
            name, value = node.child_by_field_name("field"), node.child_by_field_name("value")
        base = next((c for c in node.parent.children if c.type == "base_field_initializer"), None)
        if base is None:
            raise Unfit("no base")
        (m,) = mutants
        other = source.bytes[base.start_byte + 2 : base.end_byte].decode()
        name = source.text(name)
        return [(f"{name}: if {is_on(source, m)} {{ ({other}).{name} }} else {{ ", m), (value.start_byte, value.end_byte), (" }", m)]
    if kind == "sql":
        text = (node.start_byte, node.end_byte)
        pieces = [("{ ", None)]
        for m in mutants:
            pieces.append((f"if {is_on(source, m)} {{ {m['text']} }} else ", m))
        return [*pieces, ("{ ", None), text, (" } }", None)]
    raise AssertionError(kind)


def operator(source, node, mutants):
    if node.type == "unary_expression":
        (m,) = mutants
        inner = node.children[1]
        whole = (node.start_byte, node.end_byte)
        return [(f"(if {is_on(source, m)} {{ ", m), (inner.start_byte, inner.end_byte), (" } else { ", m), whole, (" })", m)]
    left, sign, right = node.child_by_field_name("left"), source.text(node.child_by_field_name("operator")), node.child_by_field_name("right")
    a, b = (left.start_byte, left.end_byte), (right.start_byte, right.end_byte)
    if node.type == "compound_assignment_expr":
        pieces = [("{ ", None)]
        for m in mutants:
            pieces += [(f"if {is_on(source, m)} {{ ", m), a, (f" {m['replacement']} ", m), b, (" } else ", m)]
        return [*pieces, ("{ ", None), a, (f" {sign} ", None), b, (" } }", None)]
    if sign in ("&&", "||") and len(mutants) == 1 and mutants[0]["replacement"] in ("&&", "||"):
        (m,) = mutants
        compared = "!=" if sign == "&&" else "=="
        return [("({ let left__: bool = ", m), a, (f"; if left__ {compared} {is_on(source, m)} {{ ", m), b, (" } else { left__ } })", m)]
    pieces = [("(", None)]
    for m in mutants:
        pieces += [(f"if {is_on(source, m)} {{ (", m), a, (f") {m['replacement']} (", m), b, (") } else ", m)]
    return [*pieces, ("{ (", None), a, (f") {sign} (", None), b, (") })", None)]


class Rendered:
    """A file with its switches, and which bytes of it are of which mutant."""

    def __init__(self, source, edits):
        self.source, self.out, self.length, self.regions = source, [], 0, []
        # Zero-width ones first, then the outermost.
        self.edits = sorted(edits, key=lambda edit: (edit[0], -edit[1], edit[2]))
        self.render(0, len(source.bytes), None)

    def emit(self, data, mutant=None):
        if mutant is not None:
            self.regions.append((self.length, self.length + len(data), mutant["id"]))
        self.out.append(data)
        self.length += len(data)

    def render(self, start, end, within):
        at = start
        for edit in self.edits:
            if edit[0] < at or edit[1] > end or edit is within:
                continue
            if within is not None and (edit[0], edit[1]) == (within[0], within[1]) and self.edits.index(edit) < self.edits.index(within):
                continue
            if edit[0] >= end and edit[0] != edit[1]:
                break
            self.emit(self.source.bytes[at : edit[0]])
            began = self.length
            for piece in edit[4]:
                if isinstance(piece[0], int):
                    self.render(piece[0], piece[1], edit)
                else:
                    self.emit(piece[0].encode(), piece[1])
            # An error about the whole of it is of all its mutants.
            self.regions += [(began, self.length, m["id"]) for m in edit[5]]
            at = edit[1]
        self.emit(self.source.bytes[at:end])

    def data(self):
        return b"".join(self.out)

    def blamed(self, start, end):
        """The mutants whose text an error is about: those of the smallest region that holds it, else those within it."""
        around = [r for r in self.regions if r[0] <= start and end <= r[1]]
        if around:
            size = min(r[1] - r[0] for r in around)
            return {r[2] for r in around if r[1] - r[0] == size}
        return {r[2] for r in self.regions if start <= r[0] and r[1] <= end}


def copy_tree(root, tree, but):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True, capture_output=True)
    wanted = {name for name in names.stdout.decode().split("\0") if name and (root / name).is_file()}
    for name in wanted - but:
        put(tree / name, (root / name).read_bytes(), (root / name).stat().st_mode)
    # What scripts have fetched and built, which tests look for below the tree.
    for name in (".cache", "web/dist"):
        if (root / name).exists() and not (tree / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).symlink_to(root / name)
    return wanted


def put(path, data, mode=None):
    """Writes what is new: cargo goes by the time of a file."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if mode is not None:
        path.chmod(mode)


def literal_of(node, source):
    text = source.text(node)
    if text.startswith("r"):
        hashes = text[1 : text.index('"')]
        return text[2 + len(hashes) : -1 - len(hashes)]
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def nodes(node):
    yield node
    for child in node.children:
        yield from nodes(child)


def sql_edits(source, mutant, tree):
    """Edits for a change of a statement: where the literal is one, in a `query!` (also its entry in .sqlx), or a constant."""
    literals = [n for n in nodes(source.root) if n.type in ("string_literal", "raw_string_literal") and mutant["old"] in source.text(n)]
    if len(literals) != 1:
        raise SystemExit(f"{mutant['name']}: {len(literals)} literals of {mutant['file']} hold {mutant['old']!r}")
    (literal,) = literals
    changed = source.text(literal).replace(mutant["old"], mutant["new"], 1)
    mutant["line"] = literal.start_point[0] + 1
    place = literal
    while place.parent is not None and place.type not in ("const_item", "macro_invocation", "block"):
        place = place.parent
    if place.type == "const_item":
        name = source.text(place.child_by_field_name("name"))
        uses = [n for n in nodes(source.root) if n.type == "identifier" and source.text(n) == name and n.parent.type != "const_item"]
        mutant["text"] = changed
        return [(n.start_byte, n.end_byte, "sql", n) for n in uses]
    if place.type == "macro_invocation":
        if source.text(place).startswith("sqlx::query"):
            old = literal_of(literal, source)
            new = old.replace(mutant["old"], mutant["new"], 1)
            cached = json.loads((tree / ".sqlx" / f"query-{hashlib.sha256(old.encode()).hexdigest()}.json").read_text())
            digest = hashlib.sha256(new.encode()).hexdigest()
            cached.update(query=new, hash=digest)
            put(tree / ".sqlx" / f"query-{digest}.json", json.dumps(cached, indent=2).encode())
        # Up to the await: what differs between two queries are their types.
        if mutant.get("whole_function"):
            place = up(place, "function_item").child_by_field_name("body")
        while place.parent.type in ("field_expression", "call_expression", "await_expression", "try_expression"):
            place = place.parent
        before = source.bytes[place.start_byte : literal.start_byte].decode()
        after = source.bytes[literal.end_byte : place.end_byte].decode()
        mutant["text"] = before + changed + after
        return [(place.start_byte, place.end_byte, "sql", place)]
    mutant["text"] = changed
    return [(literal.start_byte, literal.end_byte, "sql", literal)]


# A function of the database is made anew from its own text.
FUNCTION = """do $change$
declare
    v_old text := pg_get_functiondef('{function}'::regproc);
    v_new text := replace(v_old, $mutant${old}$mutant$, $mutant${new}$mutant$);
begin
    if v_old = v_new then
        raise exception '{function} does not have this';
    end if;
    execute v_new;
end
$change$"""


def own_mutants():
    """Those of sql.toml, the policies of one shape written out; of the database with the statement that makes each."""
    read = tomllib.loads((HERE / "sql.toml").read_text())
    mutants, policies = read["mutant"], read["policies"]

    def policy(table, name, using):
        mutants.append({"name": f"{table} {name}", "sql": f"alter policy app on {table} using ({using})", "tests": policies["tests"]})

    for table in policies["project"] + policies["through"]:
        policy(table, "shows all rows", "true")
    for table, owner in policies["owner"].items():
        policy(table, "shows other owners' rows", "project_id = kb.current_project()")
        policy(table, "shows the owner's rows of other projects", f"{owner} = kb.current_owner()")
    for mutant in mutants:
        if "function" in mutant:
            mutant["sql"] = FUNCTION.format(**mutant)
        mutant.setdefault("file", "migrations")
    return mutants


def main():
    root, tree, listed, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
    end = sys.argv.index("--")
    patterns, check = sys.argv[5:end] or ["*"], sys.argv[end + 1 :]
    mutants = json.loads(listed.read_text())
    for number, mutant in enumerate(mutants, 1):
        mutant.update(id=number, state="switched", line=mutant["span"]["start"]["line"])
    own = own_mutants()
    for number, mutant in enumerate(own, len(mutants) + 1):
        mutant.update(id=number, state="switched", genre="Sql", line=0)
    everything = mutants + own
    by_id = {mutant["id"]: mutant for mutant in everything}
    # What did not compile before does not now.
    before = {m["name"]: m for m in json.loads(out.read_text())} if out.exists() else {}
    for mutant in everything:
        known = before.get(mutant["name"], {})
        if known.get("state") == "not viable" and known.get("replacement") == mutant.get("replacement"):
            mutant.update(state="not viable", reason=known["reason"])
        elif not any(fnmatch.fnmatch(mutant["file"], pattern) for pattern in patterns):
            mutant.update(state="untried", reason="not of the files that were named")
    changed = {mutant["file"] for mutant in everything if mutant["state"] != "untried"} | {name for name, _, _ in PATCHES}
    copied = copy_tree(root, tree, changed)
    put(tree / "shared/db/src/mutant.rs", (HERE / "mutant.rs").read_bytes())
    for name, old, new in PATCHES:
        text = (root / name).read_text()
        if old not in text:
            raise SystemExit(f"{name} has no longer {old!r}: scripts/mutants/instrument.py needs a look")
        put(tree / name, text.replace(old, new).encode())
    sources = {}
    edits = {}
    for mutant in everything:
        name = mutant["file"]
        if name == "migrations" or mutant["state"] == "untried":
            continue
        source = sources.setdefault(name, Source(root / name))
        edits.setdefault(name, {})
        try:
            places = sql_edits(source, mutant, tree) if mutant["genre"] == "Sql" else [edit_of(source, mutant)]
        except Unfit as unfit:
            mutant.update(state=unfit.state, reason=str(unfit))
            continue
        for start, end, kind, node in places:
            edits.setdefault(name, {}).setdefault((start, end, kind), (node, []))[1].append(mutant)

    for number in range(ROUNDS):
        rendered = {}
        for name, of_file in edits.items():
            source, ready = sources[name], []
            for (start, end, kind), (node, of_node) in of_file.items():
                left = [m for m in of_node if m["state"] == "switched"]
                try:
                    if left:
                        ready.append((start, end, kind, node, pieces_of(source, kind, node, left), left))
                except Unfit as unfit:
                    for m in left:
                        m.update(state=unfit.state, reason=str(unfit))
            rendered[name] = Rendered(source, ready)
            put(tree / name, rendered[name].data())
        out.write_text(json.dumps(everything, indent=1))
        said = subprocess.run([*check, "--message-format=json"], cwd=tree, capture_output=True, text=True)
        unexplained, left_out = [], {}
        for line in said.stdout.splitlines():
            message = json.loads(line).get("message") if line.startswith("{") else None
            if not isinstance(message, dict) or message.get("level") != "error" or not message.get("spans"):
                continue
            blamed = set()
            # What it is about, else what else it points at; of a value that is moved twice, where it is moved first.
            moved = (message.get("code") or {}).get("code") == "E0382"
            for primary in (False, True) if moved else (True, False):
                for span in message["spans"]:
                    if span["is_primary"] == primary and not blamed and (file := rendered.get(span["file_name"])):
                        blamed |= file.blamed(span["byte_start"], span["byte_end"])
            for mutant_id in blamed:
                left_out[mutant_id] = message["message"]
            if not blamed:
                unexplained.append(message["rendered"])
        for mutant_id, reason in left_out.items():
            by_id[mutant_id].update(state="not viable", reason=reason)
        print(f"round {number + 1}: {len(left_out)} mutants do not compile", file=sys.stderr)
        if said.returncode == 0:
            break
        if not left_out:
            raise SystemExit("\n".join(unexplained[:5]) or said.stderr[-3000:])
    else:
        raise SystemExit(f"it does not compile after {ROUNDS} rounds")
    out.write_text(json.dumps(everything, indent=1))
    for old in sorted(p for p in tree.rglob("*.rs") if p.relative_to(tree).as_posix() not in copied and p.name != "mutant.rs"):
        if "target" not in old.parts and ".cache" not in old.parts and "node_modules" not in old.parts:
            old.unlink()


main()
