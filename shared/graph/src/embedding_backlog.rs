//! The embedding backlog. The worker's `embedding` takes pending objects from here and stores their vectors.
//!
//! A trigger marks every written version in `kb.graph_embedding_marks`; an import marks its workspace. A mark is removed
//! in the transaction that stores its vector, so a crash repeats work and loses none. Invariant: a vector is stored
//! only for the version that is the object's live head at that moment; a later version has its own mark.

use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::query_vector::{Model, signs_of};

/// Maximum number of marks per batch.
pub const MAX_MARKS: i64 = 64;
/// Number of objects per page of a full pass over a workspace.
const PAGE: i64 = 2_000;
/// Maximum number of workspaces per sweep.
const MAX_WORKSPACES: i64 = 100;
/// Number of marks among which a sweep looks for workspaces.
const MAX_SWEPT_MARKS: i64 = 10_000;
/// Number of a workspace's marks from which they are replaced by one, if nothing embeds.
const MANY_MARKS: i64 = 1_000;
/// Maximum size of an object's text, in bytes; models use little more.
const MAX_TEXT_BYTES: usize = 2_000;
/// Maximum size of one property in it, in bytes.
const MAX_VALUE_BYTES: usize = 500;

/// An object to be embedded.
#[derive(Debug, Clone)]
pub struct Pending {
    pub id: Uuid,
    /// Hash of the version that the text was made from.
    pub content_hash: Vec<u8>,
    pub text: String,
}

/// The work requested by marks.
#[derive(Debug, Default)]
pub struct Marked {
    /// The marks to remove when the results are stored.
    pub marks: Vec<i64>,
    pub objects: Vec<Pending>,
    /// Objects that no longer exist.
    pub gone: Vec<Uuid>,
    /// Whether a mark says that any object may have changed.
    pub all: bool,
}

/// A page of a full pass over a workspace's objects.
#[derive(Debug)]
pub struct Page {
    /// Those whose vectors are missing or outdated.
    pub objects: Vec<Pending>,
    /// The start of the next page; None: this was the last one.
    pub next: Option<Uuid>,
}

/// A computed vector.
#[derive(Debug, Clone)]
pub struct NewVector {
    pub id: Uuid,
    pub content_hash: Vec<u8>,
    pub vector: Vec<f32>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    object_type: String,
    key: String,
    name: String,
    properties: Value,
    content_hash: Vec<u8>,
}

impl Row {
    fn due(self) -> Pending {
        Pending {
            text: text_of(&self.object_type, &self.key, &self.name, &self.properties),
            id: self.id,
            content_hash: self.content_hash,
        }
    }
}

/// Marks all objects of a workspace.
pub async fn mark_all(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.graph_embedding_marks (project_id) values ($1)",
        workspace_id
    )
    .execute(db)
    .await
    .map(|_| ())
}

/// Returns workspaces with pending work. Not those that have moved to another database, or are moving.
pub async fn projects(pool: &PgPool) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select distinct project_id
           from (select m.project_id from kb.graph_embedding_marks m
                 where not exists (select from cells.holds h where h.project_id = m.project_id)
                 order by m.id limit $1) marks
           limit $2"#,
        MAX_SWEPT_MARKS,
        MAX_WORKSPACES,
    )
    .fetch_all(pool)
    .await
}

/// Marks every workspace that has objects and no vector of this model: the model is new, or was enabled. Returns their
/// number.
pub async fn mark_without_vectors(pool: &PgPool, model: &str) -> Result<u64, sqlx::Error> {
    let marked = sqlx::query!(
        "insert into kb.graph_embedding_marks (project_id)
         select p.id
         from kb.projects p
         where exists (select from kb.graph_objects o
                       where o.project_id = p.id and o.superseded_at is null and o.deleted_at is null)
           and not exists (select from kb.graph_embeddings e where e.project_id = p.id and e.model = $1)
           and not exists (select from kb.graph_embedding_marks m where m.project_id = p.id and m.canonical_id is null)
           and not exists (select from cells.holds h where h.project_id = p.id)",
        model,
    )
    .execute(pool)
    .await?;
    Ok(marked.rows_affected())
}

/// Replaces many marks of a workspace by one that stands for all, if nothing embeds.
pub async fn fold_marks(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "with many as (
             select project_id, max(id) as last
             from (select project_id, id from kb.graph_embedding_marks order by id limit $1) marks
             group by project_id
             having count(*) >= $2
         ),
         removed as (
             delete from kb.graph_embedding_marks m using many where m.project_id = many.project_id and m.id <= many.last
         )
         insert into kb.graph_embedding_marks (project_id) select project_id from many",
        MAX_SWEPT_MARKS,
        MANY_MARKS,
    )
    .execute(pool)
    .await
    .map(|_| ())
}

/// Returns the oldest marks of a workspace, with the requested work.
pub async fn marked(pool: &PgPool, workspace_id: Uuid, model: &str) -> Result<Marked, sqlx::Error> {
    let marks = sqlx::query!(
        "select id, canonical_id from kb.graph_embedding_marks where project_id = $1 order by id limit $2",
        workspace_id,
        MAX_MARKS,
    )
    .fetch_all(pool)
    .await?;
    let mut found = Marked {
        all: marks.iter().any(|mark| mark.canonical_id.is_none()),
        marks: marks.iter().map(|mark| mark.id).collect(),
        ..Marked::default()
    };
    let mut ids: Vec<Uuid> = marks.iter().filter_map(|mark| mark.canonical_id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(found);
    }
    let heads = sqlx::query!(
        r#"select o.canonical_id as id, o.type as object_type, o.key, o.name, o.properties, o.content_hash,
               exists (select from kb.graph_embeddings e
                       where e.project_id = $1 and e.model = $3 and e.canonical_id = o.canonical_id
                         and e.content_hash = o.content_hash) as "embedded!"
           from kb.graph_objects o
           where o.project_id = $1 and o.canonical_id = any($2) and o.superseded_at is null and o.deleted_at is null"#,
        workspace_id,
        &ids,
        model,
    )
    .fetch_all(pool)
    .await?;
    found.gone = ids
        .into_iter()
        .filter(|id| !heads.iter().any(|head| head.id == *id))
        .collect();
    found.objects = heads
        .into_iter()
        .filter(|head| !head.embedded)
        .map(|head| Pending {
            text: text_of(&head.object_type, &head.key, &head.name, &head.properties),
            id: head.id,
            content_hash: head.content_hash,
        })
        .collect();
    Ok(found)
}

/// Returns a page of the workspace's objects in order of id, after one of them.
pub async fn page(pool: &PgPool, workspace_id: Uuid, model: &str, after: Option<Uuid>) -> Result<Page, sqlx::Error> {
    // The page's end first: most of a page may already be embedded.
    let end = sqlx::query_scalar!(
        r#"select canonical_id from kb.graph_objects
           where project_id = $1 and superseded_at is null and deleted_at is null and canonical_id > $2
           order by canonical_id
           offset $3 limit 1"#,
        workspace_id,
        after.unwrap_or(Uuid::nil()),
        PAGE - 1,
    )
    .fetch_optional(pool)
    .await?;
    let rows = sqlx::query_as!(
        Row,
        "select o.canonical_id as id, o.type as object_type, o.key, o.name, o.properties, o.content_hash
         from kb.graph_objects o
         left join kb.graph_embeddings e
           on e.project_id = $1 and e.model = $4 and e.canonical_id = o.canonical_id and e.content_hash = o.content_hash
         where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
           and o.canonical_id > $2 and o.canonical_id <= $3 and e.canonical_id is null
         order by o.canonical_id",
        workspace_id,
        after.unwrap_or(Uuid::nil()),
        end.unwrap_or(Uuid::max()),
        model,
    )
    .fetch_all(pool)
    .await?;
    Ok(Page {
        objects: rows.into_iter().map(Row::due).collect(),
        next: end,
    })
}

/// Stores vectors, removes those of deleted objects, and removes marks: one transaction. Returns the number of stored
/// vectors.
pub async fn put(
    pool: &PgPool,
    workspace_id: Uuid,
    model: &Model,
    made: &[NewVector],
    gone: &[Uuid],
    marks: &[i64],
) -> Result<u64, sqlx::Error> {
    let mut tx = rejoin_db::begin(pool).await?;
    let ids: Vec<Uuid> = made.iter().map(|made| made.id).collect();
    let hashes: Vec<&[u8]> = made.iter().map(|made| &made.content_hash[..]).collect();
    let signs: Vec<String> = made.iter().map(|made| signs_of(&made.vector)).collect();
    let numbers: Vec<f32> = made.iter().flat_map(|made| made.vector.iter().copied()).collect();
    let dimensions = model.dimensions;
    // The vector column has another type with pgvector: an assignment casts, and the query is not checked at compile
    // time.
    let stored = sqlx::query(
        "insert into kb.graph_embeddings (project_id, canonical_id, model, dimensions, content_hash, signs, vector)
         select $1, made.id, $2, $3, made.content_hash, made.signs::varbit,
             ($7::real[])[(made.place - 1) * $3 + 1 : made.place * $3]
         from unnest($4::uuid[], $5::bytea[], $6::text[]) with ordinality as made (id, content_hash, signs, place)
         join kb.graph_objects o
           on o.project_id = $1 and o.canonical_id = made.id and o.content_hash = made.content_hash
          and o.superseded_at is null and o.deleted_at is null
         on conflict (project_id, model, canonical_id) do update
             set dimensions = excluded.dimensions, content_hash = excluded.content_hash, signs = excluded.signs,
                 vector = excluded.vector, embedded_at = now()",
    )
    .bind(workspace_id)
    .bind(&model.name)
    .bind(dimensions)
    .bind(&ids)
    .bind(&hashes)
    .bind(&signs)
    .bind(&numbers)
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "delete from kb.graph_embeddings where project_id = $1 and canonical_id = any($2)",
        workspace_id,
        gone,
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "delete from kb.graph_embedding_marks where project_id = $1 and id = any($2)",
        workspace_id,
        marks,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(stored.rows_affected())
}

/// After a full pass: removes vectors of deleted objects, and those of other models.
pub async fn tidy(pool: &PgPool, workspace_id: Uuid, model: &str) -> Result<u64, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.graph_embeddings e
         where e.project_id = $1
           and (e.model <> $2
                or not exists (select from kb.graph_objects o
                               where o.project_id = $1 and o.canonical_id = e.canonical_id
                                 and o.superseded_at is null and o.deleted_at is null))",
        workspace_id,
        model,
    )
    .execute(pool)
    .await?;
    Ok(removed.rows_affected())
}

/// Returns the text of an object to embed: its name and descriptive texts. Addresses and numbers carry no meaning.
pub fn text_of(object_type: &str, key: &str, name: &str, properties: &Value) -> String {
    let mut text = name.to_owned();
    if key != name && Uuid::parse_str(key).is_err() {
        text.push_str(" (");
        text.push_str(key);
        text.push(')');
    }
    text.push_str(", ");
    text.push_str(object_type);
    for (property, value) in properties.as_object().into_iter().flatten() {
        let Value::String(value) = value else { continue };
        let text_value = value.trim();
        if property == "name" || property == "title" || !says_something(text_value) {
            continue;
        }
        text.push_str(". ");
        text.push_str(&text_value[..boundary(text_value, MAX_VALUE_BYTES)]);
    }
    text.truncate(boundary(&text, MAX_TEXT_BYTES));
    text
}

/// Returns the largest character boundary within `max_bytes`.
fn boundary(text: &str, max_bytes: usize) -> usize {
    let mut ends = (0..=max_bytes.min(text.len())).rev();
    ends.find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns whether it consists of words, rather than a version, an address or a code.
fn says_something(value: &str) -> bool {
    !value.contains("://") && value.contains(' ') && value.chars().any(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_holds_names_and_words_and_no_codes() {
        let properties = json!({"name": "Curl", "summary": "command line tool for transferring data", "version": "7.88.1-10",
            "homepage": "https://curl.example", "installed_size_kb": 500, "section": "web"});
        assert_eq!(
            text_of("Package", "curl", "Curl", &properties),
            "Curl (curl), Package. command line tool for transferring data"
        );
        let key = Uuid::now_v7().to_string();
        assert_eq!(text_of("Note", &key, "Shopping", &json!({})), "Shopping, Note");
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let properties = json!({"text": "ä ".repeat(5_000)});
        assert!(text_of("Note", "k", "k", &properties).len() <= MAX_TEXT_BYTES);
    }

    #[test]
    fn signs_are_one_bit_a_number() {
        assert_eq!(signs_of(&[0.5, -0.5, 0.0, 1.0]), "1001");
    }
}
