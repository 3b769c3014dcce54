//! Terms, compounds, negations and misspelt names in messages.

use super::names::MISSPELT;
use super::terms::{BIGQUERY, ENOUGH, MYSQL, NAME, POSTGRES, SQL};
use super::*;

fn weight(message: &str, databases: Databases) -> f32 {
    let mut evidence = Evidence::default();
    read(&Words::of(message), &mut evidence);
    evidence.about(databases)
}

#[test]
fn every_term_is_written_as_it_is_looked_for() {
    for text in TERMS
        .iter()
        .flat_map(|(_, _, list)| listed(list))
        .chain(listed(COLLECTIONS))
        .chain(listed(DETERMINERS))
        .chain(listed(NO_NAMES))
        .chain(listed(NEGATORS))
        .chain(listed(FILLERS))
    {
        assert_eq!(super::super::words::normal(text), text);
        assert!(text.split(' ').count() <= MAX_PHRASE, "{text}");
    }
}

/// Requirements: D07.
#[test]
fn each_keyword_counts_as_a_whole_word_in_any_case() {
    for (word, databases) in [
        ("mongo", MONGO),
        ("MongoDB", MONGO),
        ("Collection", MONGO),
        ("AGGREGATE", MONGO),
        ("bson", MONGO),
        ("BigQuery", BIGQUERY),
        ("BQ", BIGQUERY),
        ("sql", BIGQUERY),
        ("Select", BIGQUERY),
    ] {
        assert!(weight(&format!("the {word}, please"), databases) > 0.0, "{word}");
        assert_eq!(weight(&format!("the x{word}y, please"), databases), 0.0, "{word}");
    }
    // Common English words: no evidence, "select" hardly any, and "aggregate" is not enough by itself.
    for word in ["from", "where", "group", "project", "From", "WHERE"] {
        assert_eq!(weight(word, SQL) + weight(word, MONGO), 0.0, "{word}");
    }
    assert!(weight("select", SQL) < ENOUGH && weight("aggregate", MONGO) < ENOUGH);
}

#[test]
fn parts_of_words_and_unrelated_phrases_do_not_count() {
    for message in [
        "the group that works on the project",
        "grouped by projects",
        "tablespoons, stable, selection, recollection",
        "the garbage collection of Tuesday",
        "show it as a table",
        "a table of contents",
        "aggregate demand",
        "Mongolia",
    ] {
        assert_eq!(weight(message, SQL) + weight(message, MONGO), 0.0, "{message}");
    }
}

#[test]
fn a_collection_is_mongos_where_it_has_a_name() {
    for message in [
        "the orders collection",
        "in collection user_events",
        "la collection commandes",
        "which collections are there",
        "the 'carts' collection",
    ] {
        assert!(weight(message, MONGO) >= ENOUGH, "{message}");
    }
    for message in [
        "our summer collection",
        "the shoe collection",
        "this collection",
        "collection sales",
        "two boxes. Collections rose",
    ] {
        assert!(weight(message, MONGO) < ENOUGH, "{message}");
    }
}

#[test]
fn compounds_of_a_name_are_that_name() {
    for (word, databases) in [
        ("MongoServerError", MONGO),
        ("pg_dump", POSTGRES),
        ("mysqldump", MYSQL),
        ("bigquery_v2", BIGQUERY),
    ] {
        assert_eq!(weight(word, databases), NAME, "{word}");
    }
    assert_eq!(weight("Mongolian", MONGO), 0.0);
}

#[test]
fn what_is_denied_speaks_against() {
    for message in [
        "not mongo",
        "don't use MongoDB",
        "instead of Mongo",
        "it isn't in the mongo",
        "it isn’t Mongo",
        "no longer in Mongo",
        "nicht in Mongo",
        "pas Mongo",
        "no en Mongo",
        "não no Mongo",
        "what's the equivalent of Mongo",
    ] {
        assert!(weight(message, MONGO) < 0.0, "{message}");
    }
    for message in [
        "why does mongo not use it",
        "I don't know Mongo well",
        "that is not it: Mongo",
        "y a-t-il Mongo",
        "no, mongo",
        "Como faço no Mongo",
    ] {
        assert!(weight(message, MONGO) > 0.0, "{message}");
    }
}

#[test]
fn a_name_may_have_one_typing_error() {
    for (typed, databases) in [
        ("mogodb", MONGO),
        ("mongdob", MONGO),
        ("postgress", POSTGRES),
        ("big qurey", BIGQUERY),
        ("bigquerry", BIGQUERY),
        ("pstgres", POSTGRES),
    ] {
        assert!(weight(typed, databases) >= MISSPELT, "{typed}");
    }
    for typed in ["mongrel", "posters", "big query2 x", "mango", "biggest query"] {
        assert_eq!(weight(typed, MONGO) + weight(typed, POSTGRES), 0.0, "{typed}");
    }
}
