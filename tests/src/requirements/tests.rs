//! The tests of a source file: their names, the requirements that they name, whether they are run, and whether they assert anything.

use std::collections::HashMap;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Prefixes of asserting macros.
const ASSERTING_MACROS: [&str; 3] = ["assert", "prop_assert", "panic"];
/// Functions that fail a test unless a condition holds.
const ASSERTING_CALLS: [&str; 3] = ["expect_err", "unwrap_err", "wait_for"];

/// How the comment above a test begins that lists the ids of the requirements which the test covers: `E01, E03.`
const REQUIREMENTS: &str = "Requirements:";

/// A test of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFunction {
    pub name: String,
    /// The ids that the comment above it lists.
    pub requirements: Vec<String>,
    /// Whether it runs: neither ignored nor always skipped.
    pub runs: bool,
    /// Whether its body asserts something, or calls a function of the file that does.
    pub asserts: bool,
}

/// A Rust function.
struct Function {
    name: String,
    requirements: Vec<String>,
    is_test: bool,
    is_ignored: bool,
    asserts: bool,
    calls: Vec<String>,
}

/// Returns the tests of a Rust file, including those inside macros such as `proptest!`. Comments and strings don't
/// count.
pub fn in_rust(source: &str) -> Result<Vec<TestFunction>, String> {
    let tokens = TokenStream::from_str(source).map_err(|error| error.to_string())?;
    let mut functions = Vec::new();
    collect(tokens, &mut functions);
    let asserting: HashMap<&str, bool> = functions
        .iter()
        .filter(|function| !function.is_test)
        .map(|function| (function.name.as_str(), function.asserts))
        .collect();
    let tests = functions.iter().filter(|function| function.is_test);
    Ok(tests
        .map(|test| TestFunction {
            name: test.name.clone(),
            requirements: test.requirements.clone(),
            runs: !test.is_ignored,
            asserts: test.asserts
                || test
                    .calls
                    .iter()
                    .any(|call| asserting.get(call.as_str()) == Some(&true)),
        })
        .collect())
}

/// The ids that a comment lists. None: it is another comment.
fn listed(comment: &str) -> Option<Vec<String>> {
    let ids = comment.trim().strip_prefix(REQUIREMENTS)?;
    let ids = ids.trim_end_matches('.').split(',');
    Some(ids.map(|id| id.trim().to_owned()).collect())
}

/// How many comments of a file list requirements, above a test or not.
pub fn lists(source: &str) -> usize {
    let comments = source.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    comments
        .filter(|comment| listed(comment.trim_start_matches(['/', '!'])).is_some())
        .count()
}

/// Collects the functions in these tokens, at any depth outside functions.
fn collect(tokens: TokenStream, functions: &mut Vec<Function>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut attributes: Vec<String> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if let Some(TokenTree::Group(group)) = tokens.get(at + 1) {
                    attributes.push(group.stream().to_string().replace(' ', ""));
                    at += 1;
                }
            }
            TokenTree::Ident(word) if word == "fn" => {
                if let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                    let rest = tokens[at + 2..].iter();
                    let body = rest.enumerate().find_map(|(offset, token)| match token {
                        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                            Some((offset, group.stream()))
                        }
                        _ => None,
                    });
                    if let Some((offset, body)) = body {
                        functions.push(function(name.to_string(), &attributes, body));
                        at += 2 + offset;
                    }
                }
                attributes.clear();
            }
            TokenTree::Ident(word)
                if ["pub", "async", "const", "unsafe", "extern"]
                    .iter()
                    .any(|one| word == one) => {}
            TokenTree::Group(group) => {
                // `pub(crate)` stands between an attribute and its function.
                if group.delimiter() == Delimiter::Brace || group.stream().to_string().contains("fn ") {
                    collect(group.stream(), functions);
                    attributes.clear();
                }
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => attributes.clear(),
        }
        at += 1;
    }
}

fn function(name: String, attributes: &[String], body: TokenStream) -> Function {
    let path = |attribute: &str| attribute.split(['(', '=']).next().unwrap_or_default().to_owned();
    let mut function = Function {
        name,
        requirements: attributes
            .iter()
            .filter_map(|attribute| listed(attribute.strip_prefix("doc=\"")?.trim_end_matches('"')))
            .flatten()
            .collect(),
        is_test: attributes
            .iter()
            .any(|attribute| path(attribute).split("::").last() == Some("test")),
        is_ignored: attributes.iter().any(|attribute| path(attribute) == "ignore"),
        asserts: false,
        calls: Vec::new(),
    };
    look(body, &mut function);
    function
}

/// Collects the assertions and calls of a body.
fn look(body: TokenStream, function: &mut Function) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                match tokens.get(at + 1) {
                    Some(TokenTree::Punct(punct)) if punct.as_char() == '!' => {
                        function.asserts |= ASSERTING_MACROS.iter().any(|name| word.starts_with(name))
                            && matches!(tokens.get(at + 2), Some(TokenTree::Group(_)));
                    }
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                        function.asserts |= ASSERTING_CALLS.contains(&word.as_str());
                        function.calls.push(word);
                    }
                    _ => {}
                }
            }
            TokenTree::Group(group) => look(group.stream(), function),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Returns the tests of a formatted JavaScript or TypeScript file: a body ends at the first brace with its test's
/// indentation.
pub fn in_javascript(source: &str) -> Vec<TestFunction> {
    let lines: Vec<&str> = source.lines().collect();
    let helpers: HashMap<&str, bool> = (0..lines.len())
        .filter_map(|at| Some((helper(lines[at])?, asserts(&block(&lines, at)))))
        .collect();
    let tests = (0..lines.len()).filter_map(|at| {
        let (title, runs) = title(&lines, at)?;
        let body = block(&lines, at);
        let calls_one = helpers
            .iter()
            .any(|(name, asserts)| *asserts && body.contains(&format!("{name}(")));
        let above = at
            .checked_sub(1)
            .and_then(|above| lines[above].trim().strip_prefix("//"));
        Some(TestFunction {
            name: title,
            requirements: above.and_then(listed).unwrap_or_default(),
            runs,
            asserts: asserts(&body) || calls_one,
        })
    });
    tests.collect()
}

/// Returns the title of the test that begins in a line, and whether it runs.
fn title(lines: &[&str], at: usize) -> Option<(String, bool)> {
    let line = lines[at].trim_start();
    let rest = line.strip_prefix("test").or(line.strip_prefix("it"))?;
    let open = rest.find('(')?;
    let modifier = &rest[..open];
    if !matches!(modifier, "" | ".skip" | ".todo" | ".only" | ".concurrent") {
        return None;
    }
    // A long title has its own line.
    let text = match rest[open + 1..].trim() {
        "" => lines.get(at + 1)?.trim(),
        text => text,
    };
    let quote = text.chars().next().filter(|quote| ['\'', '"', '`'].contains(quote))?;
    let title = text[1..].split(quote).next()?;
    Some((title.to_owned(), !matches!(modifier, ".skip" | ".todo")))
}

/// Returns the name of the function that begins in a line.
fn helper(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let named = match line.strip_prefix("function ") {
        Some(named) => named,
        None => line.strip_prefix("const ").filter(|line| line.contains("=>"))?,
    };
    let end = named.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')?;
    Some(&named[..end])
}

/// Returns the lines of a test or function that begins at a line, without comments.
fn block(lines: &[&str], at: usize) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let begin = indent(lines[at]);
    let mut body = vec![lines[at]];
    let is_whole = lines[at].trim_end().ends_with(")") || lines[at].trim_end().ends_with(';');
    if !is_whole {
        for line in &lines[at + 1..] {
            body.push(line);
            let closes = line.trim_start().starts_with(['}', ')', ']']) && indent(line) == begin;
            if closes && !line.trim_end().ends_with('{') {
                break;
            }
        }
    }
    let code = body.iter().filter(|line| !line.trim_start().starts_with("//"));
    code.copied().collect::<Vec<_>>().join("\n")
}

fn asserts(body: &str) -> bool {
    ["assert.", "assert(", "expect("].iter().any(|call| body.contains(call))
}

#[cfg(test)]
mod checks {
    use super::*;

    fn rust(source: &str) -> Vec<(String, bool, bool)> {
        let found = in_rust(source).unwrap().into_iter();
        found.map(|test| (test.name, test.runs, test.asserts)).collect()
    }

    #[test]
    fn tests_of_rust_are_found_in_modules_and_in_macros() {
        let source = "
            #[tokio::test(flavor = \"multi_thread\")]
            async fn one() { assert_eq!(1, 1); }
            mod inner { #[test] fn two() { if true { insta::assert_snapshot!(\"x\") } } }
            proptest! { #[test] fn three(x in 0..3) { prop_assert!(x < 3); } }
            fn four() { assert!(true) }
        ";
        let names: Vec<(String, bool, bool)> = ["one", "two", "three"].map(|name| (name.to_owned(), true, true)).into();
        assert_eq!(rust(source), names);
    }

    #[test]
    fn an_emptied_test_is_found_whatever_its_comments_and_texts_say() {
        for body in [
            "",
            "// assert!(true)\n",
            "let text = \"assert!(true)\";",
            "let assert = 1; let _ = assert != 2;",
            "setup();",
        ] {
            let source = format!("fn setup() {{}}\n#[test]\nfn emptied() {{ {body} }}");
            assert_eq!(rust(&source), [("emptied".to_owned(), true, false)], "{body}");
        }
    }

    #[test]
    fn a_function_of_the_file_asserts_for_its_test_one_level_deep() {
        let source = "fn check() { assert!(true) } fn deep() { check() } #[test] fn near() { check() } #[test] fn far() { deep() }";
        assert_eq!(
            rust(source),
            [("near".to_owned(), true, true), ("far".to_owned(), true, false)]
        );
    }

    #[test]
    fn the_requirements_of_a_test_are_listed_above_it() {
        let source = concat!(
            "/// One.\n///\n/// Requirements: E01, E03.\n#[test]\nfn one() {}\n",
            "#[test]\n/// Requirements: A02.\nfn two() {}\n",
            "/// Requirements: A02.\nfn three() {}\n"
        );
        let found: Vec<Vec<String>> = in_rust(source)
            .unwrap()
            .into_iter()
            .map(|test| test.requirements)
            .collect();
        assert_eq!(found, [vec!["E01", "E03"], vec!["A02"]]);
        assert_eq!(lists(source), 3);
        let source = "// Requirements: E01.\ntest('one', () => {\n})\ntest('two', () => {\n})\n";
        let found: Vec<Vec<String>> = in_javascript(source)
            .into_iter()
            .map(|test| test.requirements)
            .collect();
        assert_eq!(found, [vec!["E01"], vec![]]);
    }

    #[test]
    fn an_ignored_test_is_not_run() {
        let source = "#[test]\n#[ignore = \"slow\"]\nfn slow() { assert!(true) }";
        assert_eq!(rust(source), [("slow".to_owned(), false, true)]);
    }

    #[test]
    fn tests_of_javascript_are_found_with_what_they_assert() {
        let source = "
async function check(page) {
  assert.equal(await page.title(), 'x')
}
test('a page, (and more)', { skip }, async () => {
  await go()
  if (x) {
    assert.ok(true)
  }
})
test('emptied', async () => {
  // assert.ok(true)
  await go()
})
test('helped', { skip }, async (t) => {
  await check(t)
})
test.skip('skipped', () => {
  expect(1).toBe(1)
})
  it('short', () => expect(1).toBe(1))
test(
  'long',
  async () => {
    assert.ok(1)
  },
)
";
        let found = in_javascript(source).into_iter();
        let found: Vec<(String, bool, bool)> = found.map(|test| (test.name, test.runs, test.asserts)).collect();
        let expected = [
            ("a page, (and more)", true, true),
            ("emptied", true, false),
            ("helped", true, true),
            ("skipped", false, true),
            ("short", true, true),
            ("long", true, true),
        ];
        assert_eq!(
            found,
            expected.map(|(name, runs, asserts)| (name.to_owned(), runs, asserts))
        );
    }
}
