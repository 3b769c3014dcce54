//! The agent of a run: its definition and model.

use std::sync::Arc;

use rejoin_model_client::ModelError;
use rejoin_model_client::fallback::{Candidate, Candidates};
use rejoin_model_client::registry::{Replaced, Resolved};
use rejoin_models::choice::ModelChoice;
use rejoin_runs::agents::{self, AgentDefinition, versions};
use rejoin_runs::model_calls::{self, ModelCall};
use rejoin_runs::prices::{self, ModelPrice};
use rejoin_runs::runs::Run;

use crate::flow::FlowModel;
use crate::services::Services;

/// The agent executing a run.
pub(super) struct Agent {
    /// None: a plain conversation's run, or a deleted definition.
    pub(super) definition: Option<AgentDefinition>,
    /// The request of a run that answers a model call: its definition is made of it.
    pub(super) model_call: Option<ModelCall>,
    /// The model, or why it is unavailable.
    pub(super) model: Result<Resolved, ModelError>,
    /// The fallback models.
    fallbacks: Vec<Resolved>,
}

impl Agent {
    pub(super) async fn of(services: &Services, run: &Run) -> Result<Self, sqlx::Error> {
        let definition = match run.agent_definition_id {
            Some(id) => {
                let mut connection = services.db.pool_sqlx.acquire().await?;
                agents::get(&mut connection, run.workspace_id, id).await?
            }
            None => None,
        };
        let model_call = model_calls::of_run(&services.db.pool_sqlx, run).await?;
        let definition = definition.or_else(|| model_call.as_ref().map(|call| call.definition(run)));
        let definition = match definition {
            Some(definition) => Some(with_choices(services, run, definition).await?),
            None => None,
        };
        let model = match definition.as_ref().and_then(FlowModel::of) {
            Some(flow) => Ok(Resolved {
                name: flow.name(),
                provider: Arc::new(flow),
                replaced: None,
            }),
            // A run that selects a task's agent has no definition, and names its model itself.
            None if definition.is_none() && run.task_id.is_some() => services.models.resolve(run.model.as_deref()),
            None if definition.is_none() && run.requested_model.is_some() => {
                services.models.resolve(run.requested_model.as_deref())
            }
            None => services.models.of_definition(model_choice(definition.as_ref())),
        };
        let fallbacks = model_choice(definition.as_ref())
            .into_iter()
            .flat_map(|model| &model.fallback_models)
            .filter_map(|name| match services.models.resolve(Some(name)) {
                Ok(model) => Some(model),
                Err(error) => {
                    tracing::warn!(model = %name, %error, "this fallback model cannot be used; skipping it");
                    None
                }
            })
            .collect();
        Ok(Self {
            definition,
            model_call,
            model,
            fallbacks,
        })
    }

    /// Returns the models in order, each with its price: the agent's, then its fallbacks. `prices`: the workspace's own.
    pub(super) fn candidates(&self, prices: &[ModelPrice], first: &Resolved) -> Candidates {
        let candidate = |model: &Resolved| Candidate {
            price: prices::of(prices, &model.name, rejoin_models::today()),
            model: model.clone(),
        };
        Candidates::new(candidate(first), self.fallbacks.iter().map(candidate))
    }

    /// Returns whether it is a planner: its definition names the tool.
    pub(super) fn plans(&self) -> bool {
        let tools = self.definition.iter().flat_map(|definition| &definition.tools);
        tools.into_iter().any(|tool| tool == rejoin_types::events::PLAN_TOOL)
    }

    pub(super) fn model_name(&self) -> String {
        match &self.model {
            Ok(model) => model.name.clone(),
            Err(_) => model_choice(self.definition.as_ref())
                .map_or("unknown", |model| &model.name)
                .to_owned(),
        }
    }

    /// Returns the definition's model, if another one answers.
    pub(super) fn replaced(&self) -> Option<&Replaced> {
        self.model.as_ref().ok().and_then(|model| model.replaced.as_ref())
    }
}

/// Returns the definition in the version that the run's conversation stays with, and with the model that the run's user has chosen.
async fn with_choices(
    services: &Services,
    run: &Run,
    definition: AgentDefinition,
) -> Result<AgentDefinition, sqlx::Error> {
    let is_newest = run.agent_version.is_none_or(|version| version == definition.version);
    let mut definition = match run.conversation_id {
        Some(_) if !is_newest => match versions::pinned(&services.db.pool_sqlx, run.id).await? {
            Some(pinned) => definition.at(pinned.version, pinned.content),
            None => definition,
        },
        Some(_) | None => definition,
    };
    if let Some(name) = &run.requested_model {
        let own = definition.model.take();
        definition.model = Some(ModelChoice {
            temperature: own.as_ref().and_then(|own| own.temperature),
            max_tokens: own.as_ref().and_then(|own| own.max_tokens),
            reasoning_effort: own.as_ref().and_then(|own| own.reasoning_effort),
            ..ModelChoice::named(name.as_str())
        });
    }
    Ok(definition)
}

/// Returns the model named by a definition.
fn model_choice(definition: Option<&AgentDefinition>) -> Option<&ModelChoice> {
    definition.and_then(|definition| definition.model.as_ref())
}
