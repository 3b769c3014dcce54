//! `rejoin webhooks`: a project's webhooks, their secrets and deliveries; through the API.
use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    client::Client,
    dev_instance,
    exit::Exit,
    fields::{field, items},
    global::Global,
    out::Out,
};

/// Send events of a project to a URL: ended runs, questions, ended DAGs, used-up budgets.
///
/// Examples:
///   rejoin webhooks add https://hooks.example/rejoin --event run.ended --event question.asked
///   rejoin webhooks test 0192f0c1-…
///   rejoin webhooks deliveries 0192f0c1-… --state dead
///   rejoin webhooks replay 0192f0c1-… --dead
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
    /// Project; required unless `rejoin dev` runs on this machine.
    #[arg(long, global = true, env = "REJOIN_PROJECT_ID", value_name = "ID")]
    pub project: Option<Uuid>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Create a webhook and print its secret, which is not shown again.
    Add {
        /// URL that receives the events, https://…
        #[arg(value_name = "URL")]
        receiver: String,
        /// Event to send; repeat the option for several.
        #[arg(long = "event", required = true, value_name = "EVENT")]
        events: Vec<EventName>,
        #[arg(long, default_value = "")]
        description: String,
    },
    /// List the project's webhooks.
    List,
    /// Change a webhook's receiver, events or description.
    Set {
        webhook: Uuid,
        /// URL that receives the events from now on.
        #[arg(long, value_name = "URL")]
        receiver: Option<String>,
        /// Event to send instead of those before; repeat the option for several.
        #[arg(long = "event", value_name = "EVENT")]
        events: Vec<EventName>,
        #[arg(long)]
        description: Option<String>,
    },
    /// Enable a webhook that was disabled, by an admin or because its receiver responded 410.
    Enable { webhook: Uuid },
    /// Send no more events; pending deliveries become dead, and can be replayed later.
    Disable { webhook: Uuid },
    /// Replace a webhook's secret and print the new one.
    RotateSecret {
        webhook: Uuid,
        /// Seconds for which deliveries are also signed with the previous secret [default: a day]
        #[arg(long, value_name = "SECONDS")]
        overlap: Option<u32>,
    },
    /// Send a test event.
    Test { webhook: Uuid },
    /// List what was sent to a webhook, newest first.
    Deliveries {
        webhook: Uuid,
        /// Only deliveries in this state.
        #[arg(long)]
        state: Option<DeliveryState>,
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// The page after this one, from `nextCursor`.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Send a delivery again, or all dead ones.
    Replay {
        webhook: Uuid,
        #[arg(required_unless_present = "dead", conflicts_with = "dead")]
        delivery: Option<Uuid>,
        /// All dead deliveries, in their order.
        #[arg(long)]
        dead: bool,
    },
    /// Delete a webhook with its deliveries.
    Remove { webhook: Uuid },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EventName {
    #[value(name = "run.ended")]
    RunEnded,
    #[value(name = "question.asked")]
    QuestionAsked,
    #[value(name = "dag.ended")]
    DagEnded,
    #[value(name = "budget.reached")]
    BudgetReached,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DeliveryState {
    Pending,
    Delivered,
    Dead,
}

/// The name on the command line, which is that of the API.
fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

fn names(events: Vec<EventName>) -> Vec<String> {
    events.into_iter().map(name).collect()
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let all = format!("/api/admin/projects/{}/webhooks", client.project(args.project).await?);
    let one = |webhook: Uuid| format!("{all}/{webhook}");
    match args.action {
        Action::Add {
            receiver,
            events,
            description,
        } => {
            let body = json!({ "url": receiver, "events": names(events), "description": description });
            show_secret(&client.post(&all, &body).await?, out)?;
        }
        Action::List => list(&client.get(&all).await?, out)?,
        Action::Set {
            webhook,
            receiver,
            events,
            description,
        } => {
            let events = (!events.is_empty()).then(|| json!(names(events)));
            let changes = [
                ("url", receiver.map(Value::from)),
                ("events", events),
                ("description", description.map(Value::from)),
            ];
            let changes: Map<String, Value> = changes
                .into_iter()
                .filter_map(|(field, value)| Some((field.to_owned(), value?)))
                .collect();
            show(
                &client.change(Method::PATCH, &one(webhook), &changes.into()).await?,
                out,
            )?;
        }
        Action::Enable { webhook } => switch(&client, &one(webhook), true, out).await?,
        Action::Disable { webhook } => switch(&client, &one(webhook), false, out).await?,
        Action::RotateSecret { webhook, overlap } => {
            let body = overlap.map_or_else(|| json!({}), |overlap| json!({ "overlapS": overlap }));
            let path = format!("{}/rotate-secret", one(webhook));
            show_secret(&client.post(&path, &body).await?, out)?;
        }
        Action::Test { webhook } => {
            let delivery = client.post(&format!("{}/test", one(webhook)), &json!({})).await?;
            out.either(&delivery, || {
                format!(
                    "the test event is delivery {}; its result: rejoin webhooks deliveries {webhook}",
                    field(&delivery, "id")
                )
            })?;
        }
        Action::Deliveries {
            webhook,
            state,
            limit,
            cursor,
        } => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &limit.to_string());
            if let Some(state) = state {
                query.append_pair("state", &name(state));
            }
            if let Some(cursor) = cursor {
                query.append_pair("cursor", &cursor);
            }
            let path = format!("{}/deliveries?{}", one(webhook), query.finish());
            deliveries(&client.get(&path).await?, out)?;
        }
        Action::Replay {
            webhook,
            delivery: Some(delivery),
            ..
        } => {
            let path = format!("{}/deliveries/{delivery}/replay", one(webhook));
            let replayed = client.post(&path, &json!({})).await?;
            out.either(&replayed, || format!("the delivery {delivery} is sent again"))?;
        }
        Action::Replay {
            webhook,
            delivery: None,
            ..
        } => {
            let replayed = client
                .post(&format!("{}/replay-dead", one(webhook)), &json!({}))
                .await?;
            out.either(&replayed, || {
                format!("{} deliveries are sent again", replayed["replayed"])
            })?;
        }
        Action::Remove { webhook } => {
            client.delete(&one(webhook)).await?;
            out.either(&json!({ "removed": webhook }), || {
                format!("the webhook {webhook} was removed")
            })?;
        }
    }
    Ok(Exit::Done)
}

async fn switch(client: &Client, path: &str, enabled: bool, out: Out) -> Result<()> {
    let changed = client
        .change(Method::PATCH, path, &json!({ "enabled": enabled }))
        .await?;
    show(&changed, out)
}

fn show(webhook: &Value, out: Out) -> Result<()> {
    out.either(webhook, || {
        format!(
            "{}  {}  {}  {}",
            field(webhook, "id"),
            field(webhook, "url"),
            events(webhook),
            state(webhook)
        )
    })
}

fn show_secret(made: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(made);
    }
    show(&made["webhook"], out)?;
    out.line(&format!(
        "its secret, which is not shown again: {}",
        field(made, "secret")
    ))
}

fn list(page: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(page);
    }
    let rows: Vec<[String; 4]> = items(page)
        .iter()
        .map(|webhook| {
            [
                field(webhook, "id"),
                field(webhook, "url"),
                events(webhook),
                state(webhook),
            ]
        })
        .collect();
    out.table(["ID", "URL", "EVENTS", "STATE"], &rows)
}

fn deliveries(page: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(page);
    }
    let rows: Vec<[String; 6]> = items(page)
        .iter()
        .map(|delivery| {
            let result = match (&delivery["lastStatus"], &delivery["lastError"]) {
                (_, Value::String(error)) => error.clone(),
                (Value::Null, _) => String::new(),
                (status, _) => status.to_string(),
            };
            [
                field(delivery, "id"),
                field(delivery, "event"),
                field(delivery, "state"),
                delivery["attempts"].to_string(),
                field(delivery, "createdAt"),
                result,
            ]
        })
        .collect();
    out.table(["ID", "EVENT", "STATE", "ATTEMPTS", "CREATED", "LAST RESULT"], &rows)?;
    if let Some(next) = page["nextCursor"].as_str() {
        out.note(&format!("there are more: --cursor {next}"));
    }
    Ok(())
}

fn events(webhook: &Value) -> String {
    let events = webhook["events"].as_array().into_iter().flatten();
    events.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn state(webhook: &Value) -> String {
    match (webhook["enabled"].as_bool(), webhook["disabledReason"].as_str()) {
        (Some(true), _) => "enabled".to_owned(),
        (_, Some(reason)) => format!("disabled ({reason})"),
        (_, None) => "disabled".to_owned(),
    }
}
