//! `rejoin questions`: runs' questions to users, and the answers; through the API.
use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// List and answer the questions of runs.
///
/// Examples:
///   rejoin questions list
///   rejoin questions answer 0192f0c1-… yes
///   rejoin questions answer 0192f0c1-… edit --input '{"path": "/tmp/x"}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the questions of the runs that you may see, oldest first.
    List {
        /// Only questions in this state.
        #[arg(long, default_value = "pending", value_parser = ["pending", "answered", "expired", "cancelled", "all"])]
        status: String,
        /// Maximum number of questions.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
    },
    /// Answer a question and resume its run.
    Answer {
        question: Uuid,
        /// A text, the value of an option, a JSON list of values, or approve, edit, refuse.
        answer: String,
        /// With edit: the new arguments of the tool call, as JSON.
        #[arg(long, value_name = "JSON", value_parser = json_of)]
        input: Option<Value>,
    },
}

fn json_of(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    match args.action {
        Action::List { status, limit } => {
            let status = match status.as_str() {
                "all" => String::new(),
                status => format!("&status={status}"),
            };
            list(
                &client.get(&format!("/api/questions?limit={limit}{status}")).await?,
                out,
            )?;
        }
        Action::Answer {
            question,
            answer,
            input,
        } => {
            // Several values form a list; the rest is text, even if it looks like JSON.
            let answer = match serde_json::from_str(&answer) {
                Ok(list @ Value::Array(_)) => list,
                Ok(_) | Err(_) => Value::String(answer),
            };
            let mut body = json!({ "answer": answer });
            if let Some(input) = input {
                body["input"] = input;
            }
            let stored = client.post(&format!("/api/questions/{question}/answer"), &body).await?;
            out.either(&stored, || format!("the question {question} is answered"))?;
        }
    }
    Ok(Exit::Done)
}

fn list(page: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(page);
    }
    let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<[String; 5]> = items
        .iter()
        .map(|question| {
            let words = |field: &str| question[field].as_str().unwrap_or_default().replace('\n', " ");
            let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
            let values: Vec<&str> = options.iter().filter_map(|option| option["value"].as_str()).collect();
            [
                words("id"),
                words("runId"),
                words("status"),
                words("question"),
                values.join(", "),
            ]
        })
        .collect();
    out.table(["QUESTION", "RUN", "STATUS", "ASKS", "OPTIONS"], &rows)
}
