//! Architecture tests on the source text: allowed imports, file heads, file lengths; and every setting is documented.
//! Reads the sources; needs nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

/// Maximum number of lines of a file, without the tests at its end.
const MAX_LINES: usize = 500;
/// Maximum number of lines of a crate: more take long to compile, and longer to know.
const MAX_LINES_OF_CRATE: usize = 13_000;
/// The crates of the engine, of its features, of the product, and of the tests.
pub(super) const MEMBERS: [&str; 51] = [
    "shared/types",
    "shared/faults",
    "shared/db",
    "shared/schemas",
    "shared/queue",
    "shared/event-log",
    "shared/archive",
    "shared/egress",
    "shared/local-postgres",
    "shared/telemetry",
    "shared/routing",
    "shared/files",
    "shared/models",
    "shared/identity",
    "shared/secrets",
    "shared/integrations",
    "shared/graph",
    "shared/tools",
    "shared/model-client",
    "shared/mcp-client",
    "shared/extension",
    "shared/runs",
    "shared/scheduling",
    "shared/commands",
    "shared/http",
    "shared/sse",
    "shared/chat",
    "shared/automation",
    "shared/dialects",
    "shared/a2a",
    "extensions/work-graph",
    "extensions/products",
    "extensions/embeddings",
    "extensions/data-sources",
    "extensions/web-search",
    "extensions/calendar",
    "extensions/webhooks",
    "extensions/remote-tools",
    "extensions/registry",
    "examples/guestbook",
    "api",
    "worker",
    "cli",
    "tests",
    "tests/provider-stand-in",
    "bench",
    "bench/bench-tables",
    "bench/bench-queue",
    "chaos",
    "conformance",
    "interleave",
];
/// Folders with generated, fetched or binary content.
const SKIPPED: [&str; 4] = ["target", "node_modules", "dist", "corpus"];
/// HTTP crates, by the prefix of their names in manifests and paths.
const HTTP: [&str; 5] = ["axum", "reqwest", "hyper", "tower_http", "utoipa"];
/// The crates of the engine that speak HTTP, each with its reason.
const SPEAK_HTTP: [(&str, &str); 11] = [
    ("shared/types", "describes events in the OpenAPI document"),
    ("shared/event-log", "describes snapshots in the OpenAPI document"),
    ("shared/egress", "the guard of what a project or a model names"),
    ("shared/model-client", "providers that the operator names"),
    ("shared/mcp-client", "rmcp's transport, with clients that ask the guard"),
    ("shared/http", "serves requests; asks the operator's identity provider"),
    ("shared/sse", "serves streams"),
    ("shared/chat", "receives messages and files, and answers with streams"),
    (
        "shared/automation",
        "serves plans, task DAGs and schedules, and retries dead jobs",
    ),
    ("shared/dialects", "serves other programs' clients"),
    ("shared/a2a", "serves other agents"),
];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

pub(super) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder of the workspace, as paths from the root, in order. Hidden ones are left out.
fn files(folder: &str) -> Vec<String> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if is_skipped(&path) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root()).expect("below the root").display().to_string());
            }
        }
    }
    found.sort();
    found
}

fn is_skipped(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || SKIPPED.contains(&&*name)
}

/// Returns all Rust files below a folder of the workspace: path from the root, text.
pub(super) fn sources(folder: &str) -> Vec<(String, String)> {
    let names = files(folder).into_iter().filter(|name| name.ends_with(".rs"));
    let found: Vec<(String, String)> = names.map(|name| (name.clone(), read(name))).collect();
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// Returns all text files below a folder of the workspace: path from the root, text.
pub(super) fn texts(folder: &str) -> Vec<(String, String)> {
    let text_of = |name: &str| std::fs::read_to_string(root().join(name)).ok();
    let found: Vec<(String, String)> = files(folder)
        .into_iter()
        .filter_map(|name| text_of(&name).map(|text| (name, text)))
        .collect();
    assert!(!found.is_empty(), "no text in {folder}");
    found
}

/// Returns the names in a manifest's dependency tables, spelled as in paths.
fn dependencies(member: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut in_table = false;
    for line in read(format!("{member}/Cargo.toml")).lines() {
        if line.starts_with('[') {
            in_table = line.contains("dependencies");
        } else if in_table && let Some(end) = line.find(['.', ' ', '=']) {
            names.insert(line[..end].replace('-', "_"));
        }
    }
    names
}

/// Returns lines of code: no comments, and no tests at the end of the file.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}

/// Returns lines with a path that begins with one of these names, `name::`.
fn mentions(text: &str, names: &[&str]) -> Vec<String> {
    let mentions = |line: &str| {
        names.iter().any(|name| {
            line.match_indices(&format!("{name}::")).any(|(at, _)| {
                !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':')
            })
        })
    };
    code(text).filter(|line| mentions(line)).map(str::to_owned).collect()
}

/// Requests to other programs pass the guard of `egress`. (`object_store` speaks HTTP to the operator's store by itself.)
#[test]
fn the_engine_speaks_http_in_few_places() {
    for member in MEMBERS.into_iter().filter(|member| member.starts_with("shared/")) {
        let dependencies = dependencies(member);
        let named: Vec<&String> = dependencies
            .iter()
            .filter(|name| HTTP.iter().any(|http| name.starts_with(http)))
            .collect();
        if SPEAK_HTTP.iter().any(|(name, _)| *name == member) {
            assert!(!named.is_empty(), "{member} needs no exception any more");
            continue;
        }
        assert!(named.is_empty(), "{member}/Cargo.toml names {named:?}");
        for (file, text) in sources(&format!("{member}/src")) {
            let lines = mentions(&text, &HTTP);
            assert!(lines.is_empty(), "{file} speaks HTTP: {lines:#?}");
        }
    }
}

#[test]
fn every_file_says_what_it_is_and_holds_one_thing() {
    for (file, text) in MEMBERS.iter().flat_map(|member| sources_of(member)) {
        assert!(
            text.starts_with("//!"),
            "{file} does not begin with `//!`: what it is, who calls it, the invariant it keeps"
        );
        assert!(!file.ends_with("/mod.rs"), "{file}: foo.rs beside foo/ instead");
        let lines = text
            .lines()
            .take_while(|line| !line.starts_with("#[cfg(test)]"))
            .count();
        assert!(
            lines <= MAX_LINES,
            "{file} has {lines} lines: what is the second thing in it?"
        );
    }
}

#[test]
fn no_crate_has_more_than_13_000_lines() {
    // Each folder of integration tests is a crate.
    let programs = std::fs::read_dir(root().join("tests/tests")).expect("the integration tests");
    let programs = programs.map(|entry| format!("tests/tests/{}", entry.expect("a folder").file_name().display()));
    let members = MEMBERS.iter().map(|member| format!("{member}/src"));
    let crates: Vec<String> = members.chain(programs).collect();
    assert!(crates.len() > MEMBERS.len(), "{crates:?}");
    for folder in crates {
        let lines: usize = sources(&folder).iter().map(|(_, text)| text.lines().count()).sum();
        assert!(
            lines <= MAX_LINES_OF_CRATE,
            "{folder} has {lines} lines: what is the second crate in it?"
        );
    }
}

/// `make test` runs no examples of documentation: for each crate, the compiler would have to find that it has none.
#[test]
fn no_documentation_has_examples_that_have_to_be_run() {
    let mut found = Vec::new();
    for member in MEMBERS {
        for (path, text) in sources_of(member) {
            let mut within = false;
            for line in text.lines().map(str::trim_start) {
                let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
                let Some(language) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else {
                    continue;
                };
                if !within && !["text", "json", "sql", "ignore"].contains(&language) {
                    found.push(path.clone());
                }
                within = !within;
            }
        }
    }
    assert!(
        found.is_empty(),
        "{found:?}: scripts/test.sh does not run them; write a test, and mark the example as `ignore`"
    );
}

fn sources_of(member: &str) -> Vec<(String, String)> {
    let folders = if member == "tests" {
        vec!["tests/src", "tests/tests"]
    } else {
        vec![member]
    };
    folders
        .into_iter()
        .flat_map(|folder| {
            if folder == member {
                sources(&format!("{member}/src"))
            } else {
                sources(folder)
            }
        })
        .collect()
}

/// Paths that exist on one machine only. (`/tmp` in a script's `mktemp` is portable.)
#[test]
fn nothing_names_a_place_of_one_machine() {
    // Concatenated, so that this file does not contain them.
    let places = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
    let mut files: Vec<(String, String)> = MEMBERS.iter().flat_map(|member| sources_of(member)).collect();
    for folder in ["docs", "scripts", "migrations"] {
        files.extend(texts(folder));
    }
    for name in [
        "README.md",
        "CHANGELOG.md",
        "Makefile",
        "Procfile",
        "Dockerfile",
        "docker-compose.yml",
        "Cargo.toml",
    ] {
        files.push((name.to_owned(), read(name)));
    }
    for (file, text) in files {
        // Homebrew's location on Linux.
        let text = text.replace(concat!("/ho", "me/linuxbrew/"), "");
        // The web app's route of a project of the work graph.
        let text = text.replace(concat!("/wo", "rk/{"), "");
        // A folder of the sources may have such a name: then something precedes it.
        let is_inner = |at: usize| text[..at].ends_with(|before: char| before.is_alphanumeric());
        for place in places {
            let is_named = text.match_indices(place).any(|(at, _)| !is_inner(at));
            assert!(!is_named, "{file} names {place}");
        }
    }
}

const PREFIX: &str = "REJOIN_";

/// Returns words that begin with the prefix.
fn variables(text: &str) -> BTreeSet<String> {
    text.match_indices(PREFIX)
        .map(|(at, _)| {
            let word = &text[at..];
            let end = word.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
            word[..end.unwrap_or(word.len())].to_owned()
        })
        .collect()
}

/// Returns every option and variable of a command and its subcommands: `(--flag, VARIABLE)`.
fn settings(command: &clap::Command, found: &mut BTreeSet<(String, String)>) {
    for argument in command.get_arguments() {
        if let (Some(long), Some(env)) = (argument.get_long(), argument.get_env()) {
            found.insert((format!("--{long}"), env.to_string_lossy().into_owned()));
        }
    }
    for subcommand in command.get_subcommands() {
        settings(subcommand, found);
    }
}

#[test]
fn the_configuration_document_names_every_setting_and_no_other() {
    let document = read("docs/reference/configuration.md");
    let mut documented = variables(&document);
    documented.remove(PREFIX);
    let mut used: BTreeSet<String> = MEMBERS
        .iter()
        .flat_map(|member| sources_of(member))
        .flat_map(|(_, text)| variables(&text))
        .collect();
    for script in [
        "env.sh",
        "postgres.sh",
        "run.sh",
        "test.sh",
        "setup-test.sh",
        "setup-search.sh",
    ] {
        used.extend(variables(&read(format!("scripts/{script}"))));
    }
    // Excludes the prefix itself, and variables passed to tests' own children.
    used.retain(|name| name != PREFIX && !name.starts_with("REJOIN_TEST_"));
    let missing: Vec<&String> = used.difference(&documented).collect();
    let stale: Vec<&String> = documented.difference(&used).collect();
    assert!(missing.is_empty(), "docs/reference/configuration.md lacks {missing:?}");
    assert!(
        stale.is_empty(),
        "docs/reference/configuration.md tells of {stale:?}, which nothing reads"
    );
}

#[test]
fn the_configuration_document_gives_each_flag_and_default() {
    let document = read("docs/reference/configuration.md");
    let mut found = BTreeSet::new();
    let command = rejoin_cli::args::Cli::command();
    settings(&command, &mut found);
    for (flag, variable) in found {
        let row = document
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{variable}`")));
        let row = row.unwrap_or_else(|| panic!("docs/reference/configuration.md has no row for {variable}"));
        assert!(
            row.contains(&format!("`{flag}`")),
            "the row of {variable} does not name {flag}: {row}"
        );
    }
    check_defaults(&command, &document);
}

fn check_defaults(command: &clap::Command, document: &str) {
    for argument in command.get_arguments() {
        let Some(variable) = argument.get_env().map(|name| name.to_string_lossy().into_owned()) else {
            continue;
        };
        if !argument.get_action().takes_values() {
            continue;
        }
        let row = document
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{variable}`")));
        let row = row.unwrap_or_else(|| panic!("docs/reference/configuration.md has no row for {variable}"));
        for default in argument.get_default_values() {
            let default = default.to_string_lossy();
            assert!(
                row.contains(&format!("| {default} |")),
                "the default of {variable} is {default}: {row}"
            );
        }
    }
    for subcommand in command.get_subcommands() {
        check_defaults(subcommand, document);
    }
}

#[test]
fn schemas_of_others_are_compiled_where_they_are_bounded() {
    let called = format!("{}::", "jsonschema");
    for member in MEMBERS {
        for (path, text) in sources(member) {
            let may = path.starts_with("shared/schemas/src");
            assert!(
                may || !text.contains(&called),
                "{path} compiles or checks schemas without a bound"
            );
        }
    }
}
