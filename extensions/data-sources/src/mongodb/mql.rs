//! Parses MongoDB queries, in shell syntax (`db.orders.find({…}).sort({…})`) or as one JSON object
//! (`{"collection", "pipeline"}`), into a database command. Nothing is executed as a program. Called by `mongodb`.
//!
//! Invariant: the command contains what was written, and no other command fields than those built here.

use mongodb::bson::{Bson, Document, doc};

use super::reader::Reader;

/// A parsed query of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub collection: String,
    /// `find`, `aggregate`, `count`, `distinct`; or a writing one: `insert`, `update`, `delete`.
    pub verb: &'static str,
    pub command: Document,
}

/// Parses a query.
///
/// # Errors
/// What can't be parsed, for the author.
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
        Some(_) => Err(format!(
            "only one query at a time is allowed; unexpected text at {}",
            reader.here()
        )),
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
            "unknown field `{unknown}`; allowed are collection, pipeline, filter, projection, sort, skip, limit, \
            count, distinct"
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
    const BEGINS: &str = "a query must be db.COLLECTION.find({…}), .aggregate([…]), .countDocuments({…}) or \
        .distinct(\"field\"), or a JSON object";
    if reader.word() != "db" {
        return Err(BEGINS.to_owned());
    }
    // A collection's name may contain dots: the last part is the method.
    let mut parts: Vec<String> = Vec::new();
    loop {
        reader.space();
        if reader.take('.') {
            let word = reader.word();
            if word.is_empty() {
                return Err(format!("expected a name at {}", reader.here()));
            }
            if word == "getCollection" && parts.is_empty() {
                match reader.arguments()?.as_slice() {
                    [Bson::String(name)] => parts.push(name.clone()),
                    _ => return Err("getCollection requires a name".to_owned()),
                }
                continue;
            }
            parts.push(word);
        } else if parts.is_empty() && reader.take('[') {
            match reader.value(0)? {
                Bson::String(name) => parts.push(name),
                _ => return Err("db[…] requires a name".to_owned()),
            }
            reader.space();
            if !reader.take(']') {
                return Err(format!("expected ] at {}", reader.here()));
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
            _ => return Err(format!(".{modifier}() after {method}() is not supported")),
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
            let pipeline = next().ok_or("aggregate requires a pipeline: aggregate([{$match: {…}}, …])")?;
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
            let key = next().ok_or("distinct requires a field: distinct(\"status\")")?;
            (
                "distinct",
                doc! { "distinct": collection, "key": key, "query": next().unwrap_or_else(empty) },
            )
        }
        "insertOne" => {
            let document = next().ok_or("insertOne requires a document")?;
            ("insert", doc! { "insert": collection, "documents": [document] })
        }
        "insertMany" => {
            let documents = next().ok_or("insertMany requires a list of documents")?;
            ("insert", doc! { "insert": collection, "documents": documents })
        }
        "updateOne" | "updateMany" | "replaceOne" => {
            let (Some(filter), Some(change)) = (next(), next()) else {
                return Err(format!("{method} requires a filter and an update"));
            };
            let update = doc! { "q": filter, "u": change, "multi": method == "updateMany" };
            ("update", doc! { "update": collection, "updates": [update] })
        }
        "deleteOne" | "deleteMany" => {
            let filter = next().ok_or_else(|| format!("{method} requires a filter"))?;
            let limit = if method == "deleteOne" { 1 } else { 0 };
            (
                "delete",
                doc! { "delete": collection, "deletes": [{ "q": filter, "limit": limit }] },
            )
        }
        _ => {
            return Err(format!(
                "{method}() is not supported; use find, findOne, aggregate, countDocuments or distinct"
            ));
        }
    })
}

/// Checks that each field has the type required by its command.
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
            return Err(format!("the value of `{name}` is not valid for {}", asked.verb));
        }
    }
    Ok(asked)
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
