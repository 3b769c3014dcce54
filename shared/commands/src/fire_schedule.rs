//! Fires a due schedule: creates its run or DAG and advances it to its next firing, in ONE transaction under the lock
//! of its row. However many workers check, each firing happens once.

use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::{Command, CreateDag, DagError, PostError, TriggerRun};
use rejoin_event_log::wakeup::Wake;
use rejoin_identity::initiators::{self, Revoked};
use rejoin_runs::agents;
use rejoin_scheduling::schedules::{self, Outcome, Schedule, ScheduleContent, Target};
use rejoin_scheduling::tasks::spec::DagSpec;
use rejoin_types::ids;

/// Fires the longest due schedule that no other worker is firing.
#[derive(Debug)]
pub struct FireSchedule;

/// A schedule that has fired.
#[derive(Debug)]
pub struct Fired {
    pub schedule_id: Uuid,
    pub name: String,
    pub started: Option<Started>,
    /// The reason why nothing was started.
    pub error: Option<String>,
    pub wake: Wake,
}

/// What a firing started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    Run(Uuid),
    Dag(Uuid),
}

/// The reason why a firing starts nothing.
enum Refused {
    /// A message for the schedule's maker.
    Words(String),
    /// The maker's rights are withdrawn: nothing more is started on their behalf.
    Revoked(Revoked),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Refused::Database(error)
    }
}

impl Command for FireSchedule {
    type Output = Option<Fired>;
    type Error = sqlx::Error;

    /// None: nothing is due.
    async fn apply(&self, db: &mut PgConnection) -> Result<Option<Fired>, sqlx::Error> {
        let Some(schedule) = schedules::lock_due(db).await? else {
            return Ok(None);
        };
        let content = ScheduleContent::from(&schedule);
        let now = schedules::now(db).await?;
        let due = content.due(schedule.next_at.unwrap_or(now), now);
        let (mut wake, mut next_at) = (Wake::default(), due.next);
        let (started, error) = match due.fire {
            None => (
                None,
                Some("a firing was missed and skipped because no worker was running".to_owned()),
            ),
            Some(_) => {
                // A failure is rolled back separately: the schedule advances, and others are not blocked.
                let mut savepoint = db.begin().await?;
                match start(&mut savepoint, &schedule, content.target).await {
                    Ok((started, woken)) => {
                        savepoint.commit().await?;
                        wake = woken;
                        (Some(started), None)
                    }
                    Err(Refused::Database(error)) if rejoin_db::is_transient(&error) => return Err(error),
                    Err(refused) => {
                        savepoint.rollback().await?;
                        let words = match refused {
                            Refused::Words(words) => words,
                            Refused::Revoked(revoked) => {
                                next_at = None;
                                format!("disabled: {revoked}")
                            }
                            Refused::Database(error) => format!("the database rejected it: {error}"),
                        };
                        (None, Some(words))
                    }
                }
            }
        };
        let outcome = Outcome {
            at: due.fire,
            run_id: started.and_then(Started::run),
            dag_id: started.and_then(Started::dag),
            error: error.as_deref(),
            next_at,
        };
        schedules::fired(db, schedule.id, outcome).await?;
        Ok(Some(Fired {
            schedule_id: schedule.id,
            name: schedule.name,
            started,
            error,
            wake,
        }))
    }

    async fn happened(&self, db: &mut PgConnection, fired: &Option<Fired>) -> Result<bool, sqlx::Error> {
        let id = match fired.as_ref().and_then(|fired| fired.started) {
            Some(Started::Run(id) | Started::Dag(id)) => id,
            // A repetition finds the schedule unchanged.
            None => return Ok(false),
        };
        let known = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs where id = $1) or exists (select from kb.task_dags where id = $1) as "there!""#,
            id
        );
        known.fetch_one(db).await
    }
}

impl Started {
    fn run(self) -> Option<Uuid> {
        match self {
            Started::Run(id) => Some(id),
            Started::Dag(_) => None,
        }
    }

    fn dag(self) -> Option<Uuid> {
        match self {
            Started::Dag(id) => Some(id),
            Started::Run(_) => None,
        }
    }
}

async fn start(db: &mut PgConnection, schedule: &Schedule, target: Target) -> Result<(Started, Wake), Refused> {
    let initiator = initiators::membership(&mut *db, schedule.workspace_id, schedule.created_by).await?;
    if let Some(revoked) = initiator.revoked() {
        return Err(Refused::Revoked(revoked));
    }
    if let Some(what) = schedules::exhausted(db, schedule.workspace_id).await? {
        return Err(Refused::Words(format!(
            "the project has used up its {what} of today (UTC); an operator can raise the quota"
        )));
    }
    match target {
        Target::Agent { name, input } => {
            let definition = agents::find_by_name(&mut *db, schedule.workspace_id, &name).await?;
            let definition = definition.filter(|found| found.is_open() || initiator.reaches_internal_agents());
            let gone = || Refused::Words(format!("there is no agent {name}; create it, or change the schedule"));
            let definition = definition.ok_or_else(gone)?;
            let trigger = TriggerRun {
                definition: &definition,
                user_id: schedule.created_by,
                input,
                idempotency: None,
                output_schema: None,
                exhausted: None,
                part: None,
                traceparent: None,
            };
            let (run_id, wake) = trigger.apply(db).await.map_err(|error| match error {
                PostError::Database(error) => Refused::Database(error),
                other => Refused::Words(other.to_string()),
            })?;
            Ok((Started::Run(run_id), wake))
        }
        Target::Dag(dag) => {
            let spec: DagSpec = serde_json::from_value(dag)
                .map_err(|error| Refused::Words(format!("its tasks cannot be parsed: {error}")))?;
            let ordered = spec.check().map_err(Refused::Words)?;
            let create = CreateDag {
                id: ids::new(),
                workspace_id: schedule.workspace_id,
                user_id: schedule.created_by,
                spec: &spec,
                ordered: &ordered,
                made_by: None,
                plan: None,
            };
            let wake = create.apply(db).await.map_err(|error| match error {
                DagError::Database(error) => Refused::Database(error),
                other => Refused::Words(other.to_string()),
            })?;
            Ok((Started::Dag(create.id), wake))
        }
    }
}
