//! OpenAI's clients for JavaScript and Python, unmodified, at `/v1`.

mod inputs;
mod interruptions;
mod objects;

use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use reqwest::StatusCode;
use serde_json::{Value, json};

const LANGUAGES: [Language; 2] = [Language::JavaScript, Language::Python];

fn words(n: usize) -> String {
    (0..n).map(|i| format!("word{i} ")).collect()
}

fn weather() -> Value {
    json!({"type": "function", "name": "get_weather", "description": "The weather of a city.", "strict": false,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}})
}

/// The text of a response's messages.
fn output_text(response: &Value) -> String {
    let messages = response["output"].as_array().expect("output").iter();
    let messages = messages.filter(|item| item["type"] == "message");
    messages
        .flat_map(|item| item["content"].as_array().expect("content"))
        .map(|part| part["text"].as_str().expect("text"))
        .collect()
}

/// The messages of an assistant that are stored, newest last.
async fn stored(app: &TestApp) -> Vec<String> {
    sqlx::query_scalar("select content from kb.chat_messages where role = 'assistant' order by created_at, seq")
        .fetch_all(&app.db.pool)
        .await
        .unwrap()
}

fn item<'a>(response: &'a Value, kind: &str) -> &'a Value {
    let items = response["output"].as_array().expect("output");
    items
        .iter()
        .find(|item| item["type"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {response:#}"))
}

#[tokio::test]
async fn both_clients_get_an_answer_streamed_and_whole() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &["schema_version"]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([
            Reply::text("Let me see. ").then_tool("schema_version", json!({})),
            Reply::text("It is this one."),
            Reply::text("Hello again."),
        ]);
        let gathered = client
            .gathers("gather", json!({"model": "helper", "input": "which version?"}))
            .await;
        let response = &gathered["final"];
        let whole = "Let me see. \n\nIt is this one.";
        assert_eq!(
            (&gathered["text"], output_text(response).as_str()),
            (&json!(whole), whole)
        );
        assert_eq!(stored(&app).await.last().unwrap(), whole);
        let call = item(response, "mcp_call");
        assert_eq!(
            (&call["name"], &call["status"]),
            (&json!("schema_version"), &json!("completed"))
        );
        assert_eq!(response["status"], "completed");
        assert!(response["usage"]["total_tokens"].as_u64().unwrap() > 0);

        // What is read later is what ended the stream.
        let id = response["id"].as_str().unwrap();
        let read = match language {
            Language::JavaScript => client.calls("responses.retrieve", json!(id)).await,
            Language::Python => client.calls("responses.retrieve", json!({"response_id": id})).await,
        };
        assert_eq!((&read["id"], &read["usage"]), (&response["id"], &response["usage"]));
        assert_eq!(output_text(&read), whole);

        let more =
            json!({"model": "helper", "input": [{"role": "user", "content": "hello"}], "previous_response_id": id});
        let response = client.calls("responses.create", more).await;
        assert_eq!(
            (output_text(&response).as_str(), &response["previous_response_id"]),
            ("Hello again.", &json!(id))
        );
        let given = app.model.requests().last().unwrap()["messages"].to_string();
        assert!(
            given.contains("which version?") && given.contains("It is this one."),
            "{given}"
        );
    }
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_function_of_the_client_is_called_and_its_output_used() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([
            Reply::text("Let me look. ").then_tool("get_weather", json!({"city": "Paris"})),
            Reply::text("It is sunny."),
        ]);
        let ask = json!({"model": "helper", "input": "weather in Paris?", "tools": [weather()]});
        let first = client.gathers("gather", ask).await["final"].clone();
        let call = item(&first, "function_call");
        assert_eq!(
            (&call["name"], &call["arguments"]),
            (&json!("get_weather"), &json!(r#"{"city":"Paris"}"#))
        );
        let output =
            json!({"type": "function_call_output", "call_id": call["call_id"], "output": "{\"sky\":\"clear\"}"});
        let unanswered = json!({"model": "helper", "input": "never mind", "previous_response_id": first["id"]});
        let refused = client.tries("responses.create", unanswered).await;
        assert_eq!(refused["error"]["code"], "output_missing");
        let answer =
            json!({"model": "helper", "input": [output], "previous_response_id": first["id"], "tools": [weather()]});
        let second = client.gathers("gather", answer.clone()).await;
        assert_eq!(second["final"]["previous_response_id"], first["id"]);
        assert_eq!(output_text(&second["final"]), "\n\nIt is sunny.");
        assert_eq!(stored(&app).await.last().unwrap(), "Let me look. \n\nIt is sunny.");
        // Sent again, it is the same response.
        let again = client.calls("responses.create", answer).await;
        assert_eq!(again["id"], second["final"]["id"]);
        assert_eq!(output_text(&again), "\n\nIt is sunny.");
    }
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn chat_completions_answer_stream_and_call_functions() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    let history = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Who am I?"},
    ]);
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model
            .script([Reply::text("You are Ada."), Reply::text("Still Ada.")]);
        let ask = json!({"model": "helper", "messages": history});
        let completion = client.calls("chat.completions.create", ask).await;
        assert_eq!(completion["choices"][0]["message"]["content"], "You are Ada.");
        assert_eq!(completion["choices"][0]["finish_reason"], "stop");
        let given = app.model.requests().last().unwrap()["messages"].to_string();
        assert!(
            given.contains("Be brief.") && given.contains("My name is Ada.") && given.contains("Noted."),
            "{given}"
        );
        let ask = json!({"model": "helper", "messages": history, "stream_options": {"include_usage": true}});
        let streamed = client.gathers("gatherChat", ask).await;
        assert_eq!(
            (
                &streamed["text"],
                &streamed["final"]["choices"][0]["message"]["content"]
            ),
            (&json!("Still Ada."), &json!("Still Ada."))
        );
        assert!(streamed["final"]["usage"]["total_tokens"].as_u64().unwrap() > 0);
    }

    // The client's own loop, which executes functions.
    app.model.script([
        Reply::tools([
            ("get_weather", json!({"city": "Oslo"})),
            ("get_time", json!({"city": "Oslo"})),
        ]),
        Reply::text("Rain at noon."),
    ]);
    let client = OpenAi::new(Language::JavaScript, &app);
    let body = json!({"model": "helper", "messages": [{"role": "user", "content": "Oslo?"}]});
    let ran = client
        .runs(json!({"task": "runTools", "body": body, "returns": {"get_weather": "rain", "get_time": "12:00"}}))
        .await;
    assert_eq!(ran["result"]["text"], "Rain at noon.", "{ran:#}");
    assert_eq!(ran["result"]["called"].as_array().unwrap().len(), 2);
    let given = app.model.requests().last().unwrap()["messages"].to_string();
    assert!(given.contains("rain") && given.contains("12:00"), "{given}");
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn errors_have_the_protocols_shape() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        let reply = client
            .tries("responses.create", json!({"model": "nobody", "input": "hi"}))
            .await;
        let error = &reply["error"];
        assert_eq!(
            (&error["name"], &error["status"], &error["code"], &error["param"]),
            (
                &json!("NotFoundError"),
                &json!(404),
                &json!("model_not_found"),
                &json!("model")
            )
        );
        let reply = client
            .clone()
            .with_key("wrong")
            .tries("responses.create", json!({"model": "helper", "input": "hi"}))
            .await;
        let error = &reply["error"];
        assert_eq!(
            (&error["name"], &error["status"], &error["code"]),
            (&json!("AuthenticationError"), &json!(401), &json!("invalid_api_key"))
        );
        let reply = client
            .tries(
                "responses.create",
                json!({"model": "helper", "input": "hi", "tools": [{"type": "web_search"}]}),
            )
            .await;
        assert_eq!(
            (&reply["error"]["status"], &reply["error"]["param"]),
            (&json!(400), &json!("tools[0].type"))
        );
        // A run that fails is a response that says so, and an error of a completion.
        app.model.script([Reply::status(401), Reply::status(401)]);
        let response = client
            .calls("responses.create", json!({"model": "helper", "input": "hi"}))
            .await;
        assert_eq!(response["status"], "failed", "{response:#}");
        assert!(!response["error"]["message"].as_str().unwrap().is_empty());
        let reply = client
            .tries(
                "chat.completions.create",
                json!({"model": "helper", "messages": [{"role": "user", "content": "hi"}]}),
            )
            .await;
        assert_eq!(reply["error"]["name"], "InternalServerError", "{reply:#}");
    }
    let http = app.client();
    for path in ["/v1/nothing", "/v1/responses/resp_x", "/v1/conversations/conv_x"] {
        let (status, reply) = http.get(path).await;
        assert_eq!(
            (status, reply["error"]["type"].as_str()),
            (StatusCode::NOT_FOUND, Some("invalid_request_error")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_answer_is_data_that_matches_its_schema() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "place", "strict": true, "schema": schema});
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.always("Where?", Reply::text(r#"{"city":"Oslo"}"#));
        let ask = json!({"model": "helper", "input": "Where?", "text": {"format": format}});
        let response = client.calls("responses.create", ask).await;
        assert_eq!(
            serde_json::from_str::<Value>(&output_text(&response)).unwrap(),
            json!({"city": "Oslo"})
        );
        let ask = json!({"model": "helper", "messages": [{"role": "user", "content": "Where?"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}});
        let completion = client.calls("chat.completions.create", ask).await;
        let text = completion["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"city": "Oslo"}));
    }
}
