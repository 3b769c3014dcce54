//! Parses JSON in the syntax of MongoDB's shell. Called by `mql`.
//!
//! Invariant: values only; nothing is executed.

use std::iter::Peekable;
use std::str::{CharIndices, FromStr};

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, Regex};

/// Maximum nesting of objects.
const MAX_DEPTH: usize = 64;

/// A parser of the shell's JSON: unquoted names, single quotes, comments, `ObjectId("…")`, `/pattern/i`.
pub(super) struct Reader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            chars: text.char_indices().peekable(),
        }
    }

    fn at(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    pub(super) fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    pub(super) fn take(&mut self, wanted: char) -> bool {
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    pub(super) fn here(&mut self) -> String {
        let at = self.at();
        match self.text[at..].chars().take(20).collect::<String>() {
            rest if rest.is_empty() => "the end".to_owned(),
            rest => format!("`{rest}`"),
        }
    }

    /// Skips white space and comments.
    pub(super) fn space(&mut self) {
        loop {
            while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
            let at = self.at();
            let rest = &self.text[at..];
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                return;
            };
            while self.at() < at + length {
                self.chars.next();
            }
        }
    }

    pub(super) fn word(&mut self) -> String {
        self.space();
        let mut word = String::new();
        while let Some((_, c)) = self
            .chars
            .next_if(|(_, c)| c.is_alphanumeric() || matches!(c, '_' | '$' | '-'))
        {
            word.push(c);
        }
        word
    }

    pub(super) fn arguments(&mut self) -> Result<Vec<Bson>, String> {
        self.space();
        if !self.take('(') {
            return Err(format!("expected ( at {}", self.here()));
        }
        self.items(')', 0)
    }

    fn items(&mut self, end: char, depth: usize) -> Result<Vec<Bson>, String> {
        let mut items = Vec::new();
        loop {
            self.space();
            if self.take(end) {
                return Ok(items);
            }
            items.push(self.value(depth)?);
            self.space();
            if !self.take(',') && self.peek() != Some(end) {
                return Err(format!("expected {end} or a comma at {}", self.here()));
            }
        }
    }

    pub(super) fn document(&mut self) -> Result<Document, String> {
        match self.value(0)? {
            Bson::Document(document) => Ok(document),
            _ => Err("expected an object".to_owned()),
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<Bson, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        self.space();
        match self.peek() {
            Some('{') => {
                self.take('{');
                self.fields(depth).and_then(extended)
            }
            Some('[') => {
                self.take('[');
                self.items(']', depth + 1).map(Bson::Array)
            }
            Some('"' | '\'') => self.string().map(Bson::String),
            Some('/') => self.pattern(),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(c) if c.is_alphabetic() => self.named(depth),
            _ => Err(format!("expected a value at {}", self.here())),
        }
    }

    fn fields(&mut self, depth: usize) -> Result<Document, String> {
        let mut document = Document::new();
        loop {
            self.space();
            if self.take('}') {
                return Ok(document);
            }
            let name = match self.peek() {
                Some('"' | '\'') => self.string()?,
                _ => self.word(),
            };
            if name.is_empty() {
                return Err(format!("expected a field name at {}", self.here()));
            }
            self.space();
            if !self.take(':') {
                return Err(format!("expected : at {}", self.here()));
            }
            let value = self.value(depth + 1)?;
            if document.insert(name.clone(), value).is_some() {
                return Err(format!("duplicate field {name}"));
            }
            self.space();
            if !self.take(',') && self.peek() != Some('}') {
                return Err(format!("expected }} or a comma at {}", self.here()));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let Some((_, quote)) = self.chars.next() else {
            return Err("expected a string".to_owned());
        };
        let mut text = String::new();
        loop {
            let Some((_, c)) = self.chars.next() else {
                return Err(format!("unterminated string: {quote} is missing"));
            };
            match c {
                c if c == quote => return Ok(text),
                '\\' => match self.chars.next().map(|(_, c)| c) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('u') => text.push(self.escaped()?),
                    Some(c) => text.push(c),
                    None => return Err("a string ends with \\".to_owned()),
                },
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let mut unit = || {
            let digits: String = (0..4).filter_map(|_| self.chars.next().map(|(_, c)| c)).collect();
            u16::from_str_radix(&digits, 16).map_err(|_| "\\u requires four hexadecimal digits".to_owned())
        };
        let first = unit()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) {
            // The other half of a surrogate pair: `\uXXXX` once more.
            if !(self.take('\\') && self.take('u')) {
                return Err("incomplete surrogate pair in \\u".to_owned());
            }
            let digits: String = (0..4).filter_map(|_| self.chars.next().map(|(_, c)| c)).collect();
            units
                .push(u16::from_str_radix(&digits, 16).map_err(|_| "\\u requires four hexadecimal digits".to_owned())?);
        }
        char::decode_utf16(units)
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| "incomplete surrogate pair in \\u".to_owned())
    }

    fn pattern(&mut self) -> Result<Bson, String> {
        self.take('/');
        let mut pattern = String::new();
        loop {
            match self.chars.next().map(|(_, c)| c) {
                Some('/') => break,
                Some('\\') => {
                    if self.take('/') {
                        pattern.push('/');
                    } else {
                        pattern.push('\\');
                        pattern.extend(self.chars.next().map(|(_, c)| c));
                    }
                }
                Some(c) => pattern.push(c),
                None => return Err("unterminated regular expression: / is missing".to_owned()),
            }
        }
        // The server requires them sorted.
        let mut options: Vec<char> = self.word().chars().collect();
        options.sort_unstable();
        let text = |text: String| {
            text.try_into()
                .map_err(|_| "a regular expression contains a NUL character".to_owned())
        };
        Ok(Bson::RegularExpression(Regex {
            pattern: text(pattern)?,
            options: text(options.into_iter().collect())?,
        }))
    }

    fn number(&mut self) -> Result<Bson, String> {
        let mut text = String::new();
        while let Some((_, c)) = self
            .chars
            .next_if(|(_, c)| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))
        {
            text.push(c);
        }
        if let Ok(number) = text.parse::<i32>() {
            return Ok(number.into());
        }
        if let Ok(number) = text.parse::<i64>() {
            return Ok(number.into());
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number.into()),
            Ok(_) | Err(_) => Err(format!("{text} is not a valid number")),
        }
    }

    /// `true`, `ObjectId("…")`, `new Date("…")` …
    fn named(&mut self, depth: usize) -> Result<Bson, String> {
        let mut word = self.word();
        if word == "new" {
            word = self.word();
        }
        match word.as_str() {
            "true" => return Ok(true.into()),
            "false" => return Ok(false.into()),
            "null" | "undefined" => return Ok(Bson::Null),
            _ => {}
        }
        self.space();
        if !self.take('(') {
            return Err(format!("unknown value {word}; strings need quotes"));
        }
        let arguments = self.items(')', depth + 1)?;
        let argument = match arguments.as_slice() {
            [Bson::String(text)] => text.clone(),
            [Bson::Int32(number)] => number.to_string(),
            [Bson::Int64(number)] => number.to_string(),
            _ => return Err(format!("{word} requires one string or number")),
        };
        made(&word, &argument)
    }
}

fn made(what: &str, argument: &str) -> Result<Bson, String> {
    let wrong = || format!("{argument} is not a valid {what}");
    Ok(match what {
        "ObjectId" => ObjectId::from_str(argument).map_err(|_| wrong())?.into(),
        "ISODate" | "Date" => {
            let full = if argument.contains('T') {
                argument.to_owned()
            } else {
                format!("{argument}T00:00:00Z")
            };
            DateTime::parse_rfc3339_str(full).map_err(|_| wrong())?.into()
        }
        "NumberLong" | "Long" => argument.parse::<i64>().map_err(|_| wrong())?.into(),
        "NumberInt" | "Int32" => argument.parse::<i32>().map_err(|_| wrong())?.into(),
        "NumberDecimal" | "Decimal128" => Decimal128::from_str(argument).map_err(|_| wrong())?.into(),
        _ => {
            return Err(format!(
                "{what}(…) is not supported; use ObjectId, ISODate, NumberLong, NumberInt or NumberDecimal"
            ));
        }
    })
}

/// Converts `{"$oid": "…"}` and other extended JSON to values.
fn extended(document: Document) -> Result<Bson, String> {
    let mut fields = document.iter();
    if let (Some((name, Bson::String(argument))), None) = (fields.next(), fields.next()) {
        let what = match name.as_str() {
            "$oid" => Some("ObjectId"),
            "$date" => Some("ISODate"),
            "$numberLong" => Some("NumberLong"),
            "$numberInt" => Some("NumberInt"),
            "$numberDecimal" => Some("NumberDecimal"),
            _ => None,
        };
        if let Some(what) = what {
            return made(what, argument);
        }
    }
    Ok(document.into())
}
