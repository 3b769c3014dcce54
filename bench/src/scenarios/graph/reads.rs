//! Calls of the graph-reading tools, each with its own arguments. Semantic searches bypass the tool and call the search
//! directly: their vectors are synthetic.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rejoin_graph::embedder::NoEmbedder;
use rejoin_graph::hybrid_ranking::{self, Mode};
use rejoin_graph::scope::Scope;
use rejoin_graph::search;
use rejoin_runs::builtin;
use rejoin_tools::registry::Registry;
use rejoin_tools::{ToolContext, ToolError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::generate::Dice;
use super::vectors::{self, MODEL};
use crate::load::{Latencies, now_us};
use crate::results::Size;
use crate::server::Database;

/// Number of warm-up calls.
const WARMING: usize = 16;
/// Timeout of a row.
const LIMIT: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Search,
    Hybrid,
    HybridOfType,
    Semantic,
    Query,
    Edges,
    /// This deep.
    Walk(u32),
    Relationships,
    Types,
    Tags,
    Similar,
    Path,
}

pub const ALL: [Read; 14] = [
    Read::Search,
    Read::Hybrid,
    Read::HybridOfType,
    Read::Semantic,
    Read::Similar,
    Read::Query,
    Read::Edges,
    Read::Walk(1),
    Read::Walk(2),
    Read::Walk(3),
    Read::Path,
    Read::Relationships,
    Read::Types,
    Read::Tags,
];

impl Read {
    pub fn name(self) -> &'static str {
        match self {
            Read::Search => "search_entities",
            Read::Hybrid => "hybrid_search",
            Read::HybridOfType => "hybrid_search, one type",
            Read::Semantic => "semantic_search",
            Read::Query => "query_entities",
            Read::Edges => "get_entity_edges",
            Read::Walk(1) => "traverse_graph, depth 1",
            Read::Walk(2) => "traverse_graph, depth 2",
            Read::Walk(_) => "traverse_graph, depth 3",
            Read::Relationships => "list_relationships",
            Read::Types => "list_entity_types",
            Read::Tags => "list_tags",
            Read::Similar => "find_similar",
            Read::Path => "find_path",
        }
    }
}

/// The arguments of calls.
pub struct Arguments {
    /// Half of them uniform, half weighted by their edges.
    objects: Vec<Uuid>,
    /// Names, misspelled names, words of texts, alternating.
    queries: Vec<String>,
    types: Vec<String>,
}

impl Arguments {
    pub async fn draw(database: &Database, count: usize) -> Result<Self> {
        let db = &database.db.pool_sqlx;
        // Uniform over the ids, which only reflect the order of creation.
        let ids: Vec<(Uuid, String, String)> = sqlx::query_as(
            "select canonical_id, name, coalesce(properties ->> 'text', properties ->> 'summary', name)
             from kb.graph_objects where superseded_at is null order by md5(canonical_id::text) limit $1",
        )
        .bind(count as i64)
        .fetch_all(db)
        .await?;
        let by_edges: Vec<(Uuid,)> = sqlx::query_as(
            "select case when get_byte(id_bytes, 15) % 2 = 0 then source_id else target_id end
             from (select source_id, target_id, uuid_send(canonical_id) as id_bytes from kb.graph_relationships
                   where superseded_at is null order by md5(canonical_id::text) limit $1) taken",
        )
        .bind(count as i64)
        .fetch_all(db)
        .await?;
        let types = sqlx::query_scalar(
            "select type from kb.graph_objects where superseded_at is null group by type order by count(*)",
        )
        .fetch_all(db)
        .await?;
        let mut dice = Dice::new(3);
        let queries = ids
            .iter()
            .enumerate()
            .map(|(number, (_, name, text))| match number % 3 {
                0 => name.clone(),
                1 => misspelt(name, &mut dice),
                _ => {
                    let words: Vec<&str> = text.split(' ').collect();
                    let mut word = || words[dice.below(words.len())];
                    format!("{} {}", word(), word())
                }
            })
            .collect();
        let mut objects = Vec::new();
        for (number, even) in ids.iter().enumerate() {
            objects.push(even.0);
            objects.extend(by_edges.get(number).map(|by_edge| by_edge.0));
        }
        Ok(Self {
            objects,
            queries,
            types,
        })
    }

    fn object(&self, number: usize) -> Uuid {
        self.objects[number % self.objects.len()]
    }

    fn query(&self, number: usize) -> &str {
        &self.queries[number % self.queries.len()]
    }

    fn of_type(&self, number: usize) -> &str {
        &self.types[number % self.types.len()]
    }
}

/// Transposes two letters of a word.
fn misspelt(name: &str, dice: &mut Dice) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    if letters.len() > 3 {
        let at = 1 + dice.below(letters.len() - 2);
        letters.swap(at, at - 1);
    }
    letters.into_iter().collect()
}

/// Measures calls, one after the other.
pub async fn measure(database: &Database, arguments: &Arguments, read: Read, size: Size) -> Result<Latencies> {
    let caller = Caller::new(database);
    let calls = match (size, read) {
        (Size::Smoke, _) => 4,
        // Their arguments don't vary.
        (_, Read::Types | Read::Tags) => 20,
        (Size::Full | Size::Large, _) => arguments.objects.len(),
    };
    let began = Instant::now();
    for number in 0..WARMING.min(calls) {
        caller.call(arguments, read, number).await?;
        if began.elapsed() > LIMIT / 2 {
            break;
        }
    }
    let began = Instant::now();
    let mut latencies = Latencies::default();
    for number in 0..calls {
        let call_began = now_us();
        caller.call(arguments, read, number).await?;
        latencies.since(call_began);
        if began.elapsed() > LIMIT {
            break;
        }
    }
    Ok(latencies)
}

struct Caller<'a> {
    database: &'a Database,
    registry: Registry,
    context: ToolContext,
}

impl<'a> Caller<'a> {
    fn new(database: &'a Database) -> Self {
        Self {
            database,
            registry: builtin::tools(),
            context: ToolContext {
                db: database.db.pool_sqlx.clone(),
                workspace_id: database.workspace_id,
                model: std::sync::Arc::new(NoEmbedder),
                run_id: None,
                user_id: None,
                call_id: "call".to_owned(),
                record_id: Uuid::now_v7(),
                cancel: Default::default(),
                focus: None,
                bounds: None,
            },
        }
    }

    async fn call(&self, arguments: &Arguments, read: Read, number: usize) -> Result<()> {
        let object = arguments.object(number);
        let query = arguments.query(number);
        match read {
            Read::Search => self.tool("search_entities", json!({"query": query})).await,
            Read::Hybrid => self.find(number, query, Mode::Hybrid, &[]).await,
            Read::HybridOfType => {
                let of_type = [arguments.of_type(number).to_owned()];
                self.find(number, query, Mode::Hybrid, &of_type).await
            }
            Read::Semantic => self.find(number, query, Mode::Semantic, &[]).await,
            Read::Query => {
                let sort = ["name", "created_at", "updated_at"][number % 3];
                let of_type = arguments.of_type(number / 3);
                self.tool("query_entities", json!({"type_name": of_type, "sort_by": sort}))
                    .await
            }
            Read::Edges => self.tool("get_entity_edges", json!({"entity_id": object})).await,
            Read::Walk(depth) => {
                self.tool("traverse_graph", json!({"start_entity_id": object, "max_depth": depth}))
                    .await
            }
            Read::Relationships => self.tool("list_relationships", json!({"source_id": object})).await,
            Read::Types => self.tool("list_entity_types", json!({})).await,
            Read::Tags => self.tool("list_tags", json!({})).await,
            Read::Similar => {
                let workspace_id = self.database.workspace_id;
                search::similar(
                    &self.context.db,
                    workspace_id,
                    object,
                    Some(MODEL),
                    &Scope::default(),
                    10,
                )
                .await?;
                Ok(())
            }
            Read::Path => {
                let other = arguments.object(number + 7);
                self.tool("find_path", json!({"from_id": object, "to_id": other})).await
            }
        }
    }

    async fn find(&self, number: usize, query: &str, mode: Mode, types: &[String]) -> Result<()> {
        let vector = vectors::query(&mut Dice::new(number as u64));
        let scope = Scope {
            types: types.to_vec(),
            ..Scope::default()
        };
        hybrid_ranking::find(
            &self.context.db,
            self.database.workspace_id,
            query,
            Some(&vector),
            mode,
            &scope,
            20,
        )
        .await?;
        Ok(())
    }

    async fn tool(&self, name: &str, arguments: Value) -> Result<()> {
        let tool = self
            .registry
            .get(name)
            .with_context(|| format!("there is no tool {name}"))?;
        match tool.call(&self.context, arguments).await {
            // Also valid: an object deleted meanwhile, an ambiguous name.
            Ok(_) | Err(ToolError::RespondToModel(_)) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("calling {name}")),
        }
    }
}
