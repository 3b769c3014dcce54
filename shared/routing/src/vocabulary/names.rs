//! Names of databases that are part of a longer word, or misspelt.

use super::Role;
use super::terms::{BIGQUERY, CLICKHOUSE, MONGO, MYSQL, NAME, POSTGRES, SNOWFLAKE, SQLITE};
use crate::databases::Databases;
use crate::words::Words;

/// Weight of a misspelled name.
pub(super) const MISSPELT: f32 = 2.5;

/// Prefixes of compounds with a name, such as `pg_dump`, MongoServerError and mysqldump.
const BEGINNINGS: [(&str, Databases); 9] = [
    ("pg_", POSTGRES),
    ("postgres", POSTGRES),
    ("mongo", MONGO),
    ("bigquery", BIGQUERY),
    ("bq_", BIGQUERY),
    ("mysql", MYSQL),
    ("mariadb", MYSQL),
    ("innodb_", MYSQL),
    ("sqlite", SQLITE),
];
/// Suffixes of German compounds, such as Beispieldokumente, with their base word.
pub(super) const ENDINGS: [(&str, &str); 6] = [
    ("dokumente", "dokumente"),
    ("dokumenten", "dokumente"),
    ("tabelle", "tabelle"),
    ("tabellen", "tabelle"),
    ("spalte", "spalte"),
    ("spalten", "spalte"),
];
/// An exception to these.
const MONGOLIA: &str = "mongol";

pub(super) fn compound(word: &str) -> Option<(Role, &'static str, usize)> {
    let begins = |(beginning, _): &&(&str, Databases)| word.starts_with(*beginning) && !word.starts_with(MONGOLIA);
    let (beginning, databases) = BEGINNINGS.iter().find(begins)?;
    Some((Role::Speaks(*databases, NAME), beginning, 1))
}

/// Names long enough for typo correction.
const LONG_NAMES: [(&str, Databases); 7] = [
    ("mongodb", MONGO),
    ("postgres", POSTGRES),
    ("postgresql", POSTGRES),
    ("bigquery", BIGQUERY),
    ("mariadb", MYSQL),
    ("clickhouse", CLICKHOUSE),
    ("snowflake", SNOWFLAKE),
];

/// Returns the name misspelled by this word, or by this and the next one together ("big qurey").
pub(super) fn misspelt(words: &Words, at: usize) -> Option<(Role, &'static str, usize)> {
    let word = words.text(at);
    let next = words.text(at + 1);
    let is_near =
        |name: &str, letters: usize, mut typed: std::iter::Chain<std::str::Bytes<'_>, std::str::Bytes<'_>>| {
            let near = letters.abs_diff(name.len()) <= 1;
            near && one_error(name.as_bytes(), &mut typed)
        };
    LONG_NAMES.iter().find_map(|(name, databases)| {
        if word.bytes().next() != name.bytes().next() {
            return None;
        }
        if is_near(name, word.len(), word.bytes().chain("".bytes())) {
            Some((Role::Speaks(*databases, MISSPELT), *name, 1))
        } else if name.starts_with(word) && is_near(name, word.len() + next.len(), word.bytes().chain(next.bytes())) {
            Some((Role::Speaks(*databases, MISSPELT), *name, 2))
        } else {
            None
        }
    })
}

/// Returns whether the edit distance is at most one insertion, deletion, substitution or transposition.
fn one_error(name: &[u8], typed: &mut impl Iterator<Item = u8>) -> bool {
    let mut buffer = [0; 16];
    let mut length = 0;
    for byte in typed {
        let Some(place) = buffer.get_mut(length) else {
            return false;
        };
        *place = byte;
        length += 1;
    }
    let typed = &buffer[..length];
    let same = name.iter().zip(typed).take_while(|(one, other)| one == other).count();
    let (name, typed) = (&name[same..], &typed[same..]);
    match (name, typed) {
        ([a, b, rest @ ..], [c, d, others @ ..]) if a == d && b == c && rest == others => true,
        ([], _) | (_, []) => name.len() + typed.len() <= 1,
        ([_, rest @ ..], [_, others @ ..]) => rest == others || name == others || rest == typed,
    }
}
