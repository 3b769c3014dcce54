//! What MongoDB is asked in: its shell's words (`db.orders.find({…}).sort({…})`), or one JSON object (`{"collection", "pipeline"}`), read into a
//! database command. Nothing of it is run as a program. Called by `mongodb`.
//!
//! Invariant: the command that comes out holds what was written, and no other field of a command than those that are built here.

use std::iter::Peekable;
use std::str::{CharIndices, FromStr};

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Decimal128, Document, Regex, doc};

/// Objects within objects.
const MAX_DEPTH: usize = 64;

/// What is asked, of which collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub collection: String,
    /// `find`, `aggregate`, `count`, `distinct`; or one that writes: `insert`, `update`, `delete`.
    pub verb: &'static str,
    pub command: Document,
}

/// Reads a query.
///
/// # Errors
/// What can't be read, for whoever wrote it.
pub fn parse(text: &str) -> Result<Asked, String> {
    let mut reader = Reader::new(text);
    reader.space();
    let asked = match reader.peek() {
        Some('{') => of_object(reader.document()?)?,
        _ => of_shell(&mut reader)?,
    };
    reader.space();
    reader.take(';');
    reader.space();
    match reader.peek() {
        None => Ok(asked),
        Some(_) => Err(format!("one query at a time: there is more at {}", reader.here())),
    }
}

/// `{"collection": …, "pipeline": […]}`, or `filter`, `projection`, `sort`, `skip`, `limit`; or `count`; or `distinct`.
fn of_object(mut object: Document) -> Result<Asked, String> {
    let collection = match object.remove("collection") {
        Some(Bson::String(name)) => name,
        _ => return Err("`collection` is missing: {\"collection\": \"orders\", \"filter\": {}}".to_owned()),
    };
    let mut taken = |name: &str| object.remove(name);
    let (verb, command) = if let Some(pipeline) = taken("pipeline") {
        (
            "aggregate",
            doc! { "aggregate": &collection, "pipeline": pipeline, "cursor": {} },
        )
    } else if let Some(filter) = taken("count") {
        ("count", doc! { "count": &collection, "query": filter })
    } else if let Some(field) = taken("distinct") {
        let filter = taken("filter").unwrap_or_else(|| Document::new().into());
        (
            "distinct",
            doc! { "distinct": &collection, "key": field, "query": filter },
        )
    } else {
        let mut command = doc! { "find": &collection };
        for name in ["filter", "projection", "sort", "skip", "limit"] {
            if let Some(value) = taken(name) {
                command.insert(name, value);
            }
        }
        ("find", command)
    };
    if let Some(unknown) = object.keys().next() {
        return Err(format!(
            "`{unknown}` is not known: collection, pipeline, filter, projection, sort, skip, limit, count, distinct"
        ));
    }
    checked(Asked {
        collection,
        verb,
        command,
    })
}

/// `db.collection.method(…).modifier(…)`.
fn of_shell(reader: &mut Reader<'_>) -> Result<Asked, String> {
    const BEGINS: &str = "a query is db.COLLECTION.find({…}), .aggregate([…]), .countDocuments({…}) or .distinct(\"field\"); or a JSON object";
    if reader.word() != "db" {
        return Err(BEGINS.to_owned());
    }
    // The name of a collection may have dots in it: the last part is the method.
    let mut parts: Vec<String> = Vec::new();
    loop {
        reader.space();
        if reader.take('.') {
            let word = reader.word();
            if word.is_empty() {
                return Err(format!("a name is missing at {}", reader.here()));
            }
            if word == "getCollection" && parts.is_empty() {
                match reader.arguments()?.as_slice() {
                    [Bson::String(name)] => parts.push(name.clone()),
                    _ => return Err("getCollection takes a name".to_owned()),
                }
                continue;
            }
            parts.push(word);
        } else if parts.is_empty() && reader.take('[') {
            match reader.value(0)? {
                Bson::String(name) => parts.push(name),
                _ => return Err("db[…] takes a name".to_owned()),
            }
            reader.space();
            if !reader.take(']') {
                return Err(format!("] is missing at {}", reader.here()));
            }
        } else {
            break;
        }
    }
    let method = parts.pop().unwrap_or_default();
    if parts.is_empty() || method.is_empty() {
        return Err(BEGINS.to_owned());
    }
    let collection = parts.join(".");
    let arguments = reader.arguments()?;
    let (verb, mut command) = command(&collection, &method, arguments)?;
    loop {
        reader.space();
        if !reader.take('.') {
            break;
        }
        let modifier = reader.word();
        let argument = reader.arguments()?.into_iter().next();
        match (verb, modifier.as_str(), argument) {
            ("find", "sort", Some(order)) => command.insert("sort", order),
            ("find", "limit", Some(limit)) => command.insert("limit", limit),
            ("find", "skip", Some(skip)) => command.insert("skip", skip),
            ("find", "project" | "projection", Some(fields)) => command.insert("projection", fields),
            ("find", "count", None) => {
                let filter = command.remove("filter").unwrap_or_else(|| Document::new().into());
                let asked = Asked {
                    command: doc! { "count": &collection, "query": filter },
                    collection,
                    verb: "count",
                };
                return checked(asked);
            }
            (_, "toArray" | "pretty", None) => None,
            _ => return Err(format!(".{modifier}() after {method}() is not known here")),
        };
    }
    checked(Asked {
        collection,
        verb,
        command,
    })
}

fn command(collection: &str, method: &str, arguments: Vec<Bson>) -> Result<(&'static str, Document), String> {
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next();
    let empty = || Bson::from(Document::new());
    Ok(match method {
        "find" | "findOne" => {
            let mut command = doc! { "find": collection, "filter": next().unwrap_or_else(empty) };
            if let Some(fields) = next() {
                command.insert("projection", fields);
            }
            if method == "findOne" {
                command.insert("limit", 1);
            }
            ("find", command)
        }
        "aggregate" => {
            let pipeline = next().ok_or("aggregate takes a pipeline: aggregate([{$match: {…}}, …])")?;
            (
                "aggregate",
                doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} },
            )
        }
        "countDocuments" | "count" => (
            "count",
            doc! { "count": collection, "query": next().unwrap_or_else(empty) },
        ),
        "estimatedDocumentCount" => ("count", doc! { "count": collection }),
        "distinct" => {
            let key = next().ok_or("distinct takes a field: distinct(\"status\")")?;
            (
                "distinct",
                doc! { "distinct": collection, "key": key, "query": next().unwrap_or_else(empty) },
            )
        }
        "insertOne" => {
            let document = next().ok_or("insertOne takes a document")?;
            ("insert", doc! { "insert": collection, "documents": [document] })
        }
        "insertMany" => {
            let documents = next().ok_or("insertMany takes a list of documents")?;
            ("insert", doc! { "insert": collection, "documents": documents })
        }
        "updateOne" | "updateMany" | "replaceOne" => {
            let (Some(filter), Some(change)) = (next(), next()) else {
                return Err(format!("{method} takes a filter and a change"));
            };
            let update = doc! { "q": filter, "u": change, "multi": method == "updateMany" };
            ("update", doc! { "update": collection, "updates": [update] })
        }
        "deleteOne" | "deleteMany" => {
            let filter = next().ok_or_else(|| format!("{method} takes a filter"))?;
            let limit = if method == "deleteOne" { 1 } else { 0 };
            (
                "delete",
                doc! { "delete": collection, "deletes": [{ "q": filter, "limit": limit }] },
            )
        }
        _ => {
            return Err(format!(
                "{method}() is not known here: find, findOne, aggregate, countDocuments, distinct"
            ));
        }
    })
}

/// Each field is of the kind that its command takes.
fn checked(asked: Asked) -> Result<Asked, String> {
    for (name, value) in &asked.command {
        let fits = match name.as_str() {
            "filter" | "query" | "sort" | "projection" | "cursor" => matches!(value, Bson::Document(_)),
            "pipeline" | "documents" | "updates" | "deletes" => match value {
                Bson::Array(items) => items.iter().all(|item| matches!(item, Bson::Document(_))),
                _ => false,
            },
            "skip" | "limit" => matches!(value, Bson::Int32(0..) | Bson::Int64(0..)),
            _ => matches!(value, Bson::String(_)),
        };
        if !fits {
            return Err(format!("`{name}` is not what {} takes there", asked.verb));
        }
    }
    Ok(asked)
}

/// JSON as people write it for the shell: names without quotes, single quotes, comments, `ObjectId("…")`, `/pattern/i`.
struct Reader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            chars: text.char_indices().peekable(),
        }
    }

    fn at(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    fn take(&mut self, wanted: char) -> bool {
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    fn here(&mut self) -> String {
        let at = self.at();
        match self.text[at..].chars().take(20).collect::<String>() {
            rest if rest.is_empty() => "the end".to_owned(),
            rest => format!("`{rest}`"),
        }
    }

    /// White space and comments.
    fn space(&mut self) {
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

    fn word(&mut self) -> String {
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

    fn arguments(&mut self) -> Result<Vec<Bson>, String> {
        self.space();
        if !self.take('(') {
            return Err(format!("( is missing at {}", self.here()));
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
                return Err(format!("{end} or a comma is missing at {}", self.here()));
            }
        }
    }

    fn document(&mut self) -> Result<Document, String> {
        match self.value(0)? {
            Bson::Document(document) => Ok(document),
            _ => Err("an object is needed".to_owned()),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Bson, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} deep"));
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
            _ => Err(format!("a value is missing at {}", self.here())),
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
                return Err(format!("a field's name is missing at {}", self.here()));
            }
            self.space();
            if !self.take(':') {
                return Err(format!(": is missing at {}", self.here()));
            }
            let value = self.value(depth + 1)?;
            if document.insert(name.clone(), value).is_some() {
                return Err(format!("the field {name} is there twice"));
            }
            self.space();
            if !self.take(',') && self.peek() != Some('}') {
                return Err(format!("}} or a comma is missing at {}", self.here()));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let Some((_, quote)) = self.chars.next() else {
            return Err("a text is missing".to_owned());
        };
        let mut text = String::new();
        loop {
            let Some((_, c)) = self.chars.next() else {
                return Err(format!("a text does not end: {quote} is missing"));
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
                    None => return Err("a text ends with \\".to_owned()),
                },
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let mut unit = || {
            let digits: String = (0..4).filter_map(|_| self.chars.next().map(|(_, c)| c)).collect();
            u16::from_str_radix(&digits, 16).map_err(|_| "\\u takes four hexadecimal digits".to_owned())
        };
        let first = unit()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) {
            // The other half: `\uXXXX` once more.
            if !(self.take('\\') && self.take('u')) {
                return Err("half a character in \\u".to_owned());
            }
            let digits: String = (0..4).filter_map(|_| self.chars.next().map(|(_, c)| c)).collect();
            units.push(u16::from_str_radix(&digits, 16).map_err(|_| "\\u takes four hexadecimal digits".to_owned())?);
        }
        char::decode_utf16(units)
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| "half a character in \\u".to_owned())
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
                None => return Err("a pattern does not end: / is missing".to_owned()),
            }
        }
        // The server takes them sorted.
        let mut options: Vec<char> = self.word().chars().collect();
        options.sort_unstable();
        let text = |text: String| text.try_into().map_err(|_| "a pattern has a NUL in it".to_owned());
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
            Ok(_) | Err(_) => Err(format!("{text} is no number")),
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
            return Err(format!("{word} is no value: texts have quotes"));
        }
        let arguments = self.items(')', depth + 1)?;
        let said = match arguments.as_slice() {
            [Bson::String(text)] => text.clone(),
            [Bson::Int32(number)] => number.to_string(),
            [Bson::Int64(number)] => number.to_string(),
            _ => return Err(format!("{word} takes one text or number")),
        };
        made(&word, &said)
    }
}

fn made(what: &str, said: &str) -> Result<Bson, String> {
    let wrong = || format!("{said} is no {what}");
    Ok(match what {
        "ObjectId" => ObjectId::from_str(said).map_err(|_| wrong())?.into(),
        "ISODate" | "Date" => {
            let full = if said.contains('T') {
                said.to_owned()
            } else {
                format!("{said}T00:00:00Z")
            };
            DateTime::parse_rfc3339_str(full).map_err(|_| wrong())?.into()
        }
        "NumberLong" | "Long" => said.parse::<i64>().map_err(|_| wrong())?.into(),
        "NumberInt" | "Int32" => said.parse::<i32>().map_err(|_| wrong())?.into(),
        "NumberDecimal" | "Decimal128" => Decimal128::from_str(said).map_err(|_| wrong())?.into(),
        _ => {
            return Err(format!(
                "{what}(…) is not known here: ObjectId, ISODate, NumberLong, NumberInt, NumberDecimal"
            ));
        }
    })
}

/// `{"$oid": "…"}` and its like are the values that they stand for.
fn extended(document: Document) -> Result<Bson, String> {
    let mut fields = document.iter();
    if let (Some((name, Bson::String(said))), None) = (fields.next(), fields.next()) {
        let what = match name.as_str() {
            "$oid" => Some("ObjectId"),
            "$date" => Some("ISODate"),
            "$numberLong" => Some("NumberLong"),
            "$numberInt" => Some("NumberInt"),
            "$numberDecimal" => Some("NumberDecimal"),
            _ => None,
        };
        if let Some(what) = what {
            return made(what, said);
        }
    }
    Ok(document.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shells_words_and_objects_say_the_same() {
        let shell =
            parse("db.orders.find({status: 'open', total: {$gt: 5}}, {_id: 0}).sort({at: -1}).limit(3);").unwrap();
        let object = parse(
            r#"{"collection": "orders", "filter": {"status": "open", "total": {"$gt": 5}}, "projection": {"_id": 0}, "sort": {"at": -1}, "limit": 3}"#,
        )
        .unwrap();
        assert_eq!(shell.command, object.command);
        assert_eq!(shell.verb, "find");
        let asked =
            parse("db.getCollection(\"a.b\").aggregate([{ $match: { x: /^a\\/b/i } }, /* all */ ]) // done").unwrap();
        assert_eq!((asked.collection.as_str(), asked.verb), ("a.b", "aggregate"));
        assert_eq!(parse("db.a.b.countDocuments({})").unwrap().collection, "a.b");
        assert_eq!(parse("db['x y'].distinct('status')").unwrap().verb, "distinct");
    }

    #[test]
    fn values_of_the_shell_are_read() {
        let asked = parse(
            r#"db.t.find({a: ObjectId("65a000000000000000000001"), b: ISODate("2026-01-02"), c: NumberLong("5"), d: {"$oid": "65a000000000000000000001"}, e: "\u00e9\n", f: -1.5, g: null})"#,
        )
        .unwrap();
        let filter = asked.command.get_document("filter").unwrap();
        assert_eq!(filter.get_object_id("a").unwrap(), filter.get_object_id("d").unwrap());
        assert!(filter.get_datetime("b").is_ok());
        assert_eq!(filter.get_i64("c").unwrap(), 5);
        assert_eq!(filter.get_str("e").unwrap(), "é\n");
    }

    #[test]
    fn what_can_not_be_read_is_said() {
        for text in [
            "",
            "orders.find()",
            "db.orders",
            "db.orders.find({a: 1}",
            "db.orders.find({a 1})",
            "db.orders.find({a: process.exit()})",
            "db.orders.find(function() { return true })",
            "db.orders.find({}); db.orders.drop()",
            "db.orders.drop()",
            "db.orders.find({a: 1, a: 2})",
            "db.orders.find([])",
            "db.orders.find({}).limit('x')",
            "{\"collection\": \"a\", \"update\": {}}",
            "db.runCommand({shutdown: 1})",
            "db.adminCommand({shutdown: 1})",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(
            parse(&format!(
                "db.t.find({{a: {}1{}}})",
                "[".repeat(1_000),
                "]".repeat(1_000)
            ))
            .is_err()
        );
    }
}
