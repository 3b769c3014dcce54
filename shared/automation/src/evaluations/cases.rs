//! The cases of an evaluation set.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page, present};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::feedback::{self, FeedbackFilter};
use rejoin_scheduling::evaluations::{self, Added, CASES_MAX, Case, CaseChange, NewCase};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use rejoin_chat::{ChatState, Routes};

use super::{found, set_not_found};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_cases, add_cases))
        .routes(routes!(update_case, delete_case))
}

/// A question of an evaluation set
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluationCase)]
pub struct CaseBody {
    pub id: Uuid,
    pub question: String,
    /// Null: the judge decides by the question and the criteria alone
    pub expected: Option<String>,
    /// The run that was asked the question
    pub run_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
}

impl From<Case> for CaseBody {
    fn from(case: Case) -> Self {
        Self {
            id: case.id,
            question: case.question,
            expected: case.expected,
            run_id: case.run_id,
            created_at: case.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluationCasePage)]
pub struct CasePage {
    /// In the order in which they were added
    pub items: Vec<CaseBody>,
    pub next_cursor: Option<String>,
}

/// Where new cases come from: exactly one of these
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewEvaluationCases)]
pub struct CasesRequest {
    #[schema(min_items = 1, max_items = 1000)]
    pub cases: Option<Vec<CaseRequest>>,
    pub runs: Option<CasesOfRuns>,
    pub feedback: Option<CasesOfFeedback>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewEvaluationCase)]
pub struct CaseRequest {
    #[schema(pattern = r"\S", max_length = 16000)]
    pub question: String,
    #[schema(max_length = 16000)]
    pub expected: Option<String>,
}

/// The caller's runs, with what they were asked
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EvaluationCasesOfRuns)]
pub struct CasesOfRuns {
    #[schema(min_items = 1, max_items = 1000)]
    pub ids: Vec<Uuid>,
    /// Whether what they answered is what is expected
    #[serde(default)]
    pub expect_answers: bool,
}

/// The caller's feedback, the newest 1,000. Answers that helped are what is expected
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EvaluationCasesOfFeedback)]
pub struct CasesOfFeedback {
    /// Only answers that helped, or only answers that did not
    pub helped: Option<bool>,
    /// Only answers of this agent
    pub agent_definition_id: Option<Uuid>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluationCasesAdded)]
pub struct CasesAdded {
    pub added: u64,
    /// Not added: the set has a case of the same run, the run is not the caller's, or a text is too long
    pub skipped: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EvaluationCasePatch)]
pub struct CasePatch {
    #[schema(pattern = r"\S", max_length = 16000)]
    pub question: Option<String>,
    /// Null: none
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, max_length = 16000)]
    pub expected: Option<Option<String>>,
}

fn case_not_found() -> Problem {
    Problem::not_found("evaluation_case_not_found", "The case")
}

fn invalid(fault: String) -> Problem {
    Problem::bad_request("invalid_case", fault)
}

/// List the cases of an evaluation set
#[utoipa::path(get, path = "/api/projects/{p}/evaluation-sets/{id}/cases", tag = "evaluations",
    params(PageParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 200, description = "A page", body = CasePage), Refused))]
async fn list_cases(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<PageParams>,
) -> Result<Json<CasePage>, Problem> {
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let set = found(&mut db, &caller, workspace_id, id).await?;
    let rows = evaluations::list_cases(&mut *db, set.id, params.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.created_at, row.id), CaseBody::from);
    Ok(Json(CasePage { items, next_cursor }))
}

/// Add cases to an evaluation set: written by hand, from runs or from feedback
#[utoipa::path(post, path = "/api/projects/{p}/evaluation-sets/{id}/cases", tag = "evaluations", request_body = CasesRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set")),
    responses((status = 201, description = "Added", body = CasesAdded),
        (status = 409, description = "The set would have more than 1,000 cases; none was added", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn add_cases(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<CasesRequest>,
) -> Result<(StatusCode, Json<CasesAdded>), Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let (cases, wanted) = new_cases(&mut db, &caller, request).await?;
    let added = match evaluations::add(&mut db, workspace_id, id, &cases).await? {
        Added::Cases(added) => added,
        Added::NoSet => return Err(set_not_found()),
        Added::TooMany => {
            let detail = format!("an evaluation set has at most {CASES_MAX} cases; none was added");
            return Err(Problem::conflict("too_many_cases", detail));
        }
    };
    db.commit().await?;
    let skipped = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_sub(added);
    Ok((StatusCode::CREATED, Json(CasesAdded { added, skipped })))
}

/// Returns the cases of a request, and the number that it asked for.
async fn new_cases(
    db: &mut PgConnection,
    caller: &Caller,
    request: CasesRequest,
) -> Result<(Vec<NewCase>, usize), Problem> {
    let max = usize::try_from(CASES_MAX).unwrap_or(usize::MAX);
    let (cases, wanted) = match (request.cases, request.runs, request.feedback) {
        (Some(cases), None, None) if (1..=max).contains(&cases.len()) => {
            let cases: Vec<NewCase> = cases.into_iter().map(NewCase::from).collect();
            cases.iter().try_for_each(NewCase::check).map_err(invalid)?;
            let wanted = cases.len();
            (cases, wanted)
        }
        (None, Some(runs), None) if (1..=max).contains(&runs.ids.len()) => {
            let cases = evaluations::of_runs(db, caller.owner(), &runs.ids, runs.expect_answers).await?;
            (cases, runs.ids.len())
        }
        (None, None, Some(wanted)) => {
            let filter = FeedbackFilter {
                helped: wanted.helped,
                agent_definition_id: wanted.agent_definition_id,
                ..FeedbackFilter::default()
            };
            let found = feedback::list(db, caller.owner(), &filter, None, CASES_MAX).await?;
            let wanted = found.len();
            let cases = found.into_iter().filter_map(|one| {
                Some(NewCase {
                    question: one.question?,
                    expected: one.helped.then_some(one.answer),
                    run_id: one.run_id,
                })
            });
            (cases.collect(), wanted)
        }
        (_, _, _) => {
            return Err(invalid(format!(
                "exactly one of cases, runs and feedback is needed, with 1 to {CASES_MAX} elements"
            )));
        }
    };
    Ok((cases.into_iter().filter(|case| case.check().is_ok()).collect(), wanted))
}

impl From<CaseRequest> for NewCase {
    fn from(case: CaseRequest) -> Self {
        Self {
            question: case.question,
            expected: case.expected.filter(|expected| !expected.trim().is_empty()),
            run_id: None,
        }
    }
}

/// Change a case. Evaluations that have begun keep the case as it was
#[utoipa::path(patch, path = "/api/projects/{p}/evaluation-sets/{id}/cases/{case}", tag = "evaluations", request_body = CasePatch,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set"),
        ("case" = Uuid, Path, description = "The case")),
    responses((status = 200, description = "The changed case", body = CaseBody), Refused, BodyRefused))]
async fn update_case(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id, case)): Segments<(Uuid, Uuid, Uuid)>,
    Body(request): Body<CasePatch>,
) -> Result<Json<CaseBody>, Problem> {
    let expected = request.expected.as_ref().map(|expected| expected.as_deref());
    let change = CaseChange {
        question: request.question.as_deref(),
        expected: expected.map(|expected| expected.filter(|text| !text.trim().is_empty())),
    };
    change.check().map_err(invalid)?;
    let mut db = caller.begin(&state).await?;
    let set = found(&mut db, &caller, workspace_id, id).await?;
    let updated = evaluations::update_case(&mut *db, set.id, case, &change).await?;
    let updated = updated.ok_or_else(case_not_found)?;
    db.commit().await?;
    Ok(Json(updated.into()))
}

/// Delete a case. Evaluations that have begun keep it
#[utoipa::path(delete, path = "/api/projects/{p}/evaluation-sets/{id}/cases/{case}", tag = "evaluations",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The set"),
        ("case" = Uuid, Path, description = "The case")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete_case(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments((workspace_id, id, case)): Segments<(Uuid, Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    let set = found(&mut db, &caller, workspace_id, id).await?;
    if !evaluations::delete_case(&mut *db, set.id, case).await? {
        return Err(case_not_found());
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
