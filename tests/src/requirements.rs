//! Reads the tables of requirements (`docs/reference/requirements/`) and checks what they name: the code exists, and every test exists, is run,
//! and asserts something. And what tests say of themselves: above a test, `/// Requirements: E01, E03.` (`//` in JavaScript) lists the ids that it
//! covers. The tests in `tests/tests/operators/repository/requirements.rs` call it.
//!
//! - `tests` the tests of a file, in Rust or JavaScript, with the ids that they list and what they assert
//!
//! Invariant: a test counts as asserting only if its own body asserts, or calls a function of the same file whose body
//! does.

mod tests;

pub use tests::{TestFunction, in_javascript, in_rust};

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// One row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub requirement: String,
    /// Paths from the root of the repository.
    pub code: Vec<String>,
    /// Tests as named in the table.
    pub tests: Vec<String>,
    pub verdict: String,
}

/// Parses the rows of a Markdown table. Err: a line that is not a row.
pub fn rows(table: &str) -> Result<Vec<Row>, String> {
    let lines = table.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| {
            let cells = cells(line);
            let [id, requirement, code, tests, verdict] = cells.as_slice() else {
                return Err(format!(
                    "a row has five cells, and this one has {}: {line}",
                    cells.len()
                ));
            };
            Ok(Row {
                id: id.trim_matches('`').to_owned(),
                requirement: requirement.clone(),
                code: items(code),
                tests: items(tests),
                verdict: verdict.clone(),
            })
        })
        .collect()
}

/// Splits a row into cells; `\|` is a literal bar.
fn cells(line: &str) -> Vec<String> {
    const BAR: &str = "\u{0}";
    let line = line.trim().replace("\\|", BAR);
    let inner = line.strip_prefix('|').unwrap_or(&line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.split('|').map(|cell| cell.trim().replace(BAR, "|")).collect()
}

/// Returns a cell's items: its code spans or, without any, the parts separated by commas and line breaks.
fn items(cell: &str) -> Vec<String> {
    let spans: Vec<String> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    if !spans.is_empty() {
        return spans;
    }
    cell.replace("<br>", ",")
        .split(',')
        .map(|item| item.trim().to_owned())
        .filter(|item| !item.is_empty() && item != "-" && item != "none")
        .collect()
}

/// The tests of a file, in the language that its name says.
pub fn tests_of(path: &Path, source: &str) -> Result<Vec<TestFunction>, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => in_rust(source).map_err(|error| format!("{}: {error}", path.display())),
        _ => Ok(in_javascript(source)),
    }
}

/// What is wrong with the lists of requirements in a file: ids that do not exist, and lists that are above no test.
pub fn list_faults(path: &Path, source: &str, ids: &BTreeSet<String>) -> Vec<String> {
    // Most files list none, and to read a file takes much longer than to look for comments.
    let lists = tests::lists(source);
    if lists == 0 {
        return Vec::new();
    }
    let tests = match tests_of(path, source) {
        Ok(tests) => tests,
        Err(fault) => return vec![fault],
    };
    let file = path.display();
    let mut faults = Vec::new();
    for test in &tests {
        let unknown = test.requirements.iter().filter(|id| !ids.contains(*id));
        faults.extend(unknown.map(|id| format!("{file}: {}: there is no requirement {id:?}", test.name)));
    }
    let listing = tests.iter().filter(|test| !test.requirements.is_empty()).count();
    if lists != listing {
        faults.push(format!(
            "{file}: lists of requirements: {lists}, of them above a test: {listing}; each list is one line above a test"
        ));
    }
    faults
}

/// Looks up the names in rows; reads each file once.
pub struct Repository {
    root: PathBuf,
    files: HashMap<PathBuf, Vec<TestFunction>>,
}

impl Repository {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            files: HashMap::new(),
        }
    }

    /// Returns the faults of a row.
    pub fn faults(&mut self, row: &Row) -> Vec<String> {
        let mut faults = Vec::new();
        if row.requirement.is_empty() {
            faults.push("says no requirement".to_owned());
        }
        if row.code.is_empty() && !is_decision(&row.verdict) {
            faults.push("names no code".to_owned());
        }
        for path in &row.code {
            if !self.root.join(path).exists() {
                faults.push(format!("code that does not exist: {path}"));
            }
        }
        for test in &row.tests {
            if let Err(fault) = self.check(test) {
                faults.push(fault);
            }
        }
        faults.extend(self.verdict_fault(row));
        faults.into_iter().map(|fault| format!("{}: {fault}", row.id)).collect()
    }

    fn verdict_fault(&self, row: &Row) -> Option<String> {
        let verdict = row.verdict.as_str();
        if verdict == "works" {
            return row.tests.is_empty().then(|| "works, and no test says so".to_owned());
        }
        if !is_decision(verdict) && !verdict.contains("measured") {
            return Some(format!("the verdict is works, decision or measured, not: {verdict}"));
        }
        let mut targets = verdict.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let tables = self.root.join("docs/reference/requirements");
        let is_there = |target: &str| {
            let path = target.split('#').next().unwrap_or_default();
            tables.join(path).exists()
        };
        match targets.next() {
            None => Some(format!("the verdict links to no document: {verdict}")),
            Some(target) if !is_there(target) => Some(format!("a document that does not exist: {target}")),
            Some(_) => None,
        }
    }

    /// Err: why a named test is invalid.
    pub fn check(&mut self, named: &str) -> Result<(), String> {
        let (path, name) = self
            .place(named)
            .ok_or_else(|| format!("this names no test: {named}"))?;
        let file = self.root.join(&path);
        if !self.files.contains_key(&file) {
            let source =
                std::fs::read_to_string(&file).map_err(|error| format!("{named}: {}: {error}", path.display()))?;
            self.files.insert(file.clone(), tests_of(&path, &source)?);
        }
        let mut found = self.files[&file].iter().filter(|test| test.name == name);
        let Some(test) = found.next() else {
            return Err(format!("there is no such test: {named}"));
        };
        match test {
            TestFunction { runs: false, .. } => Err(format!("the test is not run: {named}")),
            TestFunction { asserts: false, .. } => Err(format!("the test asserts nothing: {named}")),
            TestFunction { .. } => Ok(()),
        }
    }

    /// The file and the name of a test: `chat::turns::name`, `worker/src/run/limits.rs::name`, or `web/tests/chat.test.mjs: title`.
    fn place(&self, named: &str) -> Option<(PathBuf, String)> {
        if let Some((path, title)) = named.split_once(": ") {
            return Some((path.into(), title.trim().to_owned()));
        }
        let (path, name) = named.rsplit_once("::")?;
        let path = match path.split_once(".rs") {
            // The rest are modules in the file.
            Some((file, _)) => PathBuf::from(format!("{file}.rs")),
            None => self.integration_test(&format!("{}.rs", path.replace("::", "/"))),
        };
        Some((path, name.to_owned()))
    }

    /// The path of a file of integration tests: the folder of one of their programs has it.
    fn integration_test(&self, file: &str) -> PathBuf {
        let programs = Path::new("tests/tests");
        let entries = std::fs::read_dir(self.root.join(programs))
            .into_iter()
            .flatten()
            .flatten();
        let mut paths = entries.map(|entry| programs.join(entry.file_name()).join(file));
        paths
            .find(|path| self.root.join(path).is_file())
            .unwrap_or_else(|| programs.join(file))
    }
}

fn is_decision(verdict: &str) -> bool {
    verdict.contains("decision")
}

#[cfg(test)]
mod checks {
    use super::*;

    const TABLE: &str = "# C\n\n| id | requirement | code | test | verdict |\n| --- | --- | --- | --- | --- |\n\
        | C01 | An agent runs. | `src/lib.rs` | `one::runs`, `web/a.test.mjs: a click, and a word` | works |\n\
        | C02 | It is fast. | `src/lib.rs` | | [decision 1](../../decisions/0001-one-binary.md) |\n";

    fn repository(name: &str, test: &str) -> (PathBuf, Repository) {
        let root = std::env::temp_dir().join(format!("rejoin-{name}-{}", uuid::Uuid::now_v7()));
        for (path, text) in [
            ("src/lib.rs", ""),
            ("tests/tests/some/one.rs", test),
            (
                "web/a.test.mjs",
                "test('a click, and a word', () => {\n  assert.ok(true)\n})\n",
            ),
            ("docs/reference/requirements/c.md", ""),
            ("docs/decisions/0001-one-binary.md", ""),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (root.clone(), Repository::at(root))
    }

    fn faults(test: &str) -> Vec<String> {
        let (root, mut repository) = repository("gate", test);
        let rows = rows(TABLE).unwrap();
        let faults = rows.iter().flat_map(|row| repository.faults(row)).collect();
        std::fs::remove_dir_all(root).unwrap();
        faults
    }

    #[test]
    fn a_table_is_read_as_rows_of_code_tests_and_verdict() {
        let rows = rows(TABLE).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].id.as_str(), rows[0].requirement.as_str()),
            ("C01", "An agent runs.")
        );
        assert_eq!(rows[0].code, ["src/lib.rs"]);
        assert_eq!(rows[0].tests, ["one::runs", "web/a.test.mjs: a click, and a word"]);
        assert_eq!(rows[1].tests, [""; 0]);
        assert!(super::rows("| a |\n| - |\n| C01 | only this |\n").is_err());
    }

    #[test]
    fn a_row_whose_test_asserts_has_no_fault() {
        assert_eq!(faults("#[test]\nfn runs() { assert!(true) }"), [""; 0]);
    }

    #[test]
    fn an_emptied_test_a_missing_one_and_an_ignored_one_are_found() {
        assert_eq!(
            faults("#[test]\nfn runs() { let _ = 1; }"),
            ["C01: the test asserts nothing: one::runs"]
        );
        assert_eq!(
            faults("#[test]\nfn other() { assert!(true) }"),
            ["C01: there is no such test: one::runs"]
        );
        assert_eq!(
            faults("fn runs() { assert!(true) }"),
            ["C01: there is no such test: one::runs"]
        );
        assert_eq!(
            faults("#[test]\n#[ignore]\nfn runs() { assert!(true) }"),
            ["C01: the test is not run: one::runs"]
        );
    }

    #[test]
    fn a_list_of_unknown_requirements_or_above_no_test_is_found() {
        let ids = BTreeSet::from(["E01".to_owned()]);
        let faults = |source: &str| list_faults(Path::new("one.rs"), source, &ids);
        assert_eq!(faults("/// Requirements: E01.\n#[test]\nfn one() {}\n"), [""; 0]);
        assert_eq!(
            faults("/// Requirements: E01, E99.\n#[test]\nfn one() {}\n"),
            ["one.rs: one: there is no requirement \"E99\""]
        );
        for source in [
            "/// Requirements: E01.\nfn one() {}\n",
            "//! Requirements: E01.\n",
            "// Requirements: E01.\n#[test]\nfn one() {}\n",
            "/// Requirements: E01.\nstruct One;\n",
        ] {
            assert_eq!(
                faults(source),
                ["one.rs: lists of requirements: 1, of them above a test: 0; each list is one line above a test"],
                "{source}"
            );
        }
    }

    #[test]
    fn code_and_decisions_that_do_not_exist_are_found() {
        let (root, mut repository) = repository("gate-paths", "#[test]\nfn runs() { assert!(true) }");
        let row = |code: &str, tests: &str, verdict: &str| Row {
            id: "C09".to_owned(),
            requirement: "x".to_owned(),
            code: items(code),
            tests: items(tests),
            verdict: verdict.to_owned(),
        };
        assert_eq!(
            repository.faults(&row("`src/gone.rs`", "`one::runs`", "works")),
            ["C09: code that does not exist: src/gone.rs"]
        );
        assert_eq!(
            repository.faults(&row("`src/lib.rs`", "", "works")),
            ["C09: works, and no test says so"]
        );
        assert_eq!(
            repository.faults(&row("`src/lib.rs`", "", "[decision 9](../../decisions/0009-y.md)")),
            ["C09: a document that does not exist: ../../decisions/0009-y.md"]
        );
        assert_eq!(
            repository.faults(&row("`src/lib.rs`", "", "perhaps")),
            ["C09: the verdict is works, decision or measured, not: perhaps"]
        );
        std::fs::remove_dir_all(root).unwrap();
    }
}
