//! Starts an evaluation of an agent: creates its DAG, whose tasks answer and judge the cases.

use sqlx::PgConnection;

use super::task_dag::DagError;
use super::{Command, CreateDag};
use rejoin_event_log::wakeup::Wake;
use rejoin_scheduling::evaluations::{self, KeptCase, NewEvaluation};
use rejoin_scheduling::tasks::spec::{DagSpec, OnFailure, Priority, REF_MAX_CHARS, TaskSpec};

#[derive(Debug)]
pub struct StartEvaluation<'a> {
    pub evaluation: NewEvaluation<'a>,
    /// Of [`dag_of`].
    pub dag: CreateDag<'a>,
}

impl Command for StartEvaluation<'_> {
    type Output = Wake;
    type Error = DagError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Wake, DagError> {
        let wake = self.dag.apply(db).await?;
        evaluations::insert(&mut *db, &self.evaluation).await?;
        Ok(wake)
    }

    async fn happened(&self, db: &mut PgConnection, wake: &Wake) -> Result<bool, sqlx::Error> {
        self.dag.happened(db, wake).await
    }
}

/// Returns the DAG of an evaluation: for each case a task of the agent, which gets the question as it is, and a task of the judge.
pub fn dag_of(set: &str, agent: &str, judge: &str, criteria: Option<&str>, cases: &[KeptCase]) -> DagSpec {
    let task = |id: String, description: String, after: Vec<String>, agent: &str| TaskSpec {
        id,
        title: None,
        description,
        after,
        agent: Some(agent.to_owned()),
        priority: Priority::default(),
        complexity: None,
        max_retries: None,
        requires_collaboration: false,
    };
    let tasks = cases.iter().enumerate().flat_map(|(index, case)| {
        let answer = format!("answer-{}", index + 1);
        [
            task(answer.clone(), case.question.clone(), Vec::new(), agent),
            task(
                format!("judge-{}", index + 1),
                to_judge(case, criteria),
                vec![answer],
                judge,
            ),
        ]
    });
    DagSpec {
        name: format!("Evaluation of {agent} with {set}")
            .chars()
            .take(REF_MAX_CHARS)
            .collect(),
        tasks: tasks.collect(),
        max_concurrency: None,
        on_failure: OnFailure::default(),
        rules: Vec::new(),
        selector_agent: None,
        judge_agent: None,
        triage_agent: None,
    }
}

/// The judge's input. The answer follows it as the result of the task before.
fn to_judge(case: &KeptCase, criteria: Option<&str>) -> String {
    let mut text = format!("# Question\n{}\n", case.question);
    if let Some(expected) = &case.expected {
        text.push_str(&format!("\n# Expected answer\n{expected}\n"));
    }
    if let Some(criteria) = criteria {
        text.push_str(&format!("\n# Criteria\n{criteria}\n"));
    }
    text.push_str("\n# Answer to judge\nIt follows under \"What came before\".\n");
    text
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn each_case_is_answered_and_then_judged() {
        let case = |question: &str, expected: Option<&str>| KeptCase {
            id: Uuid::now_v7(),
            question: question.to_owned(),
            expected: expected.map(str::to_owned),
        };
        let cases = [case("Why?", Some("Because.")), case("How?", None)];
        let spec = dag_of("basics", "helper", "judge", Some("Be brief."), &cases);
        spec.check().unwrap();
        let tasks: Vec<(&str, &[String], Option<&str>)> = spec
            .tasks
            .iter()
            .map(|task| (task.id.as_str(), task.after.as_slice(), task.agent.as_deref()))
            .collect();
        assert_eq!(
            tasks,
            [
                ("answer-1", &[][..], Some("helper")),
                ("judge-1", &["answer-1".to_owned()][..], Some("judge")),
                ("answer-2", &[][..], Some("helper")),
                ("judge-2", &["answer-2".to_owned()][..], Some("judge")),
            ]
        );
        assert_eq!(spec.tasks[0].description, "Why?");
        let judged = &spec.tasks[1].description;
        assert!(judged.contains("# Expected answer\nBecause.") && judged.contains("# Criteria\nBe brief."));
        assert!(!spec.tasks[3].description.contains("Expected"));
    }
}
