//! Context types: prompt, tools, and focused entity; and a planner's input, in order.

use std::collections::BTreeSet;

use rejoin_runs::contexts::{self, ContextType};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tools::registry::Patterns;
use serde_json::{Value, json};

use rejoin_tests::projects::project;

/// Returns the names of the tools offered in a request.
fn offered(request: &Value) -> BTreeSet<String> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// An app whose project has everything enabled.
async fn start() -> TestApp {
    let app = TestApp::start().await;
    let client = app.client();
    assert_eq!(client.post("/api/onto/install", json!({})).await.0, 204);
    let path = format!("/api/admin/projects/{}/web", app.db.workspace_id);
    let web = json!({"visit": true, "provider": "searxng", "baseUrl": "https://search.example"});
    let (status, on) = client.put(&path, web).await;
    assert_eq!(status, 200, "{on}");
    app
}

const READS_A_PROJECT: [&str; 28] = [
    "get_buildos_overview",
    "get_document_path",
    "get_document_tree",
    "get_entity_relationships",
    "get_field_info",
    "get_linked_entities",
    "get_onto_document_details",
    "get_onto_goal_details",
    "get_onto_milestone_details",
    "get_onto_plan_details",
    "get_onto_project_details",
    "get_onto_project_graph",
    "get_onto_requirement_details",
    "get_onto_risk_details",
    "get_onto_task_details",
    "list_onto_documents",
    "list_onto_goals",
    "list_onto_milestones",
    "list_onto_plans",
    "list_onto_projects",
    "list_onto_requirements",
    "list_onto_risks",
    "list_onto_tasks",
    "list_task_documents",
    "search_onto_documents",
    "search_onto_projects",
    "search_onto_tasks",
    "search_ontology",
];

/// Requirements: E33, E35, E36.
#[tokio::test]
async fn each_type_has_its_own_prompt_and_tools() {
    let app = start().await;
    let client = app.client();
    let everything = app.agent("everything", &["*"]).await;
    let by_context = app
        .agent_with("by context", &["*"], |content| {
            content.config = json!({"toolSelection": "context"});
        })
        .await;
    app.model.always("x", Reply::text("ok"));
    client.ask(Some(everything), "x").await;
    let all = offered(app.model.requests().last().unwrap());
    // The tools for planning, asking and starting others, in every context.
    let always = [
        "agent_create_plan",
        "ask_user",
        "create_tasks",
        "list_available_agents",
        "spawn_agents",
    ];
    for one in ContextType::ALL {
        let body = json!({"message": "x", "agentDefinitionId": by_context, "contextType": one});
        let events = json_of(&client.chat(body).await);
        assert_eq!(events.last().unwrap()["status"], "completed");
        let request = app.model.requests().pop().unwrap();
        let prompt = sent(&request)[0].1.clone();
        for other in ContextType::ALL {
            let is_there = prompt.contains(&contexts::shipped(other).prompt);
            assert_eq!(is_there, one == other, "the prompt of {other:?} in {one:?}");
        }
        let tools = &contexts::shipped(one).tools;
        for pattern in tools {
            let matches = Patterns::new(std::slice::from_ref(pattern));
            assert!(
                all.iter().any(|name| matches.is_match(name)),
                "{one:?}: {pattern} names no tool"
            );
        }
        let patterns = Patterns::new(tools);
        let shown = offered(&request);
        let own: BTreeSet<&str> = shown
            .iter()
            .map(String::as_str)
            .filter(|name| !always.contains(name))
            .collect();
        let fitting = all.iter().filter(|name| patterns.is_match(name)).count();
        assert!(own.iter().all(|name| patterns.is_match(name)), "{one:?}: {own:?}");
        assert_eq!(own.len(), fitting.min(40), "{one:?}");
        let also: Option<&[&str]> = match one {
            ContextType::ProjectAudit => Some(&[]),
            ContextType::ProjectForecast => Some(&["list_calendar_events"]),
            _ => None,
        };
        if let Some(also) = also {
            let expected: BTreeSet<&str> = READS_A_PROJECT.iter().chain(also).copied().collect();
            assert_eq!(own, expected, "{one:?} reads the project, and changes nothing");
        }
        if one == ContextType::ProjectCreate {
            let expected = BTreeSet::from([
                "create_onto_project",
                "get_field_info",
                "list_onto_projects",
                "search_onto_projects",
                "web_search",
                "web_visit",
            ]);
            assert_eq!(own, expected);
        }
    }
}

/// Requirements: E37.
#[tokio::test]
async fn the_focus_is_kept_and_sent_to_readers_and_the_model() {
    let app = TestApp::start().await;
    let client = app.client();
    let ids = project(&client, "Apollo").await;
    let agent = app.agent("helper", &[]).await;
    app.model.always("how", Reply::text("Well."));
    let focus = json!({
        "projectId": ids["project"], "projectName": "Apollo", "focusType": "task", "focusEntityId": ids["first"],
    });
    let body = json!({
        "message": "how does it stand?", "agentDefinitionId": agent, "contextType": "project",
        "projectFocus": {"project_id": ids["project"], "focus_type": "task", "focus_entity_id": ids["first"]},
    });
    let events = json_of(&client.chat(body).await);
    assert_eq!(of_kind(&events, "focus_changed")[0]["focus"], focus);
    assert_eq!(of_kind(&events, "focus_active")[0]["focus"], focus);
    let conversation = events[1]["conversationId"].as_str().unwrap();
    let path = format!("/api/conversations/{conversation}");
    assert_eq!(client.get(&path).await.1["projectFocus"], focus);
    let prompt = sent(&app.model.requests()[0])[0].1.clone();
    let id = ids["first"].as_str().unwrap();
    assert!(
        prompt.contains(&format!("In focus there: task First ({id})")),
        "{prompt}"
    );
    // The next message has no context: the entity stays in focus. Then only the project is.
    let events = json_of(
        &client
            .chat(json!({"message": "how now?", "conversationId": conversation}))
            .await,
    );
    assert_eq!(of_kind(&events, "focus_active")[0]["focus"], focus);
    assert!(of_kind(&events, "focus_changed").is_empty());
    let whole = json!({"projectId": ids["project"], "projectName": "Apollo"});
    let events = json_of(
        &client
            .chat(json!({"message": "how at all?", "conversationId": conversation, "projectFocus": whole}))
            .await,
    );
    assert_eq!(of_kind(&events, "focus_changed")[0]["focus"], whole);
    let prompt = sent(app.model.requests().last().unwrap())[0].1.clone();
    assert!(
        prompt.contains("Project: Apollo") && !prompt.contains("In focus there"),
        "{prompt}"
    );
}

/// Requirements: E39.
#[tokio::test]
async fn a_planner_gets_system_context_history_message_in_order() {
    let app = TestApp::start().await;
    let client = app.client();
    let ids = project(&client, "Apollo").await;
    let agent = app
        .agent_with("planner", &["agent_create_plan"], |content| {
            content.system_prompt = "You plan.".to_owned();
        })
        .await;
    app.model
        .script([Reply::text("First answer."), Reply::text("Second answer.")]);
    let body = json!({
        "message": "first question", "agentDefinitionId": agent, "contextType": "project",
        "projectFocus": {"projectId": ids["project"]},
    });
    let events = json_of(&client.chat(body).await);
    let conversation = &events[1]["conversationId"];
    client
        .chat(json!({"message": "second question", "conversationId": conversation}))
        .await;
    let requests = app.model.requests();
    let given = sent(&requests[1]);
    let (system, rest) = given.split_first().unwrap();
    assert_eq!(system.0, "system");
    let parts = [
        "You plan.",
        "# Where the user is",
        "Project: Apollo",
        "The previous turn",
    ];
    let places: Vec<usize> = parts
        .iter()
        .map(|part| system.1.find(part).unwrap_or_else(|| panic!("{part} in {}", system.1)))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(
        rest,
        [
            ("user", "first question"),
            ("assistant", "First answer."),
            ("user", "second question"),
        ]
        .map(|(role, text)| (role.to_owned(), text.to_owned()))
    );
    assert!(offered(&requests[1]).contains("agent_create_plan"));
}
