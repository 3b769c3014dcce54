//! The embedding job: computes vectors of a workspace's graph objects. The sweep enqueues it for marked objects; at most
//! one is live per workspace, so that texts are sent in order and in batches.
//!
//! Invariants: a vector is stored and its mark removed in one transaction, so that a crash repeats work and loses none;
//! a failing model uses up no attempts and creates no jobs: the same job retries later, and searches are lexical
//! meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rejoin_event_log::wakeup::Wake;
use rejoin_extension::sweep::SweepError;
use rejoin_extension::{Extension, Host, JobHandler, Signals, Sweep};
use rejoin_graph::embedding_backlog::{self, NewVector, Pending};
use rejoin_graph::query_vector::Model;
use rejoin_queue::{ClaimedJob, NewJob, Outcome};
use sqlx::PgPool;
use tokio::time::sleep;
use tracing::{info, warn};
use uuid::Uuid;

use crate::{EmbedError, Embedder};

/// The job kind in `queue.jobs.kind`.
pub const KIND: &str = "embed";
/// Delay after a first mark, so that further ones share the job, in seconds.
const GATHER_S: f64 = 1.0;
/// Below all interactive work.
const PRIORITY: i16 = 1_000;
/// Number of texts per request. Small for the local model: a query may wait for one batch.
const BATCH: usize = 64;
const LOCAL_BATCH: usize = 16;
/// Maximum pause of the local model after a batch, which equals the batch's duration: it uses at most half a core.
const MAX_REST: Duration = Duration::from_secs(1);
/// Retry delay after a model's failure; a rejection or an invalid response needs an operator.
const TRY_AGAIN: Duration = Duration::from_secs(15);
const TRY_AGAIN_REFUSED: Duration = Duration::from_secs(120);
/// A text that no model rejects.
const HARMLESS: &str = "hello";
/// Interval between log lines of a long job.
const SAID_EVERY: Duration = Duration::from_secs(30);

/// Between two looks for marked objects.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Between two looks for workspaces that have no vectors of the model.
const CATCH_UP_EVERY: Duration = Duration::from_secs(60);

/// Embeddings of the graph's objects. Without an embedder (`None`), the process makes none.
pub struct Embeddings(pub Option<Embedder>);

#[async_trait]
impl Extension for Embeddings {
    fn name(&self) -> &'static str {
        "embeddings"
    }

    fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        let embedder = self.0.iter().cloned();
        embedder
            .map(|embedder| Arc::new(EmbeddingJobs(embedder)) as Arc<dyn JobHandler>)
            .collect()
    }

    fn sweeps(&self) -> Vec<Arc<dyn Sweep>> {
        let Some(embedder) = &self.0 else {
            return Vec::new();
        };
        vec![
            Arc::new(MarkedObjects(embedder.clone())),
            Arc::new(WorkspacesWithoutVectors(embedder.clone())),
        ]
    }
}

/// Embeds the marked objects of one workspace. At most one job lives per workspace.
struct EmbeddingJobs(Embedder);

enum End {
    /// The job ends for now, with this outcome.
    Job(Outcome),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for End {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

#[async_trait]
impl JobHandler for EmbeddingJobs {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, host: &Host, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let Some(model) = self.0.model() else {
            // Another process of the fleet may have one: the marks are kept.
            return Outcome::Complete;
        };
        let mut work = Work {
            db: &host.db,
            embedder: &self.0,
            name: model,
            workspace_id: job.workspace_id,
            signals,
            began: Instant::now(),
            logged_at: Instant::now(),
            embedded: 0,
        };
        match work.all().await {
            Ok(()) => Outcome::Complete,
            Err(End::Job(outcome)) => outcome,
            Err(End::Database(error)) => Outcome::Retry {
                error: format!("embedding the graph's objects: {error}"),
                after: None,
            },
        }
    }
}

/// The work of one job.
struct Work<'a> {
    db: &'a PgPool,
    embedder: &'a Embedder,
    name: &'a str,
    workspace_id: Uuid,
    signals: &'a Signals,
    began: Instant,
    logged_at: Instant,
    embedded: u64,
}

impl Work<'_> {
    async fn all(&mut self) -> Result<(), End> {
        loop {
            let marked = embedding_backlog::marked(self.db, self.workspace_id, self.name).await?;
            if marked.marks.is_empty() {
                break;
            }
            self.embed(&marked.objects).await?;
            if marked.all {
                self.everything().await?;
            }
            let model = self.model(0);
            embedding_backlog::put(self.db, self.workspace_id, &model, &[], &marked.gone, &marked.marks).await?;
        }
        if self.embedded > 0 {
            info!(project = %self.workspace_id, objects = self.embedded, seconds = self.began.elapsed().as_secs(), "graph objects embedded");
        }
        Ok(())
    }

    /// Embeds all objects with missing or outdated vectors, page by page. After a crash it starts again, and skips
    /// stored ones.
    async fn everything(&mut self) -> Result<(), End> {
        let mut after = None;
        loop {
            let page = embedding_backlog::page(self.db, self.workspace_id, self.name, after).await?;
            self.embed(&page.objects).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let removed = embedding_backlog::tidy(self.db, self.workspace_id, self.name).await?;
        if removed > 0 {
            info!(project = %self.workspace_id, vectors = removed, "removed vectors of other models and of deleted \
                objects");
        }
        Ok(())
    }

    async fn embed(&mut self, objects: &[Pending]) -> Result<(), End> {
        let size = if self.embedder.is_local() { LOCAL_BATCH } else { BATCH };
        for batch in objects.chunks(size) {
            if self.signals.lost.is_cancelled() || self.signals.cancel.is_cancelled() {
                return Err(End::Job(Outcome::Cancel));
            }
            if self.signals.drain.is_cancelled() {
                return Err(End::Job(Outcome::Release));
            }
            let began = Instant::now();
            let made = self.vectors(batch).await?;
            let took = began.elapsed();
            metrics::histogram!("rejoin_embedding_batch_seconds").record(took.as_secs_f64());
            self.store(made).await?;
            if self.embedder.is_local() {
                tokio::select! {
                    () = sleep(took.min(MAX_REST)) => {}
                    () = self.signals.drain.cancelled() => {}
                    () = self.signals.lost.cancelled() => {}
                }
            }
        }
        Ok(())
    }

    async fn store(&mut self, made: Vec<NewVector>) -> Result<(), End> {
        if self.signals.lost.is_cancelled() || made.is_empty() {
            return Ok(());
        }
        let model = self.model(made[0].vector.len());
        let stored = embedding_backlog::put(self.db, self.workspace_id, &model, &made, &[], &[]).await?;
        self.embedded += stored;
        metrics::counter!("rejoin_embedded_objects_total").increment(stored);
        if self.logged_at.elapsed() >= SAID_EVERY {
            self.logged_at = Instant::now();
            info!(project = %self.workspace_id, objects = self.embedded, "embedding graph objects");
        }
        Ok(())
    }

    /// Returns the batch's vectors. If the model rejects a batch because of one text, they are tried one by one.
    /// Objects with rejected texts get no vector.
    async fn vectors(&self, batch: &[Pending]) -> Result<Vec<NewVector>, End> {
        let texts: Vec<String> = batch.iter().map(|due| due.text.clone()).collect();
        let refusal = match self.asked(&texts).await? {
            Ok(vectors) => return Ok(batch.iter().zip(vectors).map(made).collect()),
            Err(error) if refuses_a_text(&error) => error,
            Err(error) => return Err(self.failed(&error)),
        };
        if self.asked(&[HARMLESS.to_owned()]).await?.is_err() {
            // The texts are not the cause.
            return Err(self.failed(&refusal));
        }
        let mut all = Vec::new();
        for due in batch {
            match self.asked(std::slice::from_ref(&due.text)).await? {
                Ok(mut vectors) => all.extend(vectors.pop().map(|vector| made((due, vector)))),
                Err(error) if refuses_a_text(&error) => {
                    warn!(project = %self.workspace_id, object = %due.id, "the embedding model rejects an object's \
                        text; it has no vector");
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(all)
    }

    /// Returns the model's response, unless the job must stop before.
    async fn asked(&self, texts: &[String]) -> Result<Result<Vec<Vec<f32>>, EmbedError>, End> {
        tokio::select! {
            answer = self.embedder.embed(texts) => Ok(answer),
            () = self.signals.drain.cancelled() => Err(End::Job(Outcome::Release)),
            () = self.signals.lost.cancelled() => Err(End::Job(Outcome::Cancel)),
        }
    }

    fn failed(&self, error: &EmbedError) -> End {
        metrics::counter!("rejoin_embedding_failures_total").increment(1);
        let after = match error {
            EmbedError::Refused { status, .. } if *status != 429 && *status < 500 => TRY_AGAIN_REFUSED,
            EmbedError::Malformed(_) | EmbedError::Unavailable(_) => TRY_AGAIN_REFUSED,
            EmbedError::Refused { .. } | EmbedError::Slow(_) | EmbedError::Unreachable(_) | EmbedError::Local(_) => {
                TRY_AGAIN
            }
        };
        let error = error as &dyn std::error::Error;
        warn!(
            model = self.name,
            error,
            again_s = after.as_secs(),
            "embedding graph objects failed; retrying"
        );
        End::Job(Outcome::Snooze { after })
    }

    fn model(&self, dimensions: usize) -> Model {
        Model {
            name: self.name.to_owned(),
            dimensions: dimensions as i32,
        }
    }
}

fn made((due, vector): (&Pending, Vec<f32>)) -> NewVector {
    NewVector {
        id: due.id,
        content_hash: due.content_hash.clone(),
        vector,
    }
}

fn refuses_a_text(error: &EmbedError) -> bool {
    matches!(
        error,
        EmbedError::Refused {
            status: 400 | 413 | 422,
            ..
        }
    )
}

/// Enqueues a job for each workspace with marked objects. Where no model embeds, marks must not pile up.
struct MarkedObjects(Embedder);

#[async_trait]
impl Sweep for MarkedObjects {
    fn what(&self) -> &'static str {
        "looking up objects to embed"
    }

    fn every(&self) -> Duration {
        SWEEP_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        if self.0.model().is_none() {
            return Ok(embedding_backlog::fold_marks(&host.db).await?);
        }
        let projects = embedding_backlog::projects(&host.db).await?;
        if projects.is_empty() {
            return Ok(());
        }
        let mut connection = host.db.acquire().await?;
        for workspace_id in projects {
            let job = NewJob {
                workspace_id,
                priority: PRIORITY,
                delay_s: GATHER_S,
                unique_key: Some(format!("{KIND}:{workspace_id}")),
                ..NewJob::new(KIND, serde_json::json!({}))
            };
            rejoin_queue::enqueue(&mut connection, &job).await?;
        }
        host.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
        Ok(())
    }
}

/// Marks workspaces that have no vectors of this model at all: the model is new here.
struct WorkspacesWithoutVectors(Embedder);

#[async_trait]
impl Sweep for WorkspacesWithoutVectors {
    fn what(&self) -> &'static str {
        "looking up projects to embed"
    }

    fn every(&self) -> Duration {
        CATCH_UP_EVERY
    }

    async fn sweep(&self, host: &Host) -> Result<(), SweepError> {
        let Some(model) = self.0.model() else {
            return Ok(());
        };
        let marked = embedding_backlog::mark_without_vectors(&host.db, model).await?;
        if marked > 0 {
            info!(
                projects = marked,
                model, "embedding projects without vectors of this model"
            );
        }
        Ok(())
    }
}
