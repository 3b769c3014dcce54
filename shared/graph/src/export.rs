//! Exports the live graph as NDJSON for `import`: all objects, then all relationships, each in order of creation.
//!
//! Called by the command line and the API's export route. Invariants: one snapshot, despite concurrent writes; memory
//! is bounded by a page.

use async_trait::async_trait;
use rejoin_db::transactions;
use serde::Serialize;
use sqlx::PgPool;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use uuid::Uuid;

use super::ndjson::{End, Line, ObjectLine, RelationshipLine};
use super::{Error, objects, relationships};

/// Maximum number of objects or relationships in memory.
const PAGE: i64 = 1000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    pub objects: u64,
    pub relationships: u64,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("write the export")]
    Write(#[source] std::io::Error),
    #[error(transparent)]
    Graph(#[from] Error),
}

/// The target of the lines, a page at a time: a writer, or the channel of an HTTP body.
#[async_trait]
pub trait Sink: Send {
    async fn write(&mut self, lines: Vec<u8>) -> std::io::Result<()>;
}

/// Writes lines to any byte sink.
pub struct Writer<W>(pub W);

#[async_trait]
impl<W: AsyncWrite + Unpin + Send> Sink for Writer<W> {
    async fn write(&mut self, lines: Vec<u8>) -> std::io::Result<()> {
        self.0.write_all(&lines).await?;
        self.0.flush().await
    }
}

pub async fn export(pool: &PgPool, workspace_id: Uuid, sink: &mut impl Sink) -> Result<Exported, ExportError> {
    let mut tx = transactions::begin_with(pool, "begin transaction isolation level repeatable read, read only")
        .await
        .map_err(Error::database("begin an export"))?;
    let mut exported = Exported::default();

    let mut after = None;
    loop {
        let page = objects::list(&mut *tx, workspace_id, &objects::Filter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        exported.objects += page.len() as u64;
        let lines = page.into_iter().map(|object| {
            Line::Object(ObjectLine {
                id: Some(object.id),
                object_type: object.object_type,
                key: Some(object.key),
                // Part of the properties.
                name: None,
                labels: object.labels,
                status: object.status,
                properties: object.properties.as_object().cloned().unwrap_or_default(),
                // Other packs may be installed where it is imported.
                schema_version: None,
            })
        });
        exported.bytes += write(sink, lines).await?;
    }

    let mut after = None;
    loop {
        let page = relationships::list(&mut *tx, workspace_id, &relationships::Filter::default(), after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.relationship.id);
        exported.relationships += page.len() as u64;
        let lines = page.into_iter().map(|connected| {
            let relationship = connected.relationship;
            Line::Relationship(RelationshipLine {
                id: Some(relationship.id),
                relationship_type: relationship.relationship_type,
                source: Some(End {
                    object_type: connected.source.object_type,
                    key: connected.source.key,
                }),
                target: Some(End {
                    object_type: connected.target.object_type,
                    key: connected.target.key,
                }),
                source_id: None,
                target_id: None,
                properties: relationship.properties.as_object().cloned().unwrap_or_default(),
                weight: relationship.weight,
                valid_from: relationship.valid_from,
                valid_to: relationship.valid_to,
            })
        });
        exported.bytes += write(sink, lines).await?;
    }
    tx.rollback().await.map_err(Error::database("end an export"))?;
    Ok(exported)
}

async fn write(sink: &mut impl Sink, lines: impl Iterator<Item = Line>) -> Result<u64, ExportError> {
    let mut bytes = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut bytes, &line).map_err(|error| ExportError::Write(error.into()))?;
        bytes.push(b'\n');
    }
    let written = bytes.len() as u64;
    sink.write(bytes).await.map_err(ExportError::Write)?;
    Ok(written)
}
