//! Placeholders in settings: `${NAME}` stands for the value of a workspace secret, `$${` for a literal `${`. Called where
//! settings are validated (names only) and where a connection is made (values).
//!
//! Invariant: an inserted value is never expanded again.

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Err: what is wrong with it.
fn pieces(template: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        if let Some(before) = before.strip_suffix('$') {
            pieces.push(Piece::Text(before));
            pieces.push(Piece::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        pieces.push(Piece::Text(before));
        let after = &rest[at + 2..];
        let end = after
            .find('}')
            .ok_or("`${` without a `}` after the name; write `$${` for a literal `${`")?;
        let name = &after[..end];
        let mut characters = name.chars();
        let begins = characters.next().is_some_and(|first| first.is_ascii_alphabetic());
        if !begins || !characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')) {
            return Err(format!("`${{{name}}}` is not a valid secret name"));
        }
        pieces.push(Piece::Name(name));
        rest = &after[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// Returns the secrets that it refers to.
///
/// # Errors
/// What is wrong with it.
pub fn names(template: &str) -> Result<Vec<&str>, String> {
    let names = pieces(template)?.into_iter().filter_map(|piece| match piece {
        Piece::Name(name) => Some(name),
        Piece::Text(_) => None,
    });
    Ok(names.collect())
}

/// Replaces each name by its value.
///
/// # Errors
/// What is wrong with it, or the name without a value.
pub fn filled(template: &str, mut value: impl FnMut(&str) -> Option<String>) -> Result<String, String> {
    let mut text = String::with_capacity(template.len());
    for piece in pieces(template)? {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Name(name) => {
                text.push_str(&value(name).ok_or_else(|| format!("the project has no secret {name}"))?);
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "s3cret ${OTHER}".to_owned())
    }

    #[test]
    fn names_are_filled_once_and_a_missing_one_is_an_error() {
        assert_eq!(filled("Bearer ${TOKEN}!", one).unwrap(), "Bearer s3cret ${OTHER}!");
        assert_eq!(filled("$${TOKEN} $5 {x}", one).unwrap(), "${TOKEN} $5 {x}");
        assert_eq!(
            filled("${MISSING}", one).unwrap_err(),
            "the project has no secret MISSING"
        );
        assert_eq!(names("${A}${B} ${A}").unwrap(), ["A", "B", "A"]);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for template in ["${", "${}", "${A B}", "${1}", "x ${A"] {
            assert!(names(template).is_err(), "{template}");
        }
    }
}
