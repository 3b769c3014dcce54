//! The knowledge graph on a real database: versions and imports. (Search: `search`; the tools over them: `tools`.)

use rejoin_graph::export::{self, Writer};
use rejoin_graph::import::{self, BadLine, Counts, OnError, Report};
use rejoin_graph::objects::{NewObject, ObjectChange, Resolved};
use rejoin_graph::relationships::NewRelationship;
use rejoin_graph::scope::Scope;
use rejoin_graph::traverse::Walk;
use rejoin_graph::{Actor, ActorKind, Error, edges, objects, relationships, schema, search, traverse};
use serde_json::{Map, Value, json};
use sqlx::PgPool;
use uuid::Uuid;

pub(super) const ACTOR: Actor = Actor {
    kind: ActorKind::User,
    id: None,
};

pub(super) const FILE: &str = r#"{"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"},"properties":{"constraint":">= 3.0.0"}}
{"kind":"object","type":"Package","key":"curl","labels":["web"],"properties":{"summary":"command line tool for URLs"}}
{"kind":"object","type":"Package","key":"libssl3","labels":["libs"],"properties":{"summary":"Secure Sockets Layer toolkit"}}
{"kind":"object","type":"Package","key":"libssl-dev","labels":["libs"],"properties":{"summary":"development files"}}
{"kind":"object","type":"SourcePackage","key":"openssl"}
{"kind":"relationship","type":"BUILT_FROM","source":{"type":"Package","key":"libssl3"},"target":{"type":"SourcePackage","key":"openssl"}}
"#;

pub(super) async fn import(pool: &PgPool, workspace_id: Uuid, file: &str, on_error: OnError) -> Report {
    import::import(pool, workspace_id, file.as_bytes(), on_error, ACTOR, |_| ())
        .await
        .unwrap()
}

pub(super) async fn find(pool: &PgPool, workspace_id: Uuid, reference: &str) -> objects::Object {
    match objects::resolve(pool, workspace_id, reference).await.unwrap() {
        Resolved::One(object) => *object,
        other => panic!("{reference}: {other:?}"),
    }
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(super) fn package(key: &str) -> NewObject {
    NewObject {
        object_type: "Package".to_owned(),
        key: Some(key.to_owned()),
        ..NewObject::default()
    }
}

pub(super) async fn names(pool: &PgPool, workspace_id: Uuid, query: &str, scope: &Scope) -> Vec<String> {
    let found = search::search(pool, workspace_id, query, scope, 10).await.unwrap();
    assert!(
        found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)),
        "{found:?}"
    );
    found.hits.into_iter().map(|hit| hit.object.name).collect()
}

#[tokio::test]
async fn an_edit_is_a_new_version_and_only_the_head_shows() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    let mut connection = pool.acquire().await.unwrap();
    let created = objects::create(&mut connection, workspace_id, &package("curl"), ACTOR)
        .await
        .unwrap();
    let change = ObjectChange {
        properties: fields(json!({"a": 1, "b": 2})),
        expected_version: Some(1),
        ..ObjectChange::default()
    };
    objects::update(&mut connection, workspace_id, created.id, &change, ACTOR)
        .await
        .unwrap();
    let change = ObjectChange {
        properties: fields(json!({"a": null, "b": 3})),
        ..ObjectChange::default()
    };
    let third = objects::update(&mut connection, workspace_id, created.id, &change, ACTOR)
        .await
        .unwrap();
    assert_eq!(
        (third.id, third.version, &third.properties),
        (created.id, 3, &json!({"b": 3}))
    );
    assert_eq!(third.created_at, created.created_at);

    let unchanged = objects::update(&mut connection, workspace_id, created.id, &change, ACTOR)
        .await
        .unwrap();
    assert_eq!(unchanged.version, 3);
    let stale = ObjectChange {
        expected_version: Some(1),
        ..change
    };
    let conflict = objects::update(&mut connection, workspace_id, created.id, &stale, ACTOR)
        .await
        .unwrap_err();
    assert!(
        matches!(conflict, Error::VersionConflict { expected: 1, actual: 3 }),
        "{conflict:?}"
    );

    let history = objects::history(pool, workspace_id, created.id, 10).await.unwrap();
    assert_eq!(
        history.iter().map(|object| object.version).collect::<Vec<_>>(),
        [3, 2, 1]
    );
    let listed = objects::list(pool, workspace_id, &objects::Filter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(listed, [third]);
}

#[tokio::test]
async fn several_objects_change_together_or_say_why_not() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    let mut connection = pool.acquire().await.unwrap();
    let mut ids = Vec::new();
    for key in ["changed", "same", "stale", "deleted"] {
        let new = NewObject {
            labels: vec!["web".to_owned(), "a, \"b\"".to_owned()],
            properties: fields(json!({"a": 1, "b": 2})),
            ..package(key)
        };
        ids.push(
            objects::create(&mut connection, workspace_id, &new, ACTOR)
                .await
                .unwrap()
                .id,
        );
    }
    objects::delete(&mut connection, workspace_id, ids[3], ACTOR)
        .await
        .unwrap();
    let patch = |patch: Value, expected_version| ObjectChange {
        properties: fields(patch),
        expected_version,
        change_summary: Some("together".to_owned()),
        ..ObjectChange::default()
    };
    let unknown = Uuid::now_v7();
    let changes = [
        (ids[0], patch(json!({"a": null, "c": {"d": [1]}}), Some(1))),
        (ids[1], patch(json!({"a": 1}), None)),
        (ids[2], patch(json!({"a": 9}), Some(7))),
        (ids[3], patch(json!({"a": 9}), None)),
        (unknown, patch(json!({"a": 9}), None)),
    ];
    let results = objects::update_many(&mut connection, workspace_id, &changes, ACTOR)
        .await
        .unwrap();
    assert!(
        matches!(
            &results[..],
            [
                Ok(()),
                Ok(()),
                Err(Error::VersionConflict { expected: 7, actual: 1 }),
                Err(Error::NotFound { .. }),
                Err(Error::NotFound { .. })
            ]
        ),
        "{results:?}"
    );
    let history = objects::history(pool, workspace_id, ids[0], 10).await.unwrap();
    let [head, first] = &history[..] else {
        panic!("{history:?}")
    };
    assert_eq!((head.version, &head.properties), (2, &json!({"b": 2, "c": {"d": [1]}})));
    assert_eq!(head.change_summary.as_deref(), Some("together"));
    assert_eq!(
        (&head.labels, &head.key, head.created_at),
        (&first.labels, &first.key, first.created_at)
    );
    for id in &ids[1..3] {
        let versions = objects::history(pool, workspace_id, *id, 10).await.unwrap();
        assert_eq!(versions.len(), 1, "{versions:?}");
    }
    // The same patch by itself has the same content.
    let alone = objects::update(&mut connection, workspace_id, ids[1], &changes[0].1, ACTOR)
        .await
        .unwrap();
    assert_eq!((&alone.properties, &alone.labels), (&head.properties, &head.labels));
}

#[tokio::test]
async fn a_deleted_object_is_gone_everywhere_until_restored() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    import(pool, workspace_id, FILE, OnError::Refuse).await;
    let curl = find(pool, workspace_id, "curl").await;
    let libssl3 = find(pool, workspace_id, "libssl3").await;
    let mut connection = pool.acquire().await.unwrap();

    objects::delete(&mut connection, workspace_id, curl.id, ACTOR)
        .await
        .unwrap();
    assert!(matches!(
        objects::get(pool, workspace_id, curl.id).await,
        Err(Error::NotFound { .. })
    ));
    assert!(
        !names(pool, workspace_id, "curl", &Scope::default())
            .await
            .contains(&"curl".to_owned())
    );
    assert_eq!(
        edges::edges(pool, workspace_id, libssl3.id, 10)
            .await
            .unwrap()
            .incoming_total,
        0
    );
    let walked = traverse::traverse(pool, workspace_id, libssl3.id, &Walk::default())
        .await
        .unwrap();
    assert!(walked.nodes.iter().all(|node| node.object.id != curl.id));

    objects::restore(&mut connection, workspace_id, curl.id, ACTOR)
        .await
        .unwrap();
    assert_eq!(
        edges::edges(pool, workspace_id, libssl3.id, 10)
            .await
            .unwrap()
            .incoming_total,
        1
    );

    objects::delete(&mut connection, workspace_id, curl.id, ACTOR)
        .await
        .unwrap();
    objects::create(&mut connection, workspace_id, &package("curl"), ACTOR)
        .await
        .unwrap();
    let taken = objects::restore(&mut connection, workspace_id, curl.id, ACTOR)
        .await
        .unwrap_err();
    assert!(matches!(taken, Error::Conflict(_)), "{taken:?}");
}

#[tokio::test]
async fn no_object_of_another_project_can_be_seen_or_joined() {
    let (ours, theirs) = (rejoin_tests::support::database().await, Uuid::now_v7());
    sqlx::query("insert into kb.projects (id, name) values ($1, 'another')")
        .bind(theirs)
        .execute(&ours.pool)
        .await
        .unwrap();
    import(&ours.pool, ours.workspace_id, FILE, OnError::Refuse).await;
    let curl = find(&ours.pool, ours.workspace_id, "curl").await;
    assert!(matches!(
        objects::resolve(&ours.pool, theirs, &curl.id.to_string())
            .await
            .unwrap(),
        Resolved::Nothing
    ));
    assert!(names(&ours.pool, theirs, "curl", &Scope::default()).await.is_empty());
    assert!(schema::types(&ours.pool, theirs).await.unwrap().is_empty());

    let mut connection = ours.pool.acquire().await.unwrap();
    let own = objects::create(&mut connection, theirs, &package("own"), ACTOR)
        .await
        .unwrap();
    let across = NewRelationship {
        relationship_type: "DEPENDS_ON".to_owned(),
        source_id: own.id,
        target_id: curl.id,
        properties: Map::new(),
        weight: None,
        valid_from: None,
        valid_to: None,
    };
    let refused = relationships::create(&mut connection, theirs, &across, ACTOR)
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::NotFound { .. }), "{refused:?}");
}

#[tokio::test]
async fn writers_of_one_relationship_take_turns() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    import(pool, workspace_id, FILE, OnError::Refuse).await;
    let curl = find(pool, workspace_id, "Package:curl").await;
    let edges = edges::edges(pool, workspace_id, curl.id, 10).await.unwrap();
    let id = edges.outgoing[0].relationship_id;
    let writes = (0..8).map(|n| async move {
        let mut connection = pool.acquire().await.unwrap();
        let properties = fields(json!({ format!("p{n}"): n }));
        let change = relationships::RelationshipChange {
            properties,
            ..Default::default()
        };
        relationships::update(&mut connection, workspace_id, id, &change, ACTOR)
            .await
            .unwrap()
            .version
    });
    let mut versions = futures::future::join_all(writes).await;
    versions.sort_unstable();
    assert_eq!(versions, (2..=9).collect::<Vec<_>>());
    let all = relationships::get(pool, workspace_id, id).await.unwrap();
    assert!(
        (0..8).all(|n| all.properties[format!("p{n}")] == n),
        "no write was lost: {}",
        all.properties
    );
}

#[tokio::test]
async fn a_repeated_import_changes_nothing_but_changed_lines() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    let first = import(pool, workspace_id, FILE, OnError::Refuse).await;
    assert_eq!(
        first.objects,
        Counts {
            created: 4,
            updated: 0,
            unchanged: 0
        }
    );
    assert_eq!(
        first.relationships,
        Counts {
            created: 2,
            updated: 0,
            unchanged: 0
        }
    );
    let again = import(pool, workspace_id, FILE, OnError::Refuse).await;
    assert_eq!(
        again.objects,
        Counts {
            created: 0,
            updated: 0,
            unchanged: 4
        }
    );
    assert_eq!(
        again.relationships,
        Counts {
            created: 0,
            updated: 0,
            unchanged: 2
        }
    );

    let changed = import(
        pool,
        workspace_id,
        &FILE.replace("3.0.0", "3.1").replace("for URLs", "for addresses"),
        OnError::Refuse,
    )
    .await;
    assert_eq!(
        changed.objects,
        Counts {
            created: 0,
            updated: 1,
            unchanged: 3
        }
    );
    assert_eq!(
        changed.relationships,
        Counts {
            created: 0,
            updated: 1,
            unchanged: 1
        }
    );
    let curl = find(pool, workspace_id, "curl").await;
    assert_eq!(
        (curl.version, &curl.properties["summary"]),
        (2, &json!("command line tool for addresses"))
    );
    let edges = edges::edges(pool, workspace_id, curl.id, 10).await.unwrap();
    assert_eq!(
        edges
            .outgoing
            .iter()
            .map(|edge| edge.properties.clone())
            .collect::<Vec<_>>(),
        [json!({"constraint": ">= 3.1"})]
    );
}

#[tokio::test]
async fn bad_lines_are_named_and_refuse_or_are_skipped() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    let lost = r#"{"kind":"relationship","type":"R","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"gone"}}"#;
    let file = format!("{FILE}not json\n\n{lost}\n");
    let bad_lines = |report: &Report| report.bad.iter().map(|bad| bad.line).collect::<Vec<_>>();

    let refused = import(pool, workspace_id, &file, OnError::Refuse).await;
    assert_eq!(
        (refused.imported, refused.bad_lines, bad_lines(&refused)),
        (false, 2, vec![7, 9])
    );
    assert_eq!(
        refused.bad[1],
        BadLine {
            line: 9,
            reason: "there is no target object Package:gone".to_owned()
        }
    );
    assert!(schema::types(pool, workspace_id).await.unwrap().is_empty());

    let skipped = import(pool, workspace_id, &file, OnError::Skip).await;
    assert_eq!(
        (
            skipped.imported,
            skipped.bad_lines,
            skipped.objects.created,
            skipped.relationships.created
        ),
        (true, 2, 4, 2)
    );
}

#[tokio::test]
async fn an_export_survives_a_round_trip_through_another_project() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id, other) = (&database.pool, database.workspace_id, Uuid::now_v7());
    sqlx::query("insert into kb.projects (id, name) values ($1, 'copy')")
        .bind(other)
        .execute(pool)
        .await
        .unwrap();
    import(pool, workspace_id, FILE, OnError::Refuse).await;
    let mut exported = Writer(Vec::new());
    export::export(pool, workspace_id, &mut exported).await.unwrap();
    let file = String::from_utf8(exported.0).unwrap();

    let back = import(pool, workspace_id, &file, OnError::Refuse).await;
    assert_eq!((back.objects.unchanged, back.relationships.unchanged), (4, 2));
    let copied = import(pool, other, &file, OnError::Refuse).await;
    assert_eq!((copied.objects.created, copied.relationships.created), (4, 2));
}
