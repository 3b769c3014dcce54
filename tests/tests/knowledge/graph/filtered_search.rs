//! Search by meaning in a large graph: filters apply before any limit, with and without an index.

use rejoin_graph::embedding_backlog::{self, NewVector};
use rejoin_graph::query_vector::{Model, QueryVector};
use rejoin_graph::scope::Scope;
use rejoin_graph::{Actor, ActorKind, binary_index, import, search, vectors};
use rejoin_tests::embedding_server::DIMENSIONS;
use rejoin_tests::support;
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

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
