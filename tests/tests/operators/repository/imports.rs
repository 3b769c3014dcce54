//! Allowed imports between workspace members, and no import cycles between the files of a member.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{MEMBERS, read, sources};

/// The members, from the ground up: each may depend on those of the floors below its own, and on none of its own floor.
const FLOORS: [&[&str]; 20] = [
    &[
        // Knows no server but by its adapter.
        "conformance",
        "interleave",
        "shared/types",
        "shared/faults",
        "shared/schemas",
        "shared/routing",
        "shared/egress",
    ],
    &["shared/db", "shared/telemetry", "shared/local-postgres"],
    &["shared/queue", "shared/event-log", "shared/files", "shared/identity"],
    &["shared/archive", "shared/models", "shared/secrets", "shared/graph"],
    &["shared/integrations", "shared/tools"],
    &[
        "shared/extension",
        "shared/runs",
        "shared/model-client",
        "shared/mcp-client",
    ],
    &["shared/scheduling"],
    &["shared/commands"],
    &["shared/http"],
    &["shared/sse"],
    &["shared/chat"],
    &["shared/automation", "shared/dialects"],
    &["shared/a2a"],
    &[
        "extensions/work-graph",
        "extensions/products",
        "extensions/embeddings",
        "extensions/data-sources",
        "extensions/web-search",
        "extensions/calendar",
        "extensions/webhooks",
        "extensions/remote-tools",
        "examples/guestbook",
    ],
    &["extensions/registry"],
    &["api", "worker"],
    &["cli", "tests/provider-stand-in"],
    &["tests"],
    &["bench/bench-tables"],
    &["bench", "bench/bench-queue", "chaos"],
];

/// Returns a member's package name in manifests.
fn package(member: &str) -> String {
    match member.rsplit('/').next() {
        Some("cli") => "rejoin".to_owned(),
        name => format!("rejoin-{}", name.unwrap_or_default()),
    }
}

#[test]
fn members_import_only_what_they_may() {
    for (floor, members) in FLOORS.iter().enumerate() {
        let below: Vec<&str> = FLOORS[..floor].concat();
        for member in *members {
            let manifest = read(format!("{member}/Cargo.toml"));
            let mut in_dependencies = false;
            for line in manifest.lines() {
                if line.starts_with('[') {
                    in_dependencies = line.contains("dependencies");
                    continue;
                }
                let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
                let of_ours = MEMBERS.iter().find(|other| in_dependencies && package(other) == name);
                if let Some(other) = of_ours {
                    assert!(
                        below.contains(other),
                        "{member}/Cargo.toml names {name}, which is not below {member}"
                    );
                }
            }
        }
    }
    let listed: BTreeSet<&str> = FLOORS.concat().into_iter().collect();
    assert_eq!(listed, MEMBERS.into_iter().collect(), "each member is on a floor");
    let manifest = read("Cargo.toml");
    for member in MEMBERS {
        assert!(
            manifest.contains(&format!("    \"{member}\",\n")),
            "Cargo.toml does not name {member}"
        );
    }
}

#[test]
fn no_two_files_import_each_other_in_a_circle() {
    for member in MEMBERS {
        let circles = circles(&imports(&modules(member)));
        assert!(
            circles.is_empty(),
            "{member}: files import each other in circles: {circles:#?}"
        );
    }
}

/// Returns the code of each module of a member, by its path without `crate::`.
fn modules(member: &str) -> BTreeMap<String, String> {
    let folder = format!("{member}/src/");
    let mut modules = BTreeMap::new();
    for (file, text) in sources(&format!("{member}/src")) {
        let path = file.strip_prefix(&folder).and_then(|path| path.strip_suffix(".rs"));
        let Some(path) = path.filter(|path| !path.starts_with("bin/") && *path != "lib" && *path != "main") else {
            continue;
        };
        let code: Vec<&str> = text
            .lines()
            .take_while(|line| !line.starts_with("#[cfg(test)]\nmod tests") && *line != "mod tests {")
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect();
        modules.insert(path.replace('/', "::"), code.join("\n"));
    }
    modules
}

/// Returns the modules named by each module. A module and its submodules belong together: they may name each other.
fn imports(modules: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, code) in modules {
        let named = imports.entry(module.clone()).or_default();
        for path in paths(code) {
            let Some(absolute) = resolve(module, &path) else {
                continue;
            };
            let target = (1..=absolute.len())
                .rev()
                .map(|length| absolute[..length].join("::"))
                .find(|name| modules.contains_key(name));
            if let Some(target) = target {
                let is_family = *module == target
                    || module.starts_with(&format!("{target}::"))
                    || target.starts_with(&format!("{module}::"));
                if !is_family {
                    named.insert(target);
                }
            }
        }
    }
    imports
}

/// Returns all paths of a file that begin with `crate`, `super` or `self`, with braces expanded.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = ["crate::", "super::", "self::"]
        .iter()
        .filter_map(|begin| rest.find(begin))
        .min()
    {
        let is_word = rest[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':');
        let end = end_of_path(&rest[at..]);
        if !is_word {
            expand("", &rest[at..at + end], &mut found);
        }
        rest = &rest[at + end..];
    }
    found
}

/// Returns the length of a path, including its braces.
fn end_of_path(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' if depth > 0 || text[..at].ends_with("::") => depth += 1,
            '}' if depth > 1 => depth -= 1,
            '}' if depth == 1 => return at + 1,
            _ if depth > 0 || character.is_alphanumeric() || character == '_' || character == ':' => {}
            _ => return at.max(1),
        }
    }
    text.len()
}

/// `a::{b, c::{d}}` as `a::b`, `a::c::d`.
fn expand(before: &str, path: &str, found: &mut Vec<String>) {
    let path = path.trim();
    let Some((head, inner)) = path.split_once('{') else {
        let name = path.split(" as ").next().unwrap_or_default().trim();
        if !name.is_empty() {
            found.push(format!("{before}{name}"));
        }
        return;
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&format!("{before}{head}"), &inner[begin..at], found);
                begin = at + 1;
            }
            _ => {}
        }
    }
    expand(&format!("{before}{head}"), &inner[begin..], found);
}

/// Resolves a path from the crate's root. None: it leaves the crate.
fn resolve(module: &str, path: &str) -> Option<Vec<String>> {
    let mut segments = path
        .split("::")
        .map(str::trim)
        .filter(|segment| !segment.is_empty())
        .peekable();
    let mut from: Vec<String> = module.split("::").map(str::to_owned).collect();
    match segments.next()? {
        "crate" => from.clear(),
        "super" => {
            from.pop()?;
        }
        _ => {}
    }
    while segments.next_if_eq(&"super").is_some() {
        from.pop()?;
    }
    from.extend(segments.map(str::to_owned));
    Some(from)
}

/// Returns the strongly connected components, by Tarjan's algorithm.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut search = Search {
        imports,
        numbers: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for module in imports.keys() {
        if !search.numbers.contains_key(module.as_str()) {
            search.visit(module);
        }
    }
    search.found
}

struct Search<'a> {
    imports: &'a BTreeMap<String, BTreeSet<String>>,
    numbers: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    found: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, module: &'a str) -> usize {
        let number = self.numbers.len();
        self.numbers.insert(module, number);
        self.stack.push(module);
        let mut lowest = number;
        for target in self.imports.get(module).into_iter().flatten() {
            if !self.numbers.contains_key(target.as_str()) {
                lowest = lowest.min(self.visit(target));
            } else if self.stack.contains(&target.as_str()) {
                lowest = lowest.min(self.numbers[target.as_str()]);
            }
        }
        if lowest == number {
            let at = self.stack.iter().position(|other| *other == module).unwrap_or_default();
            let group = self.stack.split_off(at);
            if group.len() > 1 {
                self.found.push(group.into_iter().map(str::to_owned).collect());
            }
        }
        lowest
    }
}

#[test]
fn circles_are_found_through_braces_and_super() {
    let code = [
        ("a", "use crate::b::{self, c::D};"),
        ("b", "use super::e;"),
        ("b::c", "use crate::b::X; pub struct D;"),
        ("e", "fn f() { crate::a::g(); } // crate::h::i"),
        ("h", "use crate::a::A;"),
    ];
    let modules = code.map(|(name, code)| (name.to_owned(), code.split("//").next().unwrap_or_default().to_owned()));
    let found = circles(&imports(&modules.into()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].iter().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(["a", "b", "e"])
    );
}
