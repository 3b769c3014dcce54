//! Query syntax that is specific to one language or SQL dialect, in consoles and within messages.
//!
//! - `dialects` the syntax of each dialect

mod dialects;

use std::collections::HashMap;
use std::sync::LazyLock;

use self::dialects::Place::{self, Anywhere, Called, Statement};
use self::dialects::{
    BEGINNINGS, BIGQUERY, CASTS, CLEAR, CLICKHOUSE, DUCKDB, HINT, KIN, MYSQL, POSTGRES, SHAPES, SQLITE, SURE,
};
use super::databases::Databases;
use super::evidence::{Evidence, Sign};
use super::vocabulary::{MONGO, SQL};
use super::words::Words;

/// Weight of a statement in any SQL.
const STATEMENT: f32 = 1.5;

/// The kinds indicated by a word or phrase, by position.
type Shapes = HashMap<&'static str, Vec<(Databases, f32, Place)>>;

static WORDS: LazyLock<Shapes> = LazyLock::new(|| {
    let mut words = Shapes::new();
    for (databases, weight, place, list) in SHAPES {
        for text in list.split(", ") {
            words.entry(text).or_default().push((*databases, *weight, *place));
            // So that phrases are only searched for at their first word.
            words.entry(text.split(' ').next().unwrap_or(text)).or_default();
        }
    }
    words
});

/// Maximum length of a phrase, in words.
const MAX_PHRASE: usize = 4;
/// Maximum distance of FROM behind SELECT, in words.
const MAX_SELECT: usize = 80;

/// Adds the evidence of query syntax in a text. `words` are the words of `source`; `is_code`: it is a console's.
pub fn read(source: &str, words: &Words, is_code: bool, evidence: &mut Evidence) {
    let add = |evidence: &mut Evidence, term, databases, weight| {
        evidence.add(Sign {
            term,
            databases,
            weight,
        })
    };
    let statement = statement(source, words, is_code);
    if let Some(term) = statement {
        add(evidence, term, SQL, STATEMENT);
    }
    let known = &*WORDS;
    for at in 0..words.len() {
        for count in 1..=MAX_PHRASE {
            let Some((term, shapes)) = known.get_key_value(words.phrase(at, count)) else {
                if count == 1 {
                    break;
                }
                continue;
            };
            let called = words.get(at + count - 1).is_some_and(|word| word.behind == b'(');
            for (databases, weight, place) in shapes {
                let fits = match place {
                    Anywhere => true,
                    Called => called,
                    Statement => statement.is_some(),
                };
                if fits {
                    add(evidence, term, *databases, *weight);
                }
            }
        }
        if let Some((term, databases, weight)) = around(words, at, statement.is_some()) {
            add(evidence, term, databases, weight);
        }
    }
    if source.split_whitespace().any(is_psql) {
        add(evidence, "\\d", POSTGRES, CLEAR);
    }
    if source.contains("->>") {
        add(evidence, "->>", POSTGRES.and(MYSQL).and(SQLITE).and(DUCKDB), CLEAR);
        add(evidence, "->> ", POSTGRES, 0.5);
    }
    if statement.is_some() {
        if source.contains("@>") || source.contains(" ~* ") {
            add(evidence, "@>", POSTGRES, SURE);
        }
        for quoted in source.split('`').skip(1).step_by(2) {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'*');
            if !quoted.is_empty() && quoted.bytes().all(is_name) {
                if quoted.contains('.') {
                    add(evidence, "`project.dataset.table`", BIGQUERY, SURE);
                } else {
                    add(evidence, "`name`", MYSQL.and(CLICKHOUSE), CLEAR);
                }
            }
        }
    }
}

/// Returns the evidence of one word with its neighbours.
fn around(words: &Words, at: usize, in_statement: bool) -> Option<(&'static str, Databases, f32)> {
    let word = words.get(at)?;
    let next = words.get(at + 1);
    match words.text(at) {
        // db.orders.find(…), and {"find({"…
        "db" if word.behind == b'.' && next.is_some_and(|next| matches!(next.behind, b'.' | b'(')) => {
            Some(("db.collection.…", MONGO, SURE))
        }
        "find" | "distinct" if word.before == b'.' && word.behind == b'(' => Some((".find(", MONGO, CLEAR)),
        "find" if word.behind == b'(' && matches!(word.further, b'{' | b')') => Some(("find({", MONGO, CLEAR)),
        // BigQuery's version has the column first, and the unit without quotes.
        "date_trunc" if word.behind == b'(' && word.further == b'\'' => Some(("date_trunc('…'", KIN, SURE)),
        "date_trunc" if word.behind == b'(' => Some(("date_trunc(column", BIGQUERY, CLEAR)),
        "interval" if in_statement && word.behind == b' ' && word.further == b'\'' => Some(("interval '…'", KIN, SURE)),
        "offset" if word.before == b'[' && word.behind == b'(' => Some(("[offset(", BIGQUERY, SURE)),
        // LIMIT 5, 10
        "limit" if in_statement && is_number(words.text(at + 1)) && next.is_some_and(|next| next.behind == b',') => {
            Some(("limit n, m", MYSQL.and(SQLITE), CLEAR))
        }
        "interval" if in_statement && word.behind == b' ' && word.further.is_ascii_digit() => {
            Some(("interval n", BIGQUERY.and(MYSQL), HINT))
        }
        "$1" | "$2" if in_statement => Some(("$1", POSTGRES, HINT)),
        text if word.before == b':' && CASTS.split(' ').any(|cast| cast == text) => {
            // `a: text` contains a space, `a::text` does not; `{a:text}` is no statement.
            in_statement.then_some(("::type", KIN, SURE))
        }
        text => BEGINNINGS
            .iter()
            .find(|(beginning, _, place)| text.starts_with(beginning) && (*place == Anywhere || word.behind == b'('))
            .map(|(beginning, databases, _)| (*beginning, *databases, SURE)),
    }
}

/// A psql command, such as `\dt`. Within a regular expression, `\d` doesn't start a word.
fn is_psql(word: &str) -> bool {
    let command = word.trim_matches('`').trim_end_matches(['+', '?', '.', ',']);
    matches!(
        command,
        "\\d" | "\\dt" | "\\di" | "\\dn" | "\\df" | "\\du" | "\\l" | "\\copy" | "\\timing" | "\\x"
    )
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the kind of SQL statement in the text, if any. "select … from" in prose is none: a statement has capitals,
/// or punctuation unusual in sentences.
fn statement(source: &str, words: &Words, is_code: bool) -> Option<&'static str> {
    let punctuated = || {
        source
            .bytes()
            .any(|byte| matches!(byte, b'=' | b'*' | b';' | b'<' | b'>'))
            || called(words)
    };
    for at in 0..words.len() {
        let shouted = words.get(at).is_some_and(|word| word.shouted);
        let (term, complete) = match words.text(at) {
            "select" => {
                let end = words.len().min(at + MAX_SELECT);
                let from = (at + 1..end).find(|from| words.text(*from) == "from");
                let both = from.is_some_and(|from| shouted && words.get(from).is_some_and(|from| from.shouted));
                if both {
                    return Some("SELECT … FROM");
                }
                ("SELECT … FROM", from.is_some())
            }
            "insert" => ("INSERT INTO", words.text(at + 1) == "into" && words.text(at + 2) != "a"),
            "delete" => ("DELETE FROM", words.text(at + 1) == "from"),
            "export" => ("EXPORT DATA", shouted && words.text(at + 1) == "data"),
            "copy" => ("COPY", shouted || words.text(at + 2) == "from"),
            "update" => ("UPDATE … SET", words.text(at + 2) == "set"),
            "merge" => ("MERGE", shouted),
            "create" | "alter" => (
                "CREATE",
                matches!(words.text(at + 1), "table" | "view" | "index" | "function")
                    || words.phrase(at + 1, 3) == "or replace table",
            ),
            "with" => (
                "WITH … AS (",
                words.text(at + 2) == "as" && words.get(at + 2).is_some_and(|word| word.further == b'('),
            ),
            "declare" => ("DECLARE", shouted),
            _ => continue,
        };
        if complete && (is_code || shouted || punctuated()) {
            return Some(term);
        }
    }
    None
}

/// Returns whether a bracket directly follows a word, as in `count(*)`.
fn called(words: &Words) -> bool {
    (0..words.len()).any(|at| words.get(at).is_some_and(|word| word.behind == b'('))
}

#[cfg(test)]
mod tests;
