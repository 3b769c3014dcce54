//! Finds agent definitions whose model is retired, soon will be, or has no price.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use chrono::NaiveDate;
use rejoin_db::operators;
use rejoin_models::choice::ModelChoice;
use rejoin_models::{DEFAULT_MODEL, names};
use rejoin_runs::prices::{self, ModelPrice};
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, Row};

use super::{ANSWER_LIMIT, Check, Finding, good, lacking};

/// Maximum number of findings shown individually.
const SHOWN: usize = 20;
/// Maximum number of definitions examined, newest first.
const LOOKED_AT: i64 = 10_000;
/// Maximum number of agents listed in one finding.
const NAMED: usize = 3;
/// Providers of rule-based models.
const FREE: [&str; 2] = ["demo", "flow"];

/// A model, and the definitions that name it.
#[derive(Debug, Default)]
struct Named {
    agents: Vec<String>,
    /// Whether none of them falls back to another model.
    or_default: bool,
    prices: Vec<ModelPrice>,
}

/// All findings; none if the database can't be read, which its own check reports.
pub(super) async fn of_database(url: Option<&str>) -> Vec<Finding> {
    let Some(url) = url else { return Vec::new() };
    let read = tokio::time::timeout(ANSWER_LIMIT, async {
        let mut connection = operators::connect(url, "rejoin-doctor").await?;
        let named = read(&mut connection).await?;
        connection.close().await?;
        anyhow::Ok(named)
    });
    match read.await {
        Ok(Ok(named)) => findings(named, rejoin_models::today()),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// By project and model.
async fn read(connection: &mut PgConnection) -> Result<BTreeMap<(String, String), Named>> {
    let rows = sqlx::query(
        "select d.project_id::text, p.name, d.name, d.model
         from kb.agent_definitions d join kb.projects p on p.id = d.project_id
         where d.model is not null and d.flow_type = 'single'
         order by d.id desc limit $1",
    )
    .bind(LOOKED_AT)
    .fetch_all(&mut *connection)
    .await?;
    let mut all: BTreeMap<(String, String), Named> = BTreeMap::new();
    for row in rows {
        let (project, title, agent): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let Json(model): Json<ModelChoice> = row.try_get(3)?;
        let named = all.entry((project, model.name)).or_default();
        named.agents.push(format!("{agent} ({title})"));
        named.or_default |= model.or_default;
    }
    let own = sqlx::query("select project_id::text, model, input_usd, output_usd from kb.model_prices")
        .fetch_all(connection)
        .await?;
    for row in own {
        let project: String = row.try_get(0)?;
        let price = ModelPrice {
            model: row.try_get(1)?,
            input_usd: row.try_get(2)?,
            output_usd: row.try_get(3)?,
        };
        for (_, named) in all.iter_mut().filter(|((of, _), _)| *of == project) {
            named.prices.push(price.clone());
        }
    }
    Ok(all)
}

fn findings(all: BTreeMap<(String, String), Named>, today: NaiveDate) -> Vec<Finding> {
    let looked_at = all.len();
    let mut findings: Vec<Finding> = all
        .into_iter()
        .filter_map(|((_, model), named)| of_model(&model, &named, today))
        .collect();
    let found = findings.len();
    if found > SHOWN {
        findings.truncate(SHOWN);
        let todo = "fix the definitions above, and run this again";
        findings.push(lacking(
            Check::Models,
            false,
            format!("and {} more like these", found - SHOWN),
            todo,
        ));
    }
    if found == 0 && looked_at > 0 {
        findings.push(good(
            Check::Models,
            "the models of all agent definitions are available and have a price",
        ));
    }
    findings
}

/// None: there is no finding.
fn of_model(name: &str, named: &Named, today: NaiveDate) -> Option<Finding> {
    let full = names::full(name).map_or_else(|| name.to_owned(), std::borrow::Cow::into_owned);
    let is_free = FREE.iter().any(|provider| full.split(':').next() == Some(provider));
    if name.trim() == DEFAULT_MODEL || is_free {
        return None;
    }
    let who = who(&named.agents);
    let catalogue = rejoin_models::catalogue();
    let resolved = catalogue.resolve(name, today);
    let note = |found: String, todo: String| Some(lacking(Check::Models, false, found, todo));
    if let Some(retired) = &resolved.retired {
        let found = format!(
            "{who} uses the model {name}, which its provider retired on {}",
            retired.on
        );
        return match &retired.successor {
            Some(successor) if named.or_default => {
                let found = format!("{found}; {successor}, or the model of plain conversations, is used instead");
                Some(good(Check::Models, found))
            }
            Some(successor) => note(
                format!("{found}; {successor} is used instead"),
                format!("use {successor}, or {DEFAULT_MODEL}, in the definition"),
            ),
            None => note(
                format!("{found}, so its runs fail"),
                format!("use another model (`rejoin models`), or {DEFAULT_MODEL}, in the definition"),
            ),
        };
    }
    if let Some(model) = catalogue.find(name).filter(|model| model.retires_soon(today)) {
        let day = model.retires_on.map(|day| day.to_string()).unwrap_or_default();
        let next = model.successor.as_deref().unwrap_or("another one of `rejoin models`");
        return note(
            format!("{who} uses the model {name}, which its provider will retire on {day}"),
            format!("try {next} before that day"),
        );
    }
    if prices::of(&named.prices, &full, today).is_none() {
        return note(
            format!("{who} uses the model {name}, which has no price, so dollar budgets do not count it"),
            format!("rejoin prices set '{full}' --input USD --output USD (per million tokens)"),
        );
    }
    None
}

fn who(agents: &[String]) -> String {
    let mut listed = agents.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if agents.len() > NAMED {
        let _ = write!(listed, " and {} more", agents.len() - NAMED);
    }
    match agents {
        [_] => format!("the agent {listed}"),
        _ => format!("each of the agents {listed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn say(model: &str, or_default: bool, prices: Vec<ModelPrice>) -> Option<Finding> {
        let named = Named {
            agents: vec!["helper (demo)".to_owned()],
            or_default,
            prices,
        };
        of_model(model, &named, "2026-11-24".parse().unwrap())
    }

    #[test]
    fn a_retired_model_is_named_with_what_answers_and_what_to_write() {
        let found = say("gemini-2.0-flash", false, Vec::new()).unwrap();
        assert_eq!(found.verdict, Verdict::Note);
        assert!(
            found
                .found
                .contains("2026-06-01; gemini:gemini-3.8-flash is used instead"),
            "{found:?}"
        );
        assert!(found.todo.unwrap().contains("use gemini:gemini-3.8-flash"));
        // The default agent names it on purpose.
        assert_eq!(
            say("gemini-2.0-flash", true, Vec::new()).unwrap().verdict,
            Verdict::Good
        );
    }

    #[test]
    fn models_that_end_soon_or_have_no_price_are_named() {
        let soon = say("gpt-4o-mini", false, Vec::new()).unwrap();
        assert!(soon.found.contains("retire on 2027-01-14"), "{soon:?}");
        let unpriced = say("openai:my-own", false, Vec::new()).unwrap();
        assert!(unpriced.todo.unwrap().contains("rejoin prices set 'openai:my-own'"));
        let own = vec![ModelPrice {
            model: "openai:my-*".to_owned(),
            input_usd: 0.0,
            output_usd: 0.0,
        }];
        assert!(say("openai:my-own", false, own).is_none());
        for fine in ["gpt-6-luna", DEFAULT_MODEL, "demo:graph", "ollama:llama3.2"] {
            assert!(say(fine, false, Vec::new()).is_none(), "{fine}");
        }
    }

    #[test]
    fn many_findings_are_counted_and_none_is_said_to_be_good() {
        let today = "2026-11-24".parse().unwrap();
        let named = || Named {
            agents: (0..5).map(|n| format!("a{n} (p)")).collect(),
            ..Named::default()
        };
        let many = (0..30).map(|n| (("p".to_owned(), format!("openai:own-{n}")), named()));
        let listed = findings(many.collect(), today);
        assert_eq!(listed.len(), SHOWN + 1);
        assert!(listed[0].found.contains("a2 (p) and 2 more"), "{:?}", listed[0]);
        assert!(listed[SHOWN].found.contains("10 more"));
        let fine = [(("p".to_owned(), "gpt-6-luna".to_owned()), named())];
        assert_eq!(findings(fine.into_iter().collect(), today)[0].verdict, Verdict::Good);
        assert!(findings(BTreeMap::new(), today).is_empty());
    }
}
