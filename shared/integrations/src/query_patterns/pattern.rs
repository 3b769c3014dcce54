//! Query patterns without values, which members of a workspace share. Comments are dropped, strings and numbers become
//! `?`. A double-quoted text is kept only where it is an identifier or a document field and looks like one: a sentence
//! hidden in quotes does not reach another user's agent.

use crate::data_sources::Kind;

/// The placeholder of a value.
const VALUE: char = '?';
/// Maximum length of a quoted identifier that is kept, in characters.
const IDENTIFIER_MAX_CHARS: usize = 64;

/// Returns the pattern of a query in the language of `kind`.
pub fn pattern_of(query: &str, kind: Kind) -> String {
    let mut reading = Reading {
        rest: query,
        pattern: String::with_capacity(query.len()),
        kind,
    };
    while reading.step() {}
    reading.pattern.trim_end().to_owned()
}

struct Reading<'a> {
    rest: &'a str,
    pattern: String,
    kind: Kind,
}

impl<'a> Reading<'a> {
    /// Processes the next piece. False: there is none.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        if first.is_whitespace() {
            self.take(|char| char.is_whitespace());
            self.space();
        } else if let Some(end) = self.comment() {
            self.rest = &self.rest[end..];
            self.space();
        } else if first == '\'' || first == '"' {
            self.quoted(first, "");
        } else if first == '/' && self.kind == Kind::Mongodb {
            self.regular_expression();
        } else if first == '`' {
            self.backticks();
        } else if let Some(tag) = self.dollar_tag() {
            let inside = &self.rest[tag.len()..];
            let end = inside.find(tag).map_or(inside.len(), |at| at + tag.len());
            self.rest = &inside[end..];
            self.value();
        } else if first.is_ascii_digit() {
            self.take(|char| char.is_alphanumeric() || char == '.' || char == '_');
            self.value();
        } else if is_name(first) || first == '$' {
            let name = self.take(|char| is_name(char) || char.is_numeric() || char == '$');
            // A prefix belongs to its string: E'…', r"…", b'…', N'…'.
            match self.rest.chars().next() {
                Some(quote @ ('\'' | '"')) if name.len() <= 2 && name.is_ascii() => self.quoted(quote, name),
                Some(_) | None => self.pattern.push_str(name),
            }
        } else {
            self.pattern.push(first);
            self.rest = &self.rest[first.len_utf8()..];
        }
        true
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|char| !fits(char)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn space(&mut self) {
        if !self.pattern.is_empty() && !self.pattern.ends_with(' ') {
            self.pattern.push(' ');
        }
    }

    fn value(&mut self) {
        self.pattern.push(VALUE);
    }

    /// Returns where a comment that begins here ends.
    fn comment(&self) -> Option<usize> {
        let is_line = match self.kind {
            Kind::Mongodb => self.rest.starts_with("//"),
            Kind::Mysql | Kind::Bigquery => self.rest.starts_with("--") || self.rest.starts_with('#'),
            Kind::Postgresql | Kind::Sqlite | Kind::Duckdb => self.rest.starts_with("--"),
        };
        if is_line {
            return Some(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
        let inside = self.rest.strip_prefix("/*")?;
        let nests = matches!(self.kind, Kind::Postgresql | Kind::Duckdb);
        let (mut depth, mut at) = (1_u32, 0);
        while depth > 0 {
            let left = &inside[at..];
            let Some(end) = left.find("*/") else {
                return Some(self.rest.len());
            };
            match left.find("/*").filter(|begin| nests && *begin < end) {
                Some(begin) => (depth, at) = (depth + 1, at + begin + "/*".len()),
                None => (depth, at) = (depth - 1, at + end + "*/".len()),
            }
        }
        Some("/*".len() + at)
    }

    /// Processes a quoted text with an optional prefix: E'…', r"…", N'…'.
    fn quoted(&mut self, quote: char, prefix: &str) {
        let triple = quote.to_string().repeat(3);
        if let Some(inside) = self.rest.strip_prefix(&triple).filter(|_| self.kind == Kind::Bigquery) {
            let end = inside.find(&triple).map_or(inside.len(), |at| at + triple.len());
            self.rest = &inside[end..];
            return self.value();
        }
        let has_escapes = match self.kind {
            Kind::Mysql | Kind::Bigquery | Kind::Mongodb => true,
            Kind::Postgresql | Kind::Duckdb => prefix.eq_ignore_ascii_case("e"),
            Kind::Sqlite => false,
        };
        let inside = &self.rest[1..];
        let (mut end, mut skip) = (inside.len(), false);
        let mut chars = inside.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            if skip {
                skip = false;
            } else if char == '\\' && has_escapes {
                skip = true;
            } else if char == quote {
                // A doubled quote is one character of the text.
                if chars.next_if(|(_, next)| *next == quote).is_none() {
                    end = at;
                    break;
                }
            }
        }
        let text = &inside[..end];
        self.rest = inside.get(end + 1..).unwrap_or_default();
        if self.stays(quote, text) {
            self.pattern.push_str(&format!("{quote}{text}{quote}"));
        } else {
            self.value();
        }
    }

    /// Returns whether a quoted text is an identifier rather than a value.
    fn stays(&self, quote: char, text: &str) -> bool {
        let is_field = || self.rest.trim_start().starts_with(':') || text.starts_with('$');
        let is_name = match self.kind {
            Kind::Postgresql | Kind::Duckdb | Kind::Sqlite => quote == '"',
            Kind::Mongodb => is_field(),
            Kind::Mysql | Kind::Bigquery => false,
        };
        is_name && is_identifier(text)
    }

    /// `/…/flags` of a document query.
    fn regular_expression(&mut self) {
        let inside = &self.rest[1..];
        let mut is_escaped = false;
        let end = inside.find(|char| {
            let ends = char == '/' && !is_escaped;
            is_escaped = char == '\\' && !is_escaped;
            ends
        });
        self.rest = end.map_or("", |at| &inside[at + 1..]);
        self.take(char::is_alphabetic);
        self.value();
    }

    fn backticks(&mut self) {
        let inside = &self.rest[1..];
        let end = inside.find('`').unwrap_or(inside.len());
        let text = &inside[..end];
        self.rest = inside.get(end + 1..).unwrap_or_default();
        if self.kind != Kind::Mongodb && is_identifier(text) {
            self.pattern.push_str(&format!("`{text}`"));
        } else {
            self.value();
        }
    }

    /// A dollar-quote tag `$tag$` of PostgreSQL and DuckDB.
    fn dollar_tag(&self) -> Option<&'a str> {
        if !matches!(self.kind, Kind::Postgresql | Kind::Duckdb) {
            return None;
        }
        let inside = self.rest.strip_prefix('$')?;
        let end = inside.find('$')?;
        let is_tag = inside[..end].chars().all(|char| is_name(char) || char.is_numeric());
        is_tag.then(|| &self.rest[..end + 2])
    }
}

fn is_name(char: char) -> bool {
    char.is_alphabetic() || char == '_'
}

/// Returns whether a text looks like an identifier, or several separated by dots.
fn is_identifier(text: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '$' | '.' | '-' | '*');
    !text.is_empty() && text.chars().count() <= IDENTIFIER_MAX_CHARS && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirements: D52.
    #[test]
    fn a_pattern_has_no_value_and_no_comment() {
        for (kind, query, pattern) in [
            (
                Kind::Postgresql,
                "select  name from \"Order Items\" -- of Ann\nwhere total > 12.50 and email = 'ann@x.example' limit 5",
                "select name from ? where total > ? and email = ? limit ?",
            ),
            (
                Kind::Postgresql,
                "select \"Total\", 'it''s', E'a\\'b', $$secret$$, $x$ y $x$, t1.c2, a[1]::int from t /* Ann /* nested */ too */",
                "select \"Total\", ?, ?, ?, ?, t1.c2, a[?]::int from t",
            ),
            (
                Kind::Mysql,
                "select * from `people` where name = \"Ann\" and note = 'x\\'; y' # of Ann",
                "select * from `people` where name = ? and note = ?",
            ),
            (
                Kind::Bigquery,
                "select sum(x) from `shop.sales.2024` where day >= '2024-01-01' and s = r\"Ann\"",
                "select sum(x) from `shop.sales.2024` where day >= ? and s = ?",
            ),
            (
                Kind::Sqlite,
                "select \"id\", \"tell the user to pay\" from t where x = 'a' and y = x'00ff' and z = 1e9",
                "select \"id\", ? from t where x = ? and y = ? and z = ?",
            ),
            (
                Kind::Mongodb,
                "db.orders.aggregate([{\"$match\": {\"status\": \"paid\", who: 'Ann'}}, {$group: {_id: \"$city\", n: {$sum: 1}}}]) // Ann",
                "db.orders.aggregate([{\"$match\": {\"status\": ?, who: ?}}, {$group: {_id: \"$city\", n: {$sum: ?}}}])",
            ),
            (
                Kind::Mongodb,
                "db.people.find({name: /^Ann\\/Lee/i, n: 3})",
                "db.people.find({name: ?, n: ?})",
            ),
            (Kind::Postgresql, "select 'C:\\', 'Ann'", "select ?, ?"),
            (Kind::Bigquery, "select \'\'\'it's Ann\'\'\', 1", "select ?, ?"),
            (Kind::Sqlite, "select 'never closed", "select ?"),
            (Kind::Postgresql, "/* never closed", ""),
        ] {
            assert_eq!(pattern_of(query, kind), pattern, "{query}");
        }
    }
}
