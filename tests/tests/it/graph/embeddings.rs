//! Embeddings of graph objects, from the write to the search: computed in the background by any worker, again after
//! changes, and searched by meaning; and searches while the model fails.

use rejoin_graph::embedding_backlog::{self, NewVector};
use rejoin_graph::query_vector::{Model, QueryVector};
use rejoin_graph::scope::Scope;
use rejoin_graph::vectors;
use rejoin_graph::{Actor, ActorKind, binary_index, import, search};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::embedding_server::{DIMENSIONS, EmbeddingServer, Mood, POISON};
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;
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

/// Objects of a common type with vectors near the query's, and a few of a rare type and label far from it.
async fn crowd(pool: &PgPool, project: Uuid, model: &Model) -> QueryVector {
    let lines: String = (0..2_600)
        .map(|n| {
            let rare = n % 325 == 0;
            let (of_type, label) = if rare { ("Rare", "odd") } else { ("Common", "even") };
            format!(
                "{}\n",
                json!({"kind": "object", "type": of_type, "key": format!("k{n}"), "labels": [label]})
            )
        })
        .collect();
    let actor = Actor {
        kind: ActorKind::Import,
        id: None,
    };
    import::import(pool, project, lines.as_bytes(), import::OnError::Refuse, actor, |_| ())
        .await
        .expect("an import");
    let objects: Vec<(Uuid, String, Vec<u8>)> =
        sqlx::query_as("select canonical_id, key, content_hash from kb.graph_objects where project_id = $1")
            .bind(project)
            .fetch_all(pool)
            .await
            .expect("objects");
    let vector = |number: usize| -> Vec<f32> {
        // Rare ones point the other way; all differ slightly.
        let towards = if number.is_multiple_of(325) { -1.0 } else { 1.0 };
        let mut vector: Vec<f32> = (0..model.dimensions as usize)
            .map(|at| towards + ((number * 31 + at * 17) % 97) as f32 / 200.0)
            .collect();
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vector
    };
    let made: Vec<NewVector> = objects
        .into_iter()
        .map(|(id, key, content_hash)| NewVector {
            id,
            content_hash,
            vector: vector(key[1..].parse().expect("a number")),
        })
        .collect();
    for some in made.chunks(200) {
        embedding_backlog::put(pool, project, model, some, &[], &[])
            .await
            .expect("vectors");
    }
    QueryVector::new(&model.name, vector(1))
}

#[tokio::test]
async fn types_and_labels_filter_before_any_limit_without_an_index() {
    // No index has 16 dimensions; for 384 there is one only with pgvector.
    let database = support::database().await;
    types_and_labels_filter_before_any_limit(&database, DIMENSIONS as i32).await;
}

#[tokio::test]
async fn filters_apply_before_the_limit_with_pgvectors_index() {
    let Some(server) = support::server_with_pgvector().await else {
        return;
    };
    let database = support::on_server(&server).await;
    assert!(vectors::has_index(&database.pool).await.expect("an answer"));
    types_and_labels_filter_before_any_limit(&database, 384).await;
}

async fn types_and_labels_filter_before_any_limit(database: &support::TestDatabase, dimensions: i32) {
    {
        let (pool, project) = (&database.pool, database.workspace_id);
        let model = Model {
            name: format!("test:{dimensions}"),
            dimensions,
        };
        let query = crowd(pool, project, &model).await;
        let all = vectors::nearest(pool, project, &query, &Scope::default(), 10)
            .await
            .expect("near");
        assert_eq!(all.len(), 10);
        assert!(
            all[0].cosine > 0.999 && all.is_sorted_by(|a, b| a.cosine >= b.cosine),
            "{all:?}"
        );
        for scope in [
            Scope {
                types: vec!["Rare".to_owned()],
                ..Scope::default()
            },
            Scope {
                labels: vec!["odd".to_owned()],
                ..Scope::default()
            },
        ] {
            let rare = vectors::nearest(pool, project, &query, &scope, 50).await.expect("near");
            assert_eq!(rare.len(), 8, "{dimensions}, {scope:?}");
            assert!(rare.iter().all(|near| near.cosine < 0.0));
        }
        let object = all[0].id;
        let (similar, by_meaning) = search::similar(pool, project, object, Some(&model.name), &Scope::default(), 5)
            .await
            .expect("similar");
        assert!(by_meaning && similar.len() == 5 && similar.iter().all(|hit| hit.object.id != object));
        // Another project sees none of it.
        let other = Uuid::now_v7();
        assert!(
            vectors::nearest(pool, other, &query, &Scope::default(), 10)
                .await
                .expect("near")
                .is_empty()
        );
    }
}

#[tokio::test]
async fn in_process_signs_find_the_same_and_the_newest_objects() {
    let database = support::database().await;
    let (pool, project) = (&database.pool, database.workspace_id);
    let model = Model {
        name: "test:16".to_owned(),
        dimensions: DIMENSIONS as i32,
    };
    let query = crowd(pool, project, &model).await;
    let scopes = || {
        let scope = |types: &[&str], labels: &[&str]| Scope {
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            labels: labels.iter().map(|name| (*name).to_owned()).collect(),
            ..Scope::default()
        };
        [
            scope(&[], &[]),
            scope(&["Rare"], &[]),
            scope(&["Common"], &["even"]),
            scope(&[], &["odd"]),
        ]
    };
    let mut before = Vec::new();
    for scope in scopes() {
        before.push(vectors::nearest(pool, project, &query, &scope, 20).await.expect("near"));
    }
    binary_index::load(pool, project, &query).await;
    for (scope, before) in scopes().iter().zip(before) {
        let here = vectors::nearest(pool, project, &query, scope, 20).await.expect("near");
        assert_eq!(here.len(), before.len(), "{scope:?}");
        // With equal Hamming distances, the compared ones are arbitrary.
        assert!(
            (here[0].cosine - before[0].cosine).abs() < 1e-3,
            "{scope:?}: {here:?}, {before:?}"
        );
    }

    // One that pointed the other way now matches the query; one is deleted.
    let rare = vectors::nearest(pool, project, &query, &scopes()[1], 20)
        .await
        .expect("near");
    let (changed, gone) = (rare[0].id, rare[1].id);
    let content_hash = sqlx::query_scalar("select content_hash from kb.graph_objects where canonical_id = $1")
        .bind(changed)
        .fetch_one(pool)
        .await
        .expect("a hash");
    let made = NewVector {
        id: changed,
        content_hash,
        vector: query.numbers.clone(),
    };
    embedding_backlog::put(pool, project, &model, &[made], &[gone], &[])
        .await
        .expect("a vector");
    let now = vectors::nearest(pool, project, &query, &scopes()[1], 20)
        .await
        .expect("near");
    assert_eq!(now.len(), rare.len() - 1);
    assert_eq!(now[0].id, changed);
    assert!(now.iter().all(|near| near.id != gone));
}
