//! Search by words, and walks along relationships.

use rejoin_graph::import::OnError;
use rejoin_graph::scope::Scope;
use rejoin_graph::traverse::Walk;
use rejoin_graph::{Direction, objects, search, traverse};
use serde_json::json;

use super::store::{ACTOR, FILE, find, import, names, package};

#[tokio::test]
async fn a_search_finds_by_question_by_text_and_despite_typos() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    import(pool, workspace_id, FILE, OnError::Refuse).await;
    let everywhere = Scope::default();
    assert_eq!(
        names(pool, workspace_id, "Which packages need libssl3, and why?", &everywhere).await[0],
        "libssl3"
    );
    assert_eq!(
        names(pool, workspace_id, "secure sockets", &everywhere).await[0],
        "libssl3"
    );
    assert!(
        names(pool, workspace_id, "libss3", &everywhere)
            .await
            .contains(&"libssl3".to_owned())
    );
    let web = Scope {
        types: vec!["Package".to_owned()],
        labels: vec!["web".to_owned()],
        ..Scope::default()
    };
    assert_eq!(names(pool, workspace_id, "command tool", &web).await, ["curl"]);
    assert!(names(pool, workspace_id, "libssl3", &web).await.is_empty());

    let libssl3 = find(pool, workspace_id, "libssl3").await;
    let (similar, by_meaning) = search::similar(pool, workspace_id, libssl3.id, None, &everywhere, 10)
        .await
        .unwrap();
    assert!(!by_meaning, "there are no vectors");
    assert!(similar.iter().all(|hit| hit.object.id != libssl3.id));
}

#[tokio::test]
async fn a_walk_goes_the_asked_way_and_its_edges_never_dangle() {
    let database = rejoin_tests::support::database().await;
    let (pool, workspace_id) = (&database.pool, database.workspace_id);
    import(pool, workspace_id, FILE, OnError::Refuse).await;
    let curl = find(pool, workspace_id, "curl").await;
    let walk = Walk {
        max_depth: 5,
        direction: Direction::Outgoing,
        ..Walk::default()
    };
    let walked = traverse::traverse(pool, workspace_id, curl.id, &walk).await.unwrap();
    let nodes: Vec<_> = walked
        .nodes
        .iter()
        .map(|node| (node.depth, node.object.key.as_str()))
        .collect();
    assert_eq!(nodes, [(0, "curl"), (1, "libssl3"), (2, "openssl")]);
    assert_eq!((walked.edges.len(), walked.truncated), (2, false));

    let mut hub = String::from("{\"kind\":\"object\",\"type\":\"T\",\"key\":\"hub\"}\n");
    for leaf in 0..traverse::MAX_NODES + 10 {
        hub.push_str(&format!(
            "{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{leaf}\"}}\n{{\"kind\":\"relationship\",\"type\":\"R\",\"source\":\
             {{\"type\":\"T\",\"key\":\"{leaf}\"}},\"target\":{{\"type\":\"T\",\"key\":\"hub\"}}}}\n"
        ));
    }
    import(pool, workspace_id, &hub, OnError::Refuse).await;
    let hub = find(pool, workspace_id, "hub").await;
    let walked = traverse::traverse(pool, workspace_id, hub.id, &Walk::default())
        .await
        .unwrap();
    assert_eq!(
        (walked.nodes.len(), walked.edges.len(), walked.truncated),
        (traverse::MAX_NODES, traverse::MAX_NODES - 1, true)
    );
}

#[tokio::test]
async fn common_words_find_some_and_with_a_rare_word_the_right_ones() {
    let database = rejoin_tests::support::database().await;
    let (pool, project) = (&database.pool, database.workspace_id);
    // More than the limit of a common word; the few of another type are the last ones.
    let lines: String = (0..10_400)
        .map(|n| {
            let of_type = if n < 10_390 { "Note" } else { "Task" };
            let name = if n == 10_200 { "library walrus" } else { "library" };
            format!(
                "{}\n",
                json!({"kind": "object", "type": of_type, "key": format!("k{n}"), "properties": {"name": format!("{name} {n}")}})
            )
        })
        .collect();
    import(pool, project, &lines, OnError::Refuse).await;
    let everywhere = Scope::default();
    let tasks = Scope {
        types: vec!["Task".to_owned()],
        ..Scope::default()
    };
    assert_eq!(names(pool, project, "library", &everywhere).await.len(), 10);
    let found = names(pool, project, "library", &tasks).await;
    assert_eq!(found.len(), 10, "types count before the limit");
    assert_eq!(
        names(pool, project, "library walrus", &everywhere).await[0],
        "library walrus 10200"
    );
    // With typos in both words; and written after the import.
    assert_eq!(
        names(pool, project, "libary wallrus", &everywhere).await[0],
        "library walrus 10200"
    );
    // A word without matches removes no results.
    assert_eq!(names(pool, project, "libary xylophone", &everywhere).await.len(), 10);
    let mut connection = pool.acquire().await.unwrap();
    objects::create(&mut connection, project, &package("hippopotamus"), ACTOR)
        .await
        .unwrap();
    assert_eq!(
        names(pool, project, "hipopotamos", &everywhere).await[0],
        "hippopotamus"
    );
    // The prefix of a code.
    assert_eq!(names(pool, project, "k1020", &everywhere).await.len(), 10);
}
