//! Embeddings of graph objects, from the write to the search: computed in the background by any worker, again after
//! changes, and searched by meaning, also while the model fails.

use rejoin_graph::{Actor, ActorKind, embedding_backlog, import};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::embedding_server::{EmbeddingServer, Mood, POISON};
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

const MODEL: &str = "openai:things";
const FILE: &str = r#"{"kind":"object","type":"Package","key":"growisofs","properties":{"summary":"DVD recorder"}}
{"kind":"object","type":"Package","key":"dillo","labels":["small"],"properties":{"summary":"small and fast web browser"}}
{"kind":"object","type":"Package","key":"sox","properties":{"summary":"Swiss army knife of audio"}}
{"kind":"object","type":"Section","key":"sound"}
"#;

struct Graph {
    app: TestApp,
    server: EmbeddingServer,
}

impl Graph {
    async fn start() -> Self {
        let server = EmbeddingServer::start().await;
        let app = TestApp::with(AppOptions {
            workers: 0,
            embeddings: server.args(),
            ..AppOptions::default()
        })
        .await;
        Self { app, server }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/projects/{}/graph/{rest}", self.app.db.workspace_id)
    }

    async fn import(&self) {
        let actor = Actor {
            kind: ActorKind::User,
            id: None,
        };
        let (pool, project) = (&self.app.db.pool, self.app.db.workspace_id);
        import::import(pool, project, FILE.as_bytes(), import::OnError::Refuse, actor, |_| ())
            .await
            .expect("an import");
    }

    async fn make(&self, key: &str, summary: &str) -> String {
        let body = json!({"type": "Package", "key": key, "properties": {"summary": summary}});
        let (status, made) = self.app.client().post(&self.path("objects"), body).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    async fn search(&self, parameters: &str) -> Value {
        let (status, found) = self.app.client().get(&self.path(&format!("search?{parameters}"))).await;
        assert_eq!(status, StatusCode::OK, "{found}");
        found
    }

    /// Waits until no marks are left, and there are this many vectors.
    async fn embedded(&self, vectors: i64) {
        support::wait_for("the vectors", async || {
            // A job waiting for its retry would wait too long for a test.
            let (marks, there): (i64, i64) = sqlx::query_as(
                "with now as (update queue.jobs set run_at = now() where kind = 'embed' and state = 'available' and run_at > now())
                 select (select count(*) from kb.graph_embedding_marks), (select count(*) from kb.graph_embeddings)",
            )
            .fetch_one(&self.app.db.pool)
            .await
            .expect("counts");
            (marks == 0 && there == vectors).then_some(())
        })
        .await;
    }
}

fn keys(found: &Value) -> Vec<&str> {
    let hits = found["data"].as_array().expect("hits");
    hits.iter().filter_map(|hit| hit["object"]["key"].as_str()).collect()
}

#[tokio::test]
async fn writes_are_embedded_in_the_background_and_found_by_meaning() {
    let mut graph = Graph::start().await;
    graph.import().await;
    let lexical = graph.search("query=surf&mode=semantic").await;
    assert_eq!(lexical["note"], "keyword search only: no object has a vector yet");
    graph.app.add_worker();
    graph.embedded(4).await;

    let found = graph.search("query=surf%20the%20internet&mode=semantic").await;
    assert_eq!(keys(&found)[0], "dillo");
    assert_eq!(
        (&found["note"], &found["data"][0]["lexicalScore"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        found["data"][0]["vectorScore"].as_f64().expect("a cosine") > 0.9,
        "{found}"
    );
    let hybrid = graph.search("query=surf%20sox").await;
    assert_eq!(hybrid["total"], 4);
    assert!(
        keys(&hybrid)[..2].contains(&"sox") && keys(&hybrid)[..2].contains(&"dillo"),
        "{hybrid}"
    );
    assert_eq!(keys(&graph.search("query=surf&mode=lexical").await), Vec::<&str>::new());
    assert_eq!(
        keys(&graph.search("query=surf&mode=semantic&types=Section").await),
        ["sound"]
    );
    assert_eq!(
        keys(&graph.search("query=music&mode=semantic&labels=small").await),
        ["dillo"]
    );

    // One write at a time: created, changed, deleted, restored.
    let id = graph.make("k3b", "nothing yet").await;
    graph.embedded(5).await;
    let client = graph.app.client();
    let object = graph.path(&format!("objects/{id}"));
    let (status, changed) = client
        .patch(&object, json!({"properties": {"summary": "burn optical disc"}}))
        .await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    support::wait_for("the new vector", async || {
        let found = graph.search("query=dvd%20burn&mode=semantic&limit=2").await;
        let mut first = keys(&found);
        first.sort_unstable();
        (first == ["growisofs", "k3b"]).then_some(())
    })
    .await;
    let (status, _) = client.delete(&object).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert!(
        !keys(&graph.search("query=dvd&mode=semantic").await).contains(&"k3b"),
        "at once"
    );
    graph.embedded(4).await;
    let (status, _) = client.post(&format!("{object}/restore"), json!({})).await;
    assert_eq!(status, StatusCode::OK);
    graph.embedded(5).await;

    // Unchanged objects are not sent again.
    graph.import().await;
    graph.embedded(5).await;
    let sent = graph.server.texts();
    assert_eq!(
        sent.iter().filter(|text| text.starts_with("dillo")).count(),
        1,
        "{sent:?}"
    );
    assert!(
        sent.contains(&"dillo, Package. small and fast web browser".to_owned()),
        "{sent:?}"
    );
}

#[tokio::test]
async fn a_model_that_is_not_well_costs_meaning_and_nothing_else() {
    let mut graph = Graph::start().await;
    graph.server.set(Mood::Away);
    graph.import().await;
    graph.app.add_worker();
    support::wait_for("the job that waits", async || {
        let (jobs, attempts): (i64, Option<i32>) = sqlx::query_as(
            "select count(*), max(attempt) from queue.jobs where kind = 'embed' and state = 'available' and run_at > now() + interval '5 s'",
        )
        .fetch_one(&graph.app.db.pool)
        .await
        .expect("jobs");
        assert!(jobs <= 1, "one job a project");
        (jobs == 1).then_some(attempts)
    })
    .await;
    let found = graph.search("query=dvd").await;
    assert_eq!(keys(&found), ["growisofs"]);
    graph.server.set(Mood::Well);
    graph.embedded(4).await;

    for (mood, note) in [
        (Mood::Away, "keyword search only: the embedding model failed"),
        (Mood::Slow, "keyword search only: the embedding model failed"),
        (Mood::Short, "keyword search only: the embedding model failed"),
    ] {
        // The first valid response determines the dimension.
        graph.server.set(Mood::Well);
        assert_eq!(graph.search("query=dvd&mode=semantic").await["note"], Value::Null);
        graph.server.set(mood);
        let found = graph.search("query=dvd&mode=semantic").await;
        assert_eq!(
            (keys(&found), &found["note"]),
            (vec!["growisofs"], &json!(note)),
            "{mood:?}"
        );
    }
}

#[tokio::test]
async fn a_text_that_the_model_refuses_stops_no_other() {
    let mut graph = Graph::start().await;
    for (key, summary) in [
        ("a", "web browser"),
        ("b", &format!("{POISON} for models")),
        ("c", "audio"),
    ] {
        graph.make(key, summary).await;
    }
    graph.app.add_worker();
    graph.embedded(2).await;
    assert_eq!(keys(&graph.search("query=surf&mode=semantic").await), ["a", "c"]);
    assert_eq!(keys(&graph.search("query=poison").await)[0], "b", "words still find it");
}

#[tokio::test]
async fn a_worker_that_dies_loses_no_mark_and_another_goes_on() {
    let mut graph = Graph::start().await;
    graph.import().await;
    graph.server.set(Mood::Slow);
    graph.app.add_worker();
    support::wait_for("the job to run", async || {
        let running: bool =
            sqlx::query_scalar("select exists (select from queue.jobs where kind = 'embed' and state = 'running')")
                .fetch_one(&graph.app.db.pool)
                .await
                .expect("a state");
        running.then_some(())
    })
    .await;
    graph.app.crash_workers();
    graph.server.set(Mood::Well);
    graph.app.add_worker();
    graph.embedded(4).await;
}

#[tokio::test]
async fn without_a_model_marks_do_not_pile_up_and_stand_for_all() {
    let database = support::database().await;
    let (pool, project) = (&database.pool, database.workspace_id);
    let object = Uuid::now_v7();
    for _ in 0..2 {
        sqlx::query("insert into kb.graph_embedding_marks (project_id, canonical_id) select $1, $2 from generate_series(1, 1500)")
            .bind(project)
            .bind(object)
            .execute(pool)
            .await
            .expect("marks");
        embedding_backlog::fold_marks(pool).await.expect("folded");
        let marks: Vec<Option<Uuid>> = sqlx::query_scalar("select canonical_id from kb.graph_embedding_marks")
            .fetch_all(pool)
            .await
            .expect("marks");
        assert_eq!(marks, [None]);
    }
    let marked = embedding_backlog::marked(pool, project, MODEL)
        .await
        .expect("what is marked");
    assert!(marked.all && marked.objects.is_empty() && marked.gone.is_empty());
}
