//! `reads`: which share of PostgreSQL's work a read replica could take, in a mixed load of turns, lists, searches and pages of the past. Decides
//! docs/decisions/0072-read-replicas.md.
//!
//! Statements are counted by pg_stat_statements, by the role that ran them and by their text.

use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::search::import_packages;
use super::turn::counting_server;
use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Column, Of, Table};
use crate::scenario::{Context, Recorder, Scenario};

const SHARES: &str = "shares";
const ALL: &str = "all";
/// Clients at the same time, and rounds of each.
const CLIENTS: usize = 8;
const ROUNDS: usize = 25;
/// Lines of the demonstration graph.
const LINES: usize = 20_000;
/// Words that are searched for.
const QUERIES: [&str; 5] = ["parser", "json library", "web server", "compiler", "fonts"];
/// Between the end of the load and the count: what workers settle later.
const SETTLE: Duration = Duration::from_secs(2);

/// The class of a statement. Only plain reads can leave the primary: no locks, and no functions that write.
const CLASSES: &str = r"select class, sum(calls)::float8, sum(ms)::float8 from (
    select s.calls, s.total_exec_time + s.total_plan_time as ms,
           case
               when s.query ~* '^\s*(begin|commit|rollback|set|reset|discard|deallocate)\M' then 'transactions'
               when s.query !~* '^\s*(with|select)\M'
                    or s.query ~* '\m(insert into|delete from|for update|for no key update|for share|for key share)\M'
                    or s.query ~* '\mupdate\s+(kb|queue|stream|audit)\.'
                    or s.query ~* '\m(kb|queue|stream|audit)\.[a-z_]+\s*\(' then 'writes and locks'
               when s.query ~ 'stream\.events' and s.query ~ 'row_number\(\)' then 'pages of the past'
               when s.query ~ 'kb\.graph_' and r.rolname = 'rejoin_worker' then 'graph reads of agents'
               when s.query ~ 'kb\.graph_' then 'graph reads and search'
               when r.rolname = 'rejoin_gate' then 'authentication'
               when r.rolname = 'rejoin_worker' then 'other reads of workers'
               when s.query ~ 'stream\.' then 'tail and ends of logs'
               when s.query ~* '\mlimit\M' then 'lists'
               else 'other reads of the API'
           end as class
    from pg_stat_statements s
    join pg_roles r on r.oid = s.userid
    where r.rolname in ('rejoin_app', 'rejoin_gate', 'rejoin_worker')
      and s.dbid = (select oid from pg_database where datname = current_database())) c
    group by class order by 3 desc";

pub struct Reads;

#[async_trait]
impl Scenario for Reads {
    fn name(&self) -> &'static str {
        "reads"
    }

    fn about(&self) -> &'static str {
        "the share of PostgreSQL's work that a read replica could take"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str, unit: &str| Column::new(key, title, unit, Better::Neither, Of::Rejoin);
        let shares = vec![
            column("calls", "statements of a round", ""),
            column("ms", "time of a round", "ms"),
            column("share", "share of the time", "%"),
            column("cpu", "CPU of PostgreSQL, a round", "ms"),
        ];
        vec![Table::new(
            SHARES,
            "A mixed load, by class of statement",
            "class",
            shares,
        )]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(
            "A round: a conversation, a turn of an agent with one tool call, the list of conversations, the conversation's messages, a search and \
             a list in the graph, and all events of the conversation again. Time: planning and execution, as pg_stat_statements counts them. \
             A replica could take pages of the past, lists, graph reads and search; with their own scopes, which are statements of \
             transactions.",
        );
        let own = Context {
            server: counting_server().await?,
            size: context.size,
            rep: context.rep,
            reps: context.reps,
            peers: context.peers,
            folder: context.folder.clone(),
        };
        measure_shares(&own, out).await?;
        own.server.stop().await
    }
}

async fn measure_shares(context: &Context, out: &mut Recorder) -> Result<()> {
    let fleet = Fleet::start(context, &[("REJOIN_SLOTS", "200")]).await?;
    let db = &fleet.database.db.pool_sqlx;
    sqlx::query("create extension pg_stat_statements").execute(db).await?;
    import_packages(db, fleet.database.workspace_id, context.sized(LINES, 150)).await?;
    sqlx::query("analyze").execute(db).await?;
    let agent = json!(fleet.agent().await?);
    // Connections, prepared statements, caches.
    load(&fleet, &agent, context.sized(CLIENTS, 1), 1).await?;
    sqlx::query("select pg_stat_statements_reset()").execute(db).await?;
    let before = fleet.cpu_us(context)?[2];
    let (clients, each) = (context.sized(CLIENTS, 1), context.sized(ROUNDS, 1));
    load(&fleet, &agent, clients, each).await?;
    tokio::time::sleep(context.sized(SETTLE, Duration::from_millis(200))).await;
    let cpu_us = fleet.cpu_us(context)?[2].saturating_sub(before);
    let rounds = (clients * each) as f64;
    let classes: Vec<(String, f64, f64)> = sqlx::query_as(CLASSES).fetch_all(db).await?;
    let all_calls: f64 = classes.iter().map(|(_, calls, _)| calls).sum();
    let all_ms: f64 = classes.iter().map(|(_, _, ms)| ms).sum();
    let share = |ms: f64| 100.0 * ms / all_ms.max(f64::MIN_POSITIVE);
    for (class, calls, ms) in &classes {
        out.record(SHARES, class, "calls", calls / rounds);
        out.record(SHARES, class, "ms", ms / rounds);
        out.record(SHARES, class, "share", share(*ms));
    }
    out.record(SHARES, ALL, "calls", all_calls / rounds);
    out.record(SHARES, ALL, "ms", all_ms / rounds);
    out.record(SHARES, ALL, "share", share(all_ms));
    out.record(SHARES, ALL, "cpu", cpu_us as f64 / rounds / 1_000.0);
    fleet.stop(context).await
}

/// `clients` clients of `each` rounds, one after the other.
async fn load(fleet: &Fleet, agent: &Value, clients: usize, each: usize) -> Result<()> {
    let all = (0..clients).map(|client| rounds(fleet, agent, client, each));
    futures::future::try_join_all(all).await?;
    Ok(())
}

async fn rounds(fleet: &Fleet, agent: &Value, client: usize, each: usize) -> Result<()> {
    let http = reqwest::Client::new();
    let mut chat = fleet.chat().await?;
    let (url, project) = (&fleet.urls[0], fleet.database.workspace_id);
    let script = Script {
        calls: 1,
        tokens: 20,
        ..Script::default()
    };
    for round in 0..each {
        let request = http
            .post(format!("{url}/api/conversations"))
            .json(&json!({"title": "mixed"}));
        let made: Value = answer(request, fleet).await?;
        let id = made["id"].as_str().context("a conversation has an id")?;
        let fields = json!({"agentDefinitionId": agent, "conversationId": id});
        chat.ask(fields, script).await?;
        let query = QUERIES[(client + round) % QUERIES.len()].replace(' ', "%20");
        for path in [
            "/api/conversations?limit=50".to_owned(),
            format!("/api/conversations/{id}/messages"),
            format!("/api/projects/{project}/graph/search?query={query}&mode=lexical&limit=10"),
            format!("/api/projects/{project}/graph/objects?limit=20"),
            format!("/api/durable-streams/conversations/{id}?offset=-1"),
        ] {
            answer(http.get(format!("{url}{path}")), fleet).await?;
        }
    }
    Ok(())
}

/// Sends a request with the key of the user.
async fn answer(request: reqwest::RequestBuilder, fleet: &Fleet) -> Result<Value> {
    let response = request.bearer_auth(&fleet.database.api_key).send().await?;
    Ok(response.error_for_status()?.json().await?)
}
