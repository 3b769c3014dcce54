//! `prewarm`: the first message about a project, with and without prefetching. Real processes, an instant model.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::load::{Latencies, now_us};
use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Prewarm;

const TABLE: &str = "prewarm";
/// Numbers of entities linked to a project.
const SIZES: [usize; 3] = [100, 20_000, 200_000];
const SCRIPT: Script = Script {
    calls: 0,
    tokens: 3,
    pause_ms: 5,
    think_ms: 0,
    more: 0,
    agents: 0,
};

#[async_trait]
impl Scenario for Prewarm {
    fn name(&self) -> &'static str {
        "prewarm"
    }

    fn about(&self) -> &'static str {
        "the time to the first token of a first message about a project, with and without prewarming"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            column("warm_p50", "prewarmed: p50"),
            column("warm_p99", "p99"),
            column("cold_p50", "not prewarmed: p50").ratio_to("warm_p50"),
            column("cold_p99", "p99"),
            column("request_p50", "the prewarming itself: p50"),
        ];
        let title = "First token of a first message about a project, the platform's part";
        vec![Table::new(TABLE, title, "project", columns).plot(PlotKind::Bars, &["warm_p50", "cold_p50"], true)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let fleet = Fleet::start(context, &[]).await?;
        let agent = fleet.agent().await?;
        let client = reqwest::Client::new();
        for size in SIZES {
            let things = context.sized(size, 50);
            let row = format!("with {size} things in it");
            let about = |project: Uuid| {
                let focus = json!({"projectId": project, "projectName": "Bench"});
                json!({"agentDefinitionId": agent, "contextType": "project", "projectFocus": focus})
            };
            // Data prefetched for one are useless for the other.
            let warmed = about(project(&fleet, things).await?);
            let unread = about(project(&fleet, things).await?);
            let turns = context.sized(100, 3);
            let mut warm = Latencies::default();
            let mut cold = Latencies::default();
            let mut requests = Latencies::default();
            let mut chat = fleet.chat().await?;
            // Alternating, so that noise affects both.
            for number in 0..turns + turns / 10 + 1 {
                let before_us = now_us();
                let session = prewarm(&client, &fleet, &warmed).await?;
                let asked_us = now_us();
                let mut part_us = [0_u64; 2];
                for (nth, told) in [json!({ "conversationId": session }), unread.clone()]
                    .into_iter()
                    .enumerate()
                {
                    let posted_us = now_us();
                    let turn = chat.ask(told, SCRIPT).await?;
                    part_us[nth] = turn.parts_us(posted_us).iter().sum();
                }
                if number > turns / 10 {
                    requests.record(asked_us - before_us);
                    warm.record(part_us[0]);
                    cold.record(part_us[1]);
                }
            }
            for (column, value) in [
                ("warm_p50", warm.quantile_ms(0.5)),
                ("warm_p99", warm.quantile_ms(0.99)),
                ("cold_p50", cold.quantile_ms(0.5)),
                ("cold_p99", cold.quantile_ms(0.99)),
                ("request_p50", requests.quantile_ms(0.5)),
            ] {
                out.record(TABLE, &row, column, value);
            }
        }
        out.note(
            "Prewarmed: `POST /api/agent/prewarm` created the conversation and read the project before the message \
             was posted. Not prewarmed: the message contains its context, and creates the conversation. The model \
             answers at once, and its time is excluded.",
        );
        fleet.stop(context).await
    }

    fn claims(&self, _: &Recorder) -> Vec<Claim> {
        Vec::new()
    }
}

async fn prewarm(client: &reqwest::Client, fleet: &Fleet, about: &Value) -> Result<String> {
    let said: Value = client
        .post(format!("{}/api/agent/prewarm", fleet.urls[0]))
        .bearer_auth(&fleet.database.api_key)
        .json(about)
        .send()
        .await?
        .error_for_status()?
        .json()
        .await?;
    let id = said["session"]["id"].as_str().context("a session")?;
    Ok(id.to_owned())
}

/// Creates a project of the graph with this many entities.
async fn project(fleet: &Fleet, things: usize) -> Result<Uuid> {
    let db = &fleet.database.db.pool_sqlx;
    let id = Uuid::now_v7();
    let things = i32::try_from(things)?;
    sqlx::query(
        "insert into kb.graph_objects (id, project_id, canonical_id, version, type, key, properties, content_hash, actor_type)
         select id, $1, id, 1, case when n = 0 then 'project' else 'task' end, 'p' || $2 || '-' || n, jsonb_build_object('name', 'thing ' || n), '', 'system'
         from (select n, case when n = 0 then $2 else gen_random_uuid() end as id from generate_series(0, $3) n) made",
    )
    .bind(fleet.database.workspace_id)
    .bind(id)
    .bind(things)
    .execute(db)
    .await?;
    sqlx::query(
        "insert into kb.graph_relationships (id, project_id, canonical_id, version, type, source_id, target_id, content_hash, actor_type)
         select edge, $1, edge, 1, 'has_task', $2, canonical_id, '', 'system'
         from (select canonical_id, gen_random_uuid() as edge from kb.graph_objects
               where project_id = $1 and key like 'p' || $2 || '-%' and canonical_id <> $2) made",
    )
    .bind(fleet.database.workspace_id)
    .bind(id)
    .execute(db)
    .await?;
    sqlx::query("analyze kb.graph_objects, kb.graph_relationships")
        .execute(db)
        .await?;
    Ok(id)
}
