//! Writes parsed lines into the import's temporary tables, by COPY. Called by the import.
//!
//! The columns are those of `CREATE_STAGING`, in its order.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use crate::Error;
use crate::ndjson::{Parsed, Reference};
use crate::objects::object_hash;
use crate::relationships::relationship_hash;

/// A buffer of rows for the staging tables, in COPY's text format.
#[derive(Default)]
pub(super) struct Staging {
    objects: Vec<u8>,
    relationships: Vec<u8>,
}

impl Staging {
    pub(super) fn push(&mut self, line: u64, parsed: &Parsed) {
        match parsed {
            Parsed::Object {
                id,
                object_type,
                key,
                status,
                labels,
                properties,
                schema_version,
            } => {
                let hash = object_hash(object_type, key, status.as_deref(), labels, properties);
                let mut row = Row::new(&mut self.objects, line);
                row.text(Some(&Uuid::now_v7().to_string()));
                row.text(id.map(|id| id.to_string()).as_deref());
                row.text(Some(object_type));
                row.text(Some(key));
                row.text(status.as_deref());
                row.text(Some(&serde_json::Value::from(labels.as_slice()).to_string()));
                row.text(Some(&properties.to_string()));
                row.bytes(&hash);
                row.text(schema_version.as_deref());
                row.end();
            }
            Parsed::Relationship {
                relationship_type,
                source,
                target,
                properties,
                weight,
                valid_from,
                valid_to,
            } => {
                let hash = relationship_hash(properties, *weight, *valid_from, *valid_to);
                let time = |time: &Option<DateTime<Utc>>| time.map(|time| time.to_rfc3339());
                let mut row = Row::new(&mut self.relationships, line);
                row.text(Some(&Uuid::now_v7().to_string()));
                row.text(Some(relationship_type));
                row.reference(source);
                row.reference(target);
                row.text(Some(&properties.to_string()));
                row.text(weight.map(|weight| weight.to_string()).as_deref());
                row.text(time(valid_from).as_deref());
                row.text(time(valid_to).as_deref());
                row.bytes(&hash);
                row.end();
            }
        }
    }

    /// Sends each buffer that holds more than `threshold_bytes`.
    pub(super) async fn flush(&mut self, db: &mut PgConnection, threshold_bytes: usize) -> Result<(), Error> {
        if self.objects.len() > threshold_bytes {
            copy(db, "copy import_lines_objects from stdin", &mut self.objects).await?;
        }
        if self.relationships.len() > threshold_bytes {
            copy(
                db,
                "copy import_lines_relationships from stdin",
                &mut self.relationships,
            )
            .await?;
        }
        Ok(())
    }
}

async fn copy(db: &mut PgConnection, sql: &str, buffer: &mut Vec<u8>) -> Result<(), Error> {
    let mut copy = db
        .copy_in_raw(sql)
        .await
        .map_err(Error::database("begin the staging of an import"))?;
    copy.send(buffer.as_slice())
        .await
        .map_err(Error::database("stage an import"))?;
    copy.finish()
        .await
        .map_err(Error::database("finish the staging of an import"))?;
    buffer.clear();
    Ok(())
}

/// Writes one row of COPY's text format: fields between tabs, `\N` for null.
struct Row<'buffer>(&'buffer mut Vec<u8>);

impl<'buffer> Row<'buffer> {
    fn new(buffer: &'buffer mut Vec<u8>, line: u64) -> Row<'buffer> {
        buffer.extend_from_slice(line.to_string().as_bytes());
        Row(buffer)
    }

    fn text(&mut self, text: Option<&str>) {
        self.0.push(b'\t');
        let Some(text) = text else {
            return self.0.extend_from_slice(b"\\N");
        };
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '\t', '\n', '\r']) {
            let (plain, special) = rest.split_at(at);
            self.0.extend_from_slice(plain.as_bytes());
            self.0.extend_from_slice(match special.as_bytes()[0] {
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                _ => b"\\\\",
            });
            rest = &special[1..];
        }
        self.0.extend_from_slice(rest.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // Hexadecimal form of bytea, its backslash escaped.
        self.0.extend_from_slice(b"\t\\\\x");
        for byte in bytes {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            self.0
                .extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }

    fn reference(&mut self, reference: &Reference) {
        match reference {
            Reference::Key(end) => {
                self.text(Some(&end.object_type));
                self.text(Some(&end.key));
                self.text(None);
            }
            Reference::Id(id) => {
                self.text(None);
                self.text(None);
                self.text(Some(&id.to_string()));
            }
        }
    }

    fn end(self) {
        self.0.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_escapes_what_copy_reads_as_structure() {
        let mut buffer = Vec::new();
        let mut row = Row::new(&mut buffer, 7);
        row.text(Some("a\tb\\c\nd\re"));
        row.text(None);
        row.bytes(&[0, 255]);
        row.end();
        assert_eq!(
            String::from_utf8(buffer).unwrap(),
            "7\ta\\tb\\\\c\\nd\\re\t\\N\t\\\\x00ff\n"
        );
    }
}
