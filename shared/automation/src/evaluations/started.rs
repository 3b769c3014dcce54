//! Evaluations of agents: started, and shown with their results.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_commands::start_evaluation::dag_of;
use rejoin_commands::{CreateDag, StartEvaluation};
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::agents::{self, AgentDefinition, EVALUATION_JUDGE};
use rejoin_scheduling::evaluations::{self, CaseResult, Evaluation, KeptCase, NewEvaluation, Tally};
use rejoin_types::access::Scope;
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

use super::{check_text, found};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_evaluations, start_evaluation))
        .routes(routes!(get_evaluation))
}

/// An agent that answered the questions of a set
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Evaluation)]
pub struct EvaluationBody {
    pub id: Uuid,
    pub set_id: Uuid,
    /// Its task DAG, by which it is paused, resumed and cancelled
    pub dag_id: Uuid,
    pub agent_definition_id: Uuid,
    /// The agent's name at its start
    pub agent: String,
    /// The agent's version at its start
    pub agent_version: i32,
    /// The name of the agent that judges the answers
    pub judge: String,
    /// Further instructions for the judge
    pub criteria: Option<String>,
    /// That of its DAG: `active`, `paused`, `completed`, `failed` (there are cases without a verdict) or `cancelled`
    pub state: String,
    pub passed: i64,
    pub failed: i64,
    /// Cases without an answer or a verdict
    pub errors: i64,
    /// Cases that are not over
    pub pending: i64,
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationPage {
    pub items: Vec<EvaluationBody>,
    pub next_cursor: Option<String>,
}

/// An evaluation with its results
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationDetail {
    #[serde(flatten)]
    pub evaluation: EvaluationBody,
    /// In the order of the cases
    pub results: Vec<EvaluationResult>,
}

/// What became of a case
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationResult {
    pub case_id: Uuid,
    pub question: String,
    pub expected: Option<String>,
    /// `waiting`, `running` (the agent answers), `judging`, `passed`, `failed` or `error`
    pub state: String,
    pub answer: Option<String>,
    /// The run that answered
    pub run_id: Option<Uuid>,
    /// The version of the agent that answered; null for others than who started the evaluation
    pub agent_version: Option<i32>,
    pub judge_run_id: Option<Uuid>,
    /// From 0 to 1, by the judge
    pub score: Option<f64>,
    /// The judge's reason, or what went wrong
    pub reason: Option<String>,
}

impl From<CaseResult> for EvaluationResult {
    fn from(result: CaseResult) -> Self {
        Self {
            case_id: result.case.id,
            question: result.case.question,
            expected: result.case.expected,
            state: result.state.as_str().to_owned(),
            answer: result.answer,
            run_id: result.run_id,
            agent_version: result.agent_version,
            judge_run_id: result.judge_run_id,
            score: result.score,
            reason: result.reason,
        }
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewEvaluation)]
pub struct EvaluationRequest {
    /// The agent that answers
    pub agent_definition_id: Uuid,
    /// The name of the agent that judges; null: `evaluation-judge`, which the project gets if it has none
    pub judge: Option<String>,
    /// Further instructions for the judge
    #[schema(max_length = 4000)]
    pub criteria: Option<String>,
}

fn evaluation_body(evaluation: Evaluation, tally: Tally) -> EvaluationBody {
    EvaluationBody {
        id: evaluation.id,
        set_id: evaluation.set_id,
        dag_id: evaluation.dag_id,
        agent_definition_id: evaluation.agent_definition_id,
        agent: evaluation.agent_name,
        agent_version: evaluation.agent_version,
        judge: evaluation.judge_agent,
        criteria: evaluation.criteria,
        state: evaluation.state,
        passed: tally.passed,
        failed: tally.failed,
        errors: tally.errors,
        pending: tally.pending,
        created_by: evaluation.created_by,
        created_at: evaluation.created_at,
        finished_at: evaluation.finished_at,
    }
}

pub(super) async fn bodies(db: &mut PgConnection, rows: Vec<Evaluation>) -> Result<Vec<EvaluationBody>, Problem> {
    let mut tallies: HashMap<Uuid, Tally> = evaluations::tallies(db, &rows).await?;
    let bodies = rows.into_iter().map(|evaluation| {
        let tally = tallies.remove(&evaluation.id).unwrap_or_default();
        evaluation_body(evaluation, tally)
    });
    Ok(bodies.collect())
}

async fn detailed(db: &mut PgConnection, set_id: Uuid, id: Uuid) -> Result<EvaluationDetail, Problem> {
    let found = evaluations::get_evaluation(&mut *db, set_id, id).await?;
    let evaluation = found.ok_or_else(|| Problem::not_found("evaluation_not_found", "The evaluation"))?;
    let results = evaluations::results(db, &evaluation).await?;
    let mut tally = Tally::default();
    for result in &results {
        tally.count(result.state);
    }
    Ok(EvaluationDetail {
        evaluation: evaluation_body(evaluation, tally),
        results: results.into_iter().map(EvaluationResult::from).collect(),
    })
}

/// List the evaluations with a set, newest first
#[utoipa::path(get, path = "/api/projects/{p}/evaluation-sets/{id}/evaluations", tag = "evaluations",
    params(PageParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 200, description = "A page", body = EvaluationPage), Refused))]
async fn list_evaluations(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<PageParams>,
) -> Result<Json<EvaluationPage>, Problem> {
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let set = found(&mut db, &caller, workspace_id, id).await?;
    let rows = evaluations::list_evaluations(&mut *db, set.id, params.after()?, limit + 1).await?;
    let (rows, next_cursor) = page(rows, limit, |row| (row.created_at, row.id), |row| row);
    let items = bodies(&mut db, rows).await?;
    Ok(Json(EvaluationPage { items, next_cursor }))
}

/// Evaluate an agent: it answers the questions of a set, and a judge compares the answers with the expected ones
///
/// Each case becomes two tasks of a task DAG, and so two runs of the caller. Tools really run. The agent answers in its newest version.
#[utoipa::path(post, path = "/api/projects/{p}/evaluation-sets/{id}/evaluations", tag = "evaluations", request_body = EvaluationRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 201, description = "Started", body = EvaluationDetail),
        (status = 409, description = "The set has no cases", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn start_evaluation(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, set_id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<EvaluationRequest>,
) -> Result<(StatusCode, Json<EvaluationDetail>), Problem> {
    let criteria = request
        .criteria
        .as_deref()
        .filter(|criteria| !criteria.trim().is_empty());
    check_text("criteria", criteria.unwrap_or_default())?;
    let (set, agent, judge, cases) = {
        let mut db = caller.begin(&state).await?;
        let set = found(&mut db, &caller, workspace_id, set_id).await?;
        let agent = agents::get(&mut db, workspace_id, request.agent_definition_id).await?;
        let agent = available(&caller, agent, "the agent")?;
        let judge = match request.judge.as_deref() {
            None | Some(EVALUATION_JUDGE) => EVALUATION_JUDGE.to_owned(),
            Some(name) => {
                let judge = agents::find_by_name(&mut *db, workspace_id, name).await?;
                available(&caller, judge, &format!("the judge {name}"))?.name
            }
        };
        let cases = evaluations::all_cases(&mut *db, set.id).await?;
        (set, agent, judge, cases)
    };
    if cases.is_empty() {
        let detail = "the evaluation set has no cases; add some first";
        return Err(Problem::conflict("no_cases", detail));
    }
    if let Some(exhausted) = state.quotas.exhausted(&state.db.pool_sqlx, &caller).await? {
        return Err(rejoin_commands::PostError::Exhausted(exhausted).into());
    }
    if judge == EVALUATION_JUDGE {
        install_judge(&state, &caller).await?;
    }
    let cases: Vec<KeptCase> = cases.into_iter().map(KeptCase::from).collect();
    let spec = dag_of(&set.name, &agent.name, &judge, criteria, &cases);
    let ordered = spec
        .check()
        .map_err(|fault| Problem::bad_request("invalid_task_dag", fault))?;
    let (id, dag_id) = (ids::new(), ids::new());
    let command = StartEvaluation {
        evaluation: NewEvaluation {
            id,
            set_id: set.id,
            workspace_id,
            dag_id,
            agent_definition_id: agent.id,
            agent_name: &agent.name,
            agent_version: agent.version,
            judge_agent: &judge,
            criteria,
            cases: &cases,
            user_id: caller.user_id,
        },
        dag: CreateDag {
            id: dag_id,
            workspace_id,
            user_id: Some(caller.user_id),
            spec: &spec,
            ordered: &ordered,
            made_by: None,
            plan: None,
        },
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    let detail = detailed(&mut *caller.begin(&state).await?, set.id, id).await?;
    Ok((StatusCode::CREATED, Json(detail)))
}

/// Gives the project the built-in judge, unless it has an agent of that name.
async fn install_judge(state: &ChatState, caller: &Caller) -> Result<(), Problem> {
    let mut db = caller.begin(state).await?;
    if let Some(made) = agents::insert(&mut db, caller.workspace_id, &agents::evaluation_judge()).await? {
        let (target, named) = (format!("agent_definition:{}", made.id), json!({ "name": made.name }));
        record(&mut db, caller, Action::DefinitionCreated, target, named).await?;
        db.commit().await?;
    }
    Ok(())
}

/// Returns the agent if the caller may choose it.
fn available(caller: &Caller, agent: Option<AgentDefinition>, what: &str) -> Result<AgentDefinition, Problem> {
    agent
        .filter(|agent| agent.is_open() || caller.may(Scope::Admin))
        .ok_or_else(|| Problem::bad_request("agent_definition_not_found", format!("{what} was not found")))
}

/// Get an evaluation with its results
#[utoipa::path(get, path = "/api/projects/{p}/evaluation-sets/{id}/evaluations/{evaluation}", tag = "evaluations",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set"),
        ("evaluation" = Uuid, Path, description = "The evaluation")),
    responses((status = 200, description = "It", body = EvaluationDetail), Refused))]
async fn get_evaluation(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id, evaluation)): Segments<(Uuid, Uuid, Uuid)>,
) -> Result<Json<EvaluationDetail>, Problem> {
    let mut db = caller.begin(&state).await?;
    let set = found(&mut db, &caller, workspace_id, id).await?;
    Ok(Json(detailed(&mut db, set.id, evaluation).await?))
}
