//! The words and phrases of messages that indicate a kind of database: whole words, each with a weight. Choosing takes
//! a weight of 1 (`LEAD` in `routing.rs`), so a word below it never decides alone.
//!
//! - `terms` the terms with their weights
//! - `names` names within longer words, and misspelt ones

mod names;
mod terms;

pub(super) use terms::{MONGO, SQL};

use std::collections::HashMap;
use std::sync::LazyLock;

use self::names::{ENDINGS, compound, misspelt};
use self::terms::{CLEAR, TERMS, WEAK};
use super::databases::Databases;
use super::evidence::{Evidence, Sign};
use super::words::Words;

/// Maximum length of a phrase, in words.
const MAX_PHRASE: usize = 4;

/// MongoDB's counterpart of tables. In English also what museums, tailors and creditors have: it suffices in the
/// position of a name, as in "the orders collection" or "every collection".
const COLLECTIONS: &str = "collection, collections, kollektion, sammlung, sammlungen, colección, coleccion, colecciones, coleção, colecao, coleções, collezione, collezioni, collectie, collecties, kolekcja, kolekcji, kolekcje, коллекция, коллекции, коллекций, コレクション, 集合, 컬렉션";
const DETERMINERS: &str = "every, each, which, what, all, many, list, show, jede, jeder, alle, welche, welcher, chaque, toutes, quelle, quelles, cada, todas, qué, quais, ogni, tutte, elke, alle";
/// Words that look like plural names and are none, before and after.
const NO_NAMES: &str = "this, does, was, has, whose, business, previous, various, always, perhaps, sales, results, figures, points, items, boxes, rates, agencies, dates, efforts, costs, fees, times, letters, calls";
const NAME_MIN_BYTES: usize = 4;

/// Words that negate what follows.
const NEGATORS: &str = "not, t, never, without, neither, nor, except, avoid, instead of, rather than, other than, used to have, used to be in, used to be on, used to use, formerly, scrap, skip, forget, equivalent of, equivalent to, equivalent for, counterpart of, counterpart to, answer to, come from, coming from, no longer, moved off, move off, we left, away from, nicht, nicht mehr, kein, keine, keinen, statt, anstatt, ohne, weder, lieber als, pas, sans, non pas, au lieu de, plutôt que, ni, sin, en lugar de, en vez de, não, nao, sem, em vez de, ao invés de, non, niet, geen, nie";
/// "No" negates, except in Portuguese: there, it means "in the".
const NO: &str = "no";
/// Words specific to Portuguese.
const PORTUGUESE: [&str; 18] = [
    "não", "nao", "uma", "qual", "quais", "quantos", "quantas", "faço", "você", "são", "há", "preciso", "nas", "nos",
    "das", "isso", "nosso", "nossa",
];
/// The last byte of a typographic apostrophe.
const APOSTROPHE_END: u8 = 0x99;
/// Words that may stand between such a word and the one it refers to.
const FILLERS: &str = "a, an, the, in, on, at, from, with, our, my, your, any, about, use, using, want, need, have, of, to, for, it, is, from the, der, die, das, den, dem, im, mit, in der, auf, unsere, unser, le, la, les, de, du, des, dans, avec, sur, en, el, los, las, con, o, os, as, na, do, da, em, com, il, op, het";

#[derive(Debug, Clone, Copy)]
enum Role {
    /// It indicates kinds of database, or none.
    Speaks(Databases, f32),
    Collection,
    Negates,
    Fills,
    /// It is only the first word of phrases.
    Begins,
}

#[derive(Debug, Clone, Copy)]
struct Term {
    text: &'static str,
    role: Role,
    /// Whether longer phrases begin with it.
    begins: bool,
}

type Vocabulary = HashMap<&'static str, Term>;

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut vocabulary = Vocabulary::new();
    let spoken = TERMS
        .iter()
        .flat_map(|(databases, weight, list)| listed(list).map(|text| (text, Role::Speaks(*databases, *weight))));
    let collections = listed(COLLECTIONS).map(|text| (text, Role::Collection));
    let negators = listed(NEGATORS).chain([NO]).map(|text| (text, Role::Negates));
    let fillers = listed(FILLERS).map(|text| (text, Role::Fills));
    for (text, role) in spoken.chain(collections).chain(negators).chain(fillers) {
        // A word with two roles, such as the Portuguese "no", keeps the first.
        let term = vocabulary.entry(text).or_insert(Term {
            text,
            role: Role::Begins,
            begins: false,
        });
        if matches!(term.role, Role::Begins) {
            term.role = role;
        }
        if let Some((first, _)) = text.split_once(' ') {
            let begins = Term {
                text: first,
                role: Role::Begins,
                begins: true,
            };
            vocabulary.entry(first).or_insert(begins).begins = true;
        }
    }
    vocabulary
});

fn listed(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(", ")
}

/// Adds the evidence of a message's words.
pub fn read(words: &Words, evidence: &mut Evidence) {
    let vocabulary = &*VOCABULARY;
    let mut negated = false;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        negated &= !word.begins_clause;
        let (role, text, count) = longest(vocabulary, words, at);
        let role = match role {
            Role::Collection if is_named(words, at) => Role::Speaks(MONGO, CLEAR),
            Role::Collection => Role::Speaks(MONGO, WEAK),
            role => role,
        };
        match role {
            Role::Speaks(databases, weight) => {
                let weight = if negated { -weight } else { weight };
                if !databases.is_empty() {
                    evidence.add(Sign {
                        term: text,
                        databases,
                        weight,
                    });
                }
                negated = false;
            }
            // "isn't" ends in a one-letter word, which negates nothing elsewhere ("a-t-il").
            Role::Negates if text == "t" => negated = matches!(word.before, b'\'' | APOSTROPHE_END),
            Role::Negates if text == NO && is_portuguese(words) => {}
            Role::Negates => negated = true,
            Role::Fills | Role::Collection => {}
            Role::Begins => negated = false,
        }
        at += count;
    }
}

fn is_portuguese(words: &Words) -> bool {
    (0..words.len()).any(|at| PORTUGUESE.contains(&words.text(at)))
}

/// Returns whether the word for a collection stands beside a possible name, or after "every" and the like.
fn is_named(words: &Words, at: usize) -> bool {
    let is_one_of = |list, text: &str| listed(list).any(|one| one == text);
    let is_name = |text: &str| {
        text.contains('_') || (text.len() >= NAME_MIN_BYTES && text.ends_with('s') && !is_one_of(NO_NAMES, text))
    };
    let (before, next) = (
        at.checked_sub(1).map_or("", |before| words.text(before)),
        words.text(at + 1),
    );
    let joined = |at: usize| words.get(at).is_some_and(|word| !word.begins_clause);
    (joined(at) && (is_name(before) || is_one_of(DETERMINERS, before))) || (joined(at + 1) && is_name(next))
}

/// Returns the meaning of the longest phrase that begins here, and its number of words.
fn longest(vocabulary: &Vocabulary, words: &Words, at: usize) -> (Role, &'static str, usize) {
    let word = words.text(at);
    let first = vocabulary.get(word).or_else(|| {
        let (_, end) = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending))?;
        vocabulary.get(end)
    });
    if first.is_some_and(|term| term.begins) {
        for count in (2..=MAX_PHRASE).rev() {
            if let Some(term) = vocabulary.get(words.phrase(at, count))
                && !(1..count).any(|next| words.get(at + next).is_some_and(|word| word.begins_clause))
            {
                return (term.role, term.text, count);
            }
        }
    }
    match first {
        Some(term) if !matches!(term.role, Role::Begins) => (term.role, term.text, 1),
        _ => match compound(words.text(at)).or_else(|| misspelt(words, at)) {
            Some((role, text, count)) => (role, text, count),
            None => (Role::Begins, "", 1),
        },
    }
}

#[cfg(test)]
mod tests;
