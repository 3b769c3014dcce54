//! Checks that the text which people and models read is plain English: error messages, tool descriptions, prompts, help of the
//! command line and the OpenAPI document. Reads the sources; needs nothing else.

use super::layout::sources;

/// The crates whose text reaches users, operators or models.
const PRODUCT: [&str; 5] = ["api", "worker", "cli", "shared", "extensions"];
/// Phrases that have a plainer equivalent, in lower case, matched as whole words.
const PHRASES: [&str; 22] = [
    "whoever",
    "whomever",
    "whosever",
    "somebody",
    "nobody",
    "anybody",
    "everybody",
    "is told",
    "are told",
    "be told",
    "of its own",
    "of their own",
    "any more",
    "is away",
    "so many",
    "is no",
    "are no",
    "makes no sense",
    "make no sense",
    "comes back",
    "can't be",
    "null means that",
];
/// Plain sentences that end in `is no` or `are no`. "Is no longer" is plain, too.
const EXISTENCE: [&str; 2] = ["there is no", "there are no"];
/// Keywords with which SQL statements begin.
const SQL: [&str; 10] = [
    "select ", "insert ", "update ", "delete ", "with ", "create ", "drop ", "alter ", "copy ", "grant ",
];
/// Derives whose doc comments become visible: as help of the command line, or in the OpenAPI document.
const VISIBLE: [&str; 6] = ["Parser", "Args", "Subcommand", "ValueEnum", "ToSchema", "IntoParams"];

/// A piece of text and the number of the line on which it begins.
#[derive(Debug, PartialEq)]
struct Text {
    line: usize,
    words: String,
}

/// The product part of a file, without the unit tests at its end.
fn product(text: &str) -> &str {
    let tests = text.match_indices("#[cfg(test)]").find(|(at, _)| {
        let line = text[..*at].rfind('\n').map_or(0, |end| end + 1);
        line == *at
    });
    &text[..tests.map_or(text.len(), |(at, _)| at)]
}

/// The string literals of Rust source, with escapes as written. Comments and character literals are skipped.
fn literals(text: &str) -> Vec<Text> {
    let bytes = text.as_bytes();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = |at: usize, word: &str| bytes[at..].starts_with(word.as_bytes());
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if starts(at, "//") {
            at += text[at..].find('\n').unwrap_or(bytes.len() - at);
        } else if starts(at, "/*") {
            at += text[at..].find("*/").map_or(bytes.len() - at, |end| end + 2);
        } else if bytes[at] == b'\'' {
            at += character(&text[at..]);
        } else if let Some(hashes) = raw(&text[at..]).filter(|_| at == 0 || !is_name(bytes[at - 1])) {
            let begin = at + 2 + hashes;
            let close = format!("\"{}", "#".repeat(hashes));
            let length = text[begin..].find(&close).unwrap_or(bytes.len() - begin);
            found.push(literal(text, begin, length));
            at = begin + length + close.len();
        } else if bytes[at] == b'"' {
            let length = quoted(&bytes[at + 1..]);
            found.push(literal(text, at + 1, length));
            at += length + 2;
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

fn literal(text: &str, begin: usize, length: usize) -> Text {
    Text {
        line: text[..begin].matches('\n').count() + 1,
        words: joined(&text[begin..begin + length]),
    }
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let content = match chars.next() {
        Some((_, '\\')) => chars.by_ref().nth(1).map(|(at, _)| at),
        Some((_, _)) => chars.next().map(|(at, _)| at),
        None => None,
    };
    // Escapes such as '\u{2019}' are longer.
    match content.and_then(|at| text[at..].find('\'').map(|close| (at, close))) {
        Some((at, 0)) => at + 1,
        Some((at, close)) if text[1..].starts_with("\\u{") && close < 10 => at + close + 1,
        Some(_) | None => 1,
    }
}

/// How many `#` a raw string literal at the beginning has.
fn raw(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a string literal's content.
fn quoted(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// Text with the line continuations of its literal joined.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + part.trim_start())
}

/// Returns the doc comments visible to users: of the types in [`VISIBLE`] with their fields and variants, and of HTTP
/// handlers.
fn docs(text: &str) -> Vec<Text> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut block: Vec<usize> = Vec::new();
    let mut is_visible = false;
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        if code.starts_with("///") {
            block.push(at);
            continue;
        }
        let derives = code.starts_with("#[derive(") && VISIBLE.iter().any(|name| code.contains(name));
        // An item ends at the margin.
        let is_over = line.starts_with(|c: char| !c.is_whitespace()) && line.ends_with(['}', ';']);
        is_visible |= derives;
        if is_visible || code.starts_with("#[utoipa::path") {
            found.extend(block.iter().map(|at| Text {
                line: at + 1,
                words: lines[*at].trim_start().trim_start_matches('/').trim().to_owned(),
            }));
        }
        is_visible &= !is_over;
        block.clear();
    }
    found
}

/// Returns the phrases in a text that have a plainer equivalent. Text between backticks is ignored.
fn phrases(words: &str) -> Vec<&'static str> {
    let said: String = words.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let said = said.to_lowercase();
    // A one-line statement is all in lower case; comments in longer ones are not.
    let is_sql = SQL.iter().any(|keyword| said.trim_start().starts_with(keyword))
        && (words.contains('\n') || words == words.to_lowercase());
    if is_sql || !said.trim().contains(' ') {
        return Vec::new();
    }
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    let is_said = |phrase: &str| {
        said.match_indices(phrase).any(|(at, _)| {
            let (before, after) = (&said[..at], &said[at + phrase.len()..]);
            let whole = is_edge(before.chars().next_back()) && is_edge(after.chars().next());
            let exists = EXISTENCE
                .iter()
                .any(|exists| said[..at + phrase.len()].ends_with(exists));
            whole && !exists && !(phrase.ends_with("no") && after.starts_with(" longer"))
        })
    };
    PHRASES.into_iter().filter(|phrase| is_said(phrase)).collect()
}

#[test]
fn texts_that_users_and_models_read_are_plain_english() {
    let mut found = Vec::new();
    for (file, text) in PRODUCT.iter().flat_map(|folder| sources(folder)) {
        let is_test = !file.contains("/src/") || file.ends_with("/tests.rs") || file.contains("/tests/");
        if is_test {
            continue;
        }
        let text = product(&text);
        for Text { line, words } in literals(text).into_iter().chain(docs(text)) {
            for phrase in phrases(&words) {
                found.push(format!("{file}:{line}: `{phrase}` in {words:?}"));
            }
        }
    }
    assert!(found.is_empty(), "write these in plain words: {found:#?}");
}

#[test]
fn literals_are_found_among_comments_characters_and_raw_strings() {
    let source = concat!(
        "// \"a comment\"\n/* \"another\" */ let quote = '\"'; let tick = '\\'';\n",
        "fn f<'a>(text: &'a str) { g(\"one \\\"two\\\" \\\n        three\", r#\"raw \"text\"\"#, '\\u{2019}', b\"bytes\") }\n",
    );
    let texts = |words: &str, line: usize| Text {
        line,
        words: words.to_owned(),
    };
    assert_eq!(
        literals(source),
        [
            texts("one \\\"two\\\" three", 3),
            texts("raw \"text\"", 4),
            texts("bytes", 4)
        ]
    );
    let documented =
        "/// Hidden.\nfn f() {}\n/// Shown.\n#[derive(Debug, Args)]\nstruct A {\n    /// A field.\n    a: u8,\n}\n";
    let shown: Vec<usize> = docs(documented).into_iter().map(|text| text.line).collect();
    assert_eq!(shown, [3, 6]);
}

#[test]
fn phrases_are_found_as_whole_words_outside_of_quotes_and_sql() {
    assert_eq!(phrases("Whoever has it, is told"), ["whoever", "is told"]);
    assert_eq!(phrases("{name:?} is no id"), ["is no"]);
    for plain in [
        "there is no run {id}",
        "the run is no longer active",
        "run it as the user `nobody`",
        "select id from t where nobody is told",
        "nobody",
    ] {
        assert_eq!(phrases(plain), Vec::<&str>::new(), "{plain}");
    }
}
