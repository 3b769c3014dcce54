//! The results of evaluations, from the tasks of their DAGs.

use std::collections::HashMap;

use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Evaluation, KeptCase};

rejoin_types::text_enum! {
    /// What became of a case.
    pub enum ResultState {
        /// The agent has not begun.
        Waiting = "waiting",
        /// The agent answers.
        Running = "running",
        /// The judge has not decided.
        Judging = "judging",
        Passed = "passed",
        Failed = "failed",
        /// There is no answer, or no verdict.
        Error = "error",
    }
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseResult {
    pub case: KeptCase,
    pub state: ResultState,
    pub answer: Option<String>,
    pub run_id: Option<Uuid>,
    /// The version of the agent that answered. None: it did not, or its run belongs to another user.
    pub agent_version: Option<i32>,
    pub judge_run_id: Option<Uuid>,
    /// From 0 to 1, by the judge.
    pub score: Option<f64>,
    /// The judge's reason, or what went wrong.
    pub reason: Option<String>,
}

/// The numbers of an evaluation's cases, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: i64,
    pub failed: i64,
    pub errors: i64,
    pub pending: i64,
}

impl Tally {
    pub fn count(&mut self, state: ResultState) {
        match state {
            ResultState::Passed => self.passed += 1,
            ResultState::Failed => self.failed += 1,
            ResultState::Error => self.errors += 1,
            ResultState::Waiting | ResultState::Running | ResultState::Judging => self.pending += 1,
        }
    }
}

/// A judge's decision: the JSON object of its answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Verdict {
    passed: bool,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    reason: Option<String>,
}

impl Verdict {
    /// Reads a judge's answer: a JSON object, with or without other text around it. None: it has none.
    fn of(answer: &str) -> Option<Self> {
        let object = answer.get(answer.find('{')?..=answer.rfind('}')?)?;
        serde_json::from_str(object).ok()
    }
}

/// What an evaluation needs of a task.
#[derive(Debug)]
struct Task {
    dag_id: Uuid,
    name: String,
    state: String,
    run_id: Option<Uuid>,
    summary: Option<String>,
    failure_context: Option<String>,
}

/// Returns the tasks of these DAGs.
async fn tasks(db: &mut PgConnection, dag_ids: &[Uuid]) -> Result<Vec<Task>, sqlx::Error> {
    sqlx::query_as!(
        Task,
        "select dag_id, ref as name, state, run_id, summary, failure_context from kb.tasks where dag_id = any($1)",
        dag_ids
    )
    .fetch_all(db)
    .await
}

/// The tasks of a case.
#[derive(Debug, Clone, Copy, Default)]
struct CaseTasks<'a> {
    answer: Option<&'a Task>,
    judge: Option<&'a Task>,
}

impl CaseTasks<'_> {
    fn result(self, case: &KeptCase, versions: &HashMap<Uuid, i32>) -> CaseResult {
        let (state, verdict, trouble) = self.outcome();
        let run_id = self.answer.and_then(|task| task.run_id);
        let (score, reason) = verdict.map_or((None, None), |verdict| (verdict.score, verdict.reason));
        CaseResult {
            case: case.clone(),
            state,
            answer: self.answer.and_then(|task| task.summary.clone()),
            run_id,
            agent_version: run_id.and_then(|id| versions.get(&id).copied()),
            judge_run_id: self.judge.and_then(|task| task.run_id),
            score: score.map(|score| score.clamp(0.0, 1.0)),
            reason: reason.or(trouble),
        }
    }

    /// The state, the verdict if there is one, and what went wrong if something did.
    fn outcome(self) -> (ResultState, Option<Verdict>, Option<String>) {
        let (Some(answer), Some(judge)) = (self.answer, self.judge) else {
            return (ResultState::Error, None, Some("its tasks were deleted".to_owned()));
        };
        let trouble = |task: &Task, otherwise: &str| {
            let why = task.failure_context.clone().unwrap_or_else(|| otherwise.to_owned());
            (ResultState::Error, None, Some(why))
        };
        match (answer.state.as_str(), judge.state.as_str()) {
            ("failed", _) => trouble(answer, "the agent failed"),
            ("skipped", _) => trouble(answer, "it was not asked: the evaluation was cancelled"),
            ("pending", _) => (ResultState::Waiting, None, None),
            ("in_progress", _) => (ResultState::Running, None, None),
            (_, "failed") => trouble(judge, "the judge failed"),
            (_, "skipped") => trouble(judge, "it was not judged: the evaluation was cancelled"),
            (_, "completed") => match Verdict::of(judge.summary.as_deref().unwrap_or_default()) {
                Some(verdict) if verdict.passed => (ResultState::Passed, Some(verdict), None),
                Some(verdict) => (ResultState::Failed, Some(verdict), None),
                None => trouble(judge, "the judge's answer is not {passed, score, reason}"),
            },
            (_, _) => (ResultState::Judging, None, None),
        }
    }
}

/// The number of the case that a task belongs to, from 1 on, and whether it is the judge's task.
fn place(task: &Task) -> Option<(usize, bool)> {
    let (kind, number) = task.name.split_once('-')?;
    Some((number.parse().ok()?, kind == "judge"))
}

fn of_cases<'a>(cases: usize, tasks: impl Iterator<Item = &'a Task>) -> Vec<CaseTasks<'a>> {
    let mut found = vec![CaseTasks::default(); cases];
    for task in tasks {
        let Some((number, is_judge)) = place(task) else {
            continue;
        };
        if let Some(of_case) = number.checked_sub(1).and_then(|index| found.get_mut(index)) {
            *(if is_judge {
                &mut of_case.judge
            } else {
                &mut of_case.answer
            }) = Some(task);
        }
    }
    found
}

/// Returns the results of an evaluation, in the order of its cases.
pub async fn results(db: &mut PgConnection, evaluation: &Evaluation) -> Result<Vec<CaseResult>, sqlx::Error> {
    let tasks = tasks(&mut *db, &[evaluation.dag_id]).await?;
    let runs: Vec<Uuid> = tasks.iter().filter_map(|task| task.run_id).collect();
    let versions = sqlx::query!(
        r#"select id, agent_version as "version!" from kb.agent_runs where id = any($1) and agent_version is not null"#,
        &runs
    )
    .fetch_all(db)
    .await?;
    let versions = versions.into_iter().map(|row| (row.id, row.version)).collect();
    let of_cases = of_cases(evaluation.cases.len(), tasks.iter());
    let results = evaluation.cases.iter().zip(of_cases);
    Ok(results.map(|(case, tasks)| tasks.result(case, &versions)).collect())
}

/// Returns the tallies of evaluations, by their ids.
pub async fn tallies(db: &mut PgConnection, evaluations: &[Evaluation]) -> Result<HashMap<Uuid, Tally>, sqlx::Error> {
    let dags: Vec<Uuid> = evaluations.iter().map(|evaluation| evaluation.dag_id).collect();
    let tasks = tasks(db, &dags).await?;
    let mut by_dag: HashMap<Uuid, Vec<&Task>> = HashMap::new();
    for task in &tasks {
        by_dag.entry(task.dag_id).or_default().push(task);
    }
    let tallies = evaluations.iter().map(|evaluation| {
        let tasks = by_dag.remove(&evaluation.dag_id).unwrap_or_default();
        let mut tally = Tally::default();
        for of_case in of_cases(evaluation.cases.len(), tasks.into_iter()) {
            tally.count(of_case.outcome().0);
        }
        (evaluation.id, tally)
    });
    Ok(tallies.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_with_text_around_it() {
        let verdict = |answer: &str| Verdict::of(answer).map(|verdict| (verdict.passed, verdict.score));
        assert_eq!(
            verdict(r#"{"passed": true, "score": 0.5, "reason": "x"}"#),
            Some((true, Some(0.5)))
        );
        assert_eq!(verdict("```json\n{\"passed\": false}\n```"), Some((false, None)));
        for answer in ["", "passed", "}{", r#"{"passed": "yes"}"#, r#"{"score": 1}"#] {
            assert_eq!(verdict(answer), None, "{answer}");
        }
    }
}
