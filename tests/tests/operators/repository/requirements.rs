//! The tables of requirements, and the tests that cover them: each id exists, each test that a table names does, and names of tests
//! are short. Reads the sources; needs nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use rejoin_tests::requirements::{self, Repository};

use super::layout::{MEMBERS, read, root, texts};

/// The tables of requirements, and how many rows each has.
const TABLES: [(char, usize); 5] = [('a', 32), ('b', 26), ('c', 63), ('d', 60), ('e', 69)];
/// Maximum length of a test's name, in characters.
const NAME_MAX_CHARS: usize = 60;

#[test]
fn each_requirement_has_code_and_a_test_that_asserts() {
    let root = root();
    let mut repository = Repository::at(&root);
    let mut faults = Vec::new();
    for (section, count) in TABLES {
        let path = format!("docs/reference/requirements/{section}.md");
        let table = match std::fs::read_to_string(root.join(&path)) {
            Ok(table) => table,
            Err(error) => {
                faults.push(format!("{path}: {error}"));
                continue;
            }
        };
        let rows = requirements::rows(&table).unwrap_or_else(|fault| panic!("{path}: {fault}"));
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let letter = section.to_ascii_uppercase();
        let expected: Vec<String> = (1..=count).map(|number| format!("{letter}{number:02}")).collect();
        if ids != expected {
            faults.push(format!("{path} has the rows {ids:?}"));
        }
        faults.extend(rows.iter().flat_map(|row| repository.faults(row)));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// All files of the members and of the web app that may hold tests: path from the root, text.
fn files_with_tests() -> Vec<(String, String)> {
    let endings = [".rs", ".test.mjs", ".test.ts", ".test.tsx"];
    let folders = MEMBERS.iter().copied().chain(["web"]);
    folders
        .flat_map(texts)
        .filter(|(file, _)| endings.iter().any(|ending| file.ends_with(ending)))
        .collect()
}

#[test]
fn the_requirements_that_tests_list_exist() {
    let ids: BTreeSet<String> = TABLES
        .iter()
        .flat_map(|(section, _)| {
            requirements::rows(&read(format!("docs/reference/requirements/{section}.md"))).unwrap()
        })
        .map(|row| row.id)
        .collect();
    let faults: Vec<String> = files_with_tests()
        .iter()
        .flat_map(|(file, text)| requirements::list_faults(Path::new(file), text, &ids))
        .collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn names_of_tests_are_short_sentences() {
    let word = |rest: &str| {
        rest.chars()
            .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
            .count()
    };
    let has_long_name = |text: &str| text.split("fn ").skip(1).any(|rest| word(rest) > NAME_MAX_CHARS);
    for (file, text) in files_with_tests() {
        // Only these are worth reading as code.
        if !file.ends_with(".rs") || !has_long_name(&text) {
            continue;
        }
        for test in requirements::tests_of(Path::new(&file), &text).unwrap() {
            let length = test.name.chars().count();
            assert!(
                length <= NAME_MAX_CHARS,
                "{file}: {} has {length} characters, and {NAME_MAX_CHARS} is the maximum",
                test.name
            );
        }
    }
}
