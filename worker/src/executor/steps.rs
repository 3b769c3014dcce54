//! The step loop of one agent: its tools and limits, and the request that carries them. Called by `executor`.

use std::sync::Arc;
use std::time::Duration;

use futures::try_join;
use rejoin_commands::SpawnLimits;
use rejoin_event_log::stream::{RunStream, Seen};
use rejoin_extension::Signals;
use rejoin_model_client::fallback::Candidates;
use rejoin_queue::ClaimedJob;
use rejoin_runs::agents::settings::{Settings, TreeSettings};
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::client_tools;
use rejoin_runs::runs::part::Part;
use rejoin_runs::runs::{self, Clocks, Run};
use rejoin_runs::tool_calls;
use rejoin_scheduling::plans::TOOL_CALLS_MAX;
use rejoin_telemetry::TraceContext;
use rejoin_tools::SharedTool;
use rejoin_tools::registry::Patterns;
use serde_json::Value;

use super::attempt_error::AttemptError;
use crate::coordination::{self, handoffs};
use crate::flow::FlowModel;
use crate::publish::{self, FirstToken};
use crate::run::client_tools::ClientTools;
use crate::run::history::{self, InitialMessages};
use crate::run::limits::{SUB_AGENT_MAX_STEPS, TreeLimits};
use crate::run::selection::Selection;
use crate::run::{End, ExecuteRequest, Execution, Limits};
use crate::services::Services;

/// Runs the step loop, with its events going to the log.
pub(super) async fn step_loop(
    services: &Services,
    job: &ClaimedJob,
    (signals, seen, trace): (&Signals, &Seen, Option<TraceContext>),
    run: &Run,
    definition: Option<&AgentDefinition>,
    models: Candidates,
    fresh: Option<&InitialMessages>,
) -> Result<End, AttemptError> {
    let stream = Arc::new(RunStream {
        log_id: run.log_id,
        root_run_id: run.root_run_id,
        run_id: run.id,
        attempt: job.attempt,
        lost: signals.lost.clone(),
        seen: seen.clone(),
    });
    let answers_message = fresh.is_some() && job.attempt == 1 && run.conversation_id.is_some() && !run.is_sub_agent();
    let settings = definition
        .map(|definition| Settings::of(&definition.config).unwrap_or_default())
        .unwrap_or_default();
    let timeout_s = run
        .timeout_s
        .or(definition.and_then(|definition| definition.default_timeout))
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(services.config.run_timeout_s);
    let whitelist = definition
        .map(|definition| definition.tools.as_slice())
        .unwrap_or_default();
    let flow = definition.and_then(FlowModel::of);
    let is_flow = flow.is_some();
    let is_function = flow.as_ref().is_some_and(|flow| flow.program_tool().is_some());
    let max_depth = definition.and_then(|definition| definition.max_depth);
    let db = &services.db.pool_sqlx;
    let clocks = async {
        match fresh {
            Some(_) if !run.is_sub_agent() => Ok(Clocks::default()),
            Some(_) | None => runs::clocks(db, run.id).await.map_err(AttemptError::from),
        }
    };
    let targets = async {
        if is_flow || matches!(run.part(), Some(Part::PlanStep { .. } | Part::Suggestion)) {
            // A flow's next step is defined by its definition; a plan's step keeps its agent.
            return Ok(Vec::new());
        }
        let targets = handoffs::targets(db, run.workspace_id, &settings.handoffs).await;
        targets.map_err(AttemptError::from)
    };
    let handed_over = async {
        if fresh.is_some() {
            return Ok(false);
        }
        let over = tool_calls::outputs_of(db, run.id, handoffs::PREFIX, run.turn_step).await?;
        Ok(!over.is_empty())
    };
    let stored = async {
        Ok(match fresh {
            Some(initial) => history::begin(run, initial)?,
            None => history::rebuild(db, run).await?,
        })
    };
    let (clocks, mut handoffs, handed_over, stored) = try_join!(clocks, targets, handed_over, stored)?;
    let tree = tree_limits(services, run, definition, &clocks).await?;
    // Runs with handoffs are bounded, across all agents.
    let changes_hands = !handoffs.is_empty() || handed_over;
    let (tools, named) = match flow {
        // A flow has its tools regardless of the whitelist.
        Some(flow) => {
            let of_program: Vec<String> = flow.program_tool().map(str::to_owned).into_iter().collect();
            let mut tools = flow.tools();
            if !of_program.is_empty() {
                tools.extend(services.pools.resolve(run.workspace_id, &of_program).await?);
            }
            (tools, vec![coordination::SPAWN_AGENTS.to_owned()])
        }
        None => (
            services.pools.resolve(run.workspace_id, whitelist).await?,
            whitelist.to_vec(),
        ),
    };
    let part = run.part();
    let of_step = match &part {
        Some(Part::PlanStep { tools, .. }) => Some(tools.as_slice()),
        Some(Part::Suggestion) => Some(&[][..]),
        Some(Part::Planner) | None => None,
    };
    let mut tools: Vec<SharedTool> = tools
        .into_iter()
        .filter(|tool| coordination::keeps(&tool.spec().name, &named, run.depth, max_depth))
        // A plan's step has the tools of its plan, if its agent has them.
        .filter(|tool| of_step.is_none_or(|tools| tools.contains(&tool.spec().name)))
        .chain(handoffs.iter().map(|target| target.tool.clone()))
        .collect();
    let selection = Selection::for_run(services, run, &settings, &tools).await?;
    // A flow calls none; sub-agents and tasks have no client.
    let of_client = if is_flow || run.is_sub_agent() || run.task_id.is_some() {
        Vec::new()
    } else {
        match fresh {
            Some(initial) => initial.client_tools.clone(),
            None => client_tools::of_run(&services.db.pool_sqlx, run.id).await?.client_tools,
        }
    };
    let client_tools = ClientTools::offer(of_client, &mut tools);
    handoffs.retain(|target| !client_tools.has(&target.tool.spec().name));
    let request = ExecuteRequest {
        services: services.clone(),
        run: run.clone(),
        attempt: job.attempt,
        selection,
        is_function,
        client_tools,
        tools,
        handoffs,
        questions: settings.questions,
        planning: settings.planning.clone(),
        tool_calls: part.is_some().then_some(TOOL_CALLS_MAX),
        confirm: Arc::new(Patterns::new(&settings.confirm)),
        tree: clocks.used,
        models,
        temperature: definition
            .and_then(|d| d.model.as_ref())
            .and_then(|model| model.temperature),
        max_tokens: definition
            .and_then(|d| d.model.as_ref())
            .and_then(|model| model.max_tokens),
        effort: definition
            .and_then(|d| d.model.as_ref())
            .and_then(|model| model.reasoning_effort),
        limits: Limits::new(
            definition
                .and_then(|definition| definition.max_steps)
                .or((run.is_sub_agent() && !is_flow).then_some(SUB_AGENT_MAX_STEPS))
                .or(changes_hands.then_some(services.config.handoff_steps)),
            Duration::from_secs(timeout_s),
            Duration::from_secs(services.config.run_grace_s),
            Duration::from_secs_f64(clocks.age_s.max(0.0)),
            tree,
            services.downtime.clone(),
        ),
        signals: signals.clone(),
        trace,
        may_repeat_calls: is_flow,
        callback: Some(publish::to_log(
            services.writer.clone(),
            stream.clone(),
            run.clone(),
            services.observer.clone(),
            answers_message.then(|| FirstToken::of(job)),
        )),
        stream,
    };
    let may_have_pending = fresh.is_none_or(|initial| initial.has_pending);
    Ok(Execution::of(request, stored, may_have_pending).run().await)
}

/// Returns the limits of the run's tree: the smaller ones of the deployment's and those of the root's definition.
async fn tree_limits(
    services: &Services,
    run: &Run,
    definition: Option<&AgentDefinition>,
    clocks: &Clocks,
) -> Result<TreeLimits, sqlx::Error> {
    let of_root = match (run.is_sub_agent(), definition) {
        (false, Some(definition)) => definition.config.clone(),
        (false, None) => Value::Null,
        (true, _) => agents::config_of_run(&services.db.pool_sqlx, run.root_run_id).await?,
    };
    let wanted = match of_root {
        Value::Null => TreeSettings::default(),
        config => Settings::of(&config).unwrap_or_default().limits,
    };
    let config = &services.config;
    let seconds = wanted.seconds.unwrap_or(u64::MAX).min(config.tree_timeout_s);
    Ok(TreeLimits {
        tokens: wanted.tokens.unwrap_or(u64::MAX).min(config.tree_tokens),
        cost_usd: wanted.cost_usd.unwrap_or(f64::MAX).min(config.tree_cost_usd),
        spawning: SpawnLimits {
            tree: wanted.runs.unwrap_or(i32::MAX).min(config.tree_runs),
            workspace: config.parallel_sub_agents,
        },
        left: Duration::from_secs(seconds).saturating_sub(Duration::from_secs_f64(clocks.tree_age_s.max(0.0))),
    })
}
