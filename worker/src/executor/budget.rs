//! Notifies readers of a run that its budget in dollars is not enforced, because its model has no price.

use rejoin_model_client::is_language_model;
use rejoin_runs::agents::settings::Settings;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::prices::{self, ModelPrice};
use rejoin_runs::runs::Run;
use rejoin_types::events::Kind;

use crate::config::TREE_COST_USD;
use crate::services::Services;

/// The code of the `limit` event.
const UNCOUNTED: &str = "cost_budget_uncounted";

/// Returns one event after the turn's `meta`, or none. A default budget of the deployment causes no event: nobody has
/// chosen it.
pub(super) async fn notices(
    services: &Services,
    run: &Run,
    definition: Option<&AgentDefinition>,
    model: &str,
    prices: &[ModelPrice],
) -> Result<Vec<Kind>, sqlx::Error> {
    let is_known = run.safe_seq.is_some() || !is_language_model(model);
    if is_known {
        return Ok(Vec::new());
    }
    let config = match (run.is_sub_agent(), definition) {
        (false, Some(definition)) => definition.config.clone(),
        (false, None) => serde_json::Value::Null,
        (true, _) => agents::config_of_run(&services.db.pool_sqlx, run.root_run_id).await?,
    };
    let of_agent = Settings::of(&config).ok().and_then(|settings| settings.limits.cost_usd);
    let of_deployment = services.config.tree_cost_usd;
    let chosen = (of_deployment != TREE_COST_USD && of_deployment.is_finite()).then_some(of_deployment);
    let Some(budget_usd) = of_agent.into_iter().chain(chosen).reduce(f64::min) else {
        return Ok(Vec::new());
    };
    if prices::of(prices, model, rejoin_models::today()).is_some() {
        return Ok(Vec::new());
    }
    Ok(vec![Kind::Limit {
        limit: UNCOUNTED.to_owned(),
        message: message(model, budget_usd),
    }])
}

fn message(model: &str, budget_usd: f64) -> String {
    format!(
        "the model {model} has no price, so the budget of {budget_usd} dollars does not count its use. Set a price: \
        rejoin prices set '{model}' --input USD --output USD (per million tokens)"
    )
}
