//! What OpenAI's clients send beside texts: files, answers to questions, decisions about calls, and outputs of functions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_tests::app::TestApp;
use rejoin_tests::files;
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use serde_json::{Value, json};

use super::{LANGUAGES, item, output_text, stored};

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn question() -> Value {
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    json!({"question": "Which colour?", "options": options})
}

/// Checks that the model was sent the image and the text file.
fn were_read(app: &TestApp) {
    let parts = files::parts(app);
    let image = parts.iter().find(|part| part["type"] == "image_url");
    assert_eq!(files::decoded(image.expect("an image")), files::png());
    assert!(json!(parts).to_string().contains("hello from a file"), "{parts:#?}");
}

#[tokio::test]
async fn images_and_files_are_sent_as_data_or_by_id() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("reader", &[]).await;
    let http = app.client();
    let image_id = files::stored(&http, "dot.png", files::png()).await;
    let note_id = files::stored(&http, "note.txt", b"hello from a file".to_vec()).await;
    let image = format!("data:image/png;base64,{}", STANDARD.encode(files::png()));
    let note = format!("data:text/plain;base64,{}", STANDARD.encode("hello from a file"));
    let inputs = [
        json!([{"type": "input_image", "image_url": image}, {"type": "input_file", "filename": "note.txt", "file_data": note}]),
        json!([{"type": "input_image", "file_id": image_id}, {"type": "input_file", "file_id": format!("file-{note_id}")}]),
    ];
    let of_messages = [
        json!([{"type": "image_url", "image_url": {"url": image}}, {"type": "file", "file": {"filename": "note.txt", "file_data": note}}]),
        json!([{"type": "file", "file": {"file_id": image_id}}, {"type": "file", "file": {"file_id": note_id}}]),
    ];
    app.model.always("What is it?", Reply::text("A dot."));
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        for (input, of_message) in inputs.iter().zip(&of_messages) {
            let with = |kind: &str, files: &Value| {
                let mut parts = vec![json!({"type": kind, "text": "What is it?"})];
                parts.extend(files.as_array().unwrap().iter().cloned());
                json!([user(parts)])
            };
            let ask = json!({"model": "reader", "input": with("input_text", input)});
            let response = client.calls("responses.create", ask).await;
            assert_eq!(output_text(&response), "A dot.");
            were_read(&app);
            let ask = json!({"model": "reader", "messages": with("text", of_message)});
            let completion = client.calls("chat.completions.create", ask).await;
            assert_eq!(completion["choices"][0]["message"]["content"], "A dot.");
            were_read(&app);
        }
        let elsewhere = json!([user(
            json!([{"type": "input_image", "image_url": "https://example.com/a.png"}])
        )]);
        let refused = client
            .tries("responses.create", json!({"model": "reader", "input": elsewhere}))
            .await;
        assert_eq!(
            (&refused["error"]["status"], &refused["error"]["param"]),
            (&json!(400), &json!("input[0].content[0]"))
        );
    }
}

#[tokio::test]
async fn a_question_ends_a_response_and_a_message_answers_it() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("asker", &["ask_user"]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([
            Reply::text("Well. ").then_tool("ask_user", question()),
            Reply::text("Blue it is."),
        ]);
        let ask = json!({"model": "asker", "input": "paint it"});
        let first = client.gathers("gather", ask).await["final"].clone();
        assert_eq!(first["status"], "completed");
        assert!(
            output_text(&first).ends_with("Which colour?\n- Red\n- Blue"),
            "{first:#}"
        );
        let answer = json!({"model": "asker", "input": "Blue", "previous_response_id": first["id"]});
        let second = client.gathers("gather", answer).await["final"].clone();
        assert_eq!(second["previous_response_id"], first["id"]);
        assert!(output_text(&second).ends_with("Blue it is."), "{second:#}");
        assert_eq!(stored(&app).await.last().unwrap(), "Well. \n\nBlue it is.");
        let given = app.model.requests().pop().unwrap();
        assert!(
            sent(&given)
                .iter()
                .any(|(role, text)| role == "tool" && text.contains("blue")),
            "{given:#}"
        );
        app.wait_until_idle().await;
    }
}

#[tokio::test]
async fn a_call_is_approved_or_refused() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    let confirms = |content: &mut rejoin_runs::agents::DefinitionContent| {
        content.config = json!({"confirm": ["schema_version"]});
    };
    app.agent_with("careful", &["schema_version"], confirms).await;
    for (language, approve) in [(Language::JavaScript, true), (Language::Python, false)] {
        let client = OpenAi::new(language, &app);
        app.model
            .script([Reply::tool("schema_version", json!({})), Reply::text("Done.")]);
        let ask = json!({"model": "careful", "input": "which version?"});
        let first = client.gathers("gather", ask).await["final"].clone();
        let request = item(&first, "mcp_approval_request");
        assert_eq!(request["name"], "schema_version");
        let decision =
            json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve});
        let answer = json!({"model": "careful", "input": [decision], "previous_response_id": first["id"]});
        let second = client.gathers("gather", answer).await["final"].clone();
        assert!(output_text(&second).ends_with("Done."), "{second:#}");
        let given = sent(&app.model.requests().pop().unwrap());
        let is_rejected = given
            .iter()
            .any(|(role, text)| role == "tool" && text.contains("rejected"));
        assert_eq!(is_rejected, !approve, "{given:#?}");
    }
}

/// Chat Completions have no questions: the words of one are the answer, and the history of the next request has both.
#[tokio::test]
async fn a_question_is_the_text_of_a_completion() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("asker", &["ask_user"]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model
            .script([Reply::tool("ask_user", question()), Reply::text("Blue it is.")]);
        let mut messages = json!([user("paint it")]);
        let asked = client
            .gathers("gatherChat", json!({"model": "asker", "messages": messages}))
            .await;
        let choice = &asked["final"]["choices"][0];
        assert_eq!(
            (&asked["text"], &choice["finish_reason"]),
            (&json!("Which colour?\n- Red\n- Blue"), &json!("stop"))
        );
        let said = json!({"role": "assistant", "content": choice["message"]["content"]});
        messages.as_array_mut().unwrap().extend([said, user("Blue")]);
        let answered = client
            .calls(
                "chat.completions.create",
                json!({"model": "asker", "messages": messages}),
            )
            .await;
        assert_eq!(answered["choices"][0]["message"]["content"], "Blue it is.");
        let given = sent(&app.model.requests().pop().unwrap());
        let has = |role: &str, words: &str| given.iter().any(|(of, text)| of == role && text.contains(words));
        assert!(has("assistant", "Which colour?") && has("user", "Blue"), "{given:#?}");
    }
    // The runs that have asked wait for their user, as any run does.
    let (_, open) = app.client().get("/api/questions?status=pending").await;
    assert_eq!(open["items"].as_array().unwrap().len(), LANGUAGES.len(), "{open:#}");
}

#[tokio::test]
async fn a_completion_calls_a_function_and_uses_its_output() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let function = json!({"name": "get_weather", "description": "The weather of a city.", "strict": true, "parameters": parameters});
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([
            Reply::text("Let me look. ").then_tool("get_weather", json!({"city": "Paris"})),
            Reply::text("It is sunny."),
        ]);
        let mut ask = json!({
            "model": "helper", "messages": [user("weather in Paris?")], "tools": [{"type": "function", "function": function}],
        });
        let first = client.gathers("gatherChat", ask.clone()).await["final"]["choices"][0].clone();
        assert_eq!(first["finish_reason"], "tool_calls", "{first:#}");
        let call = &first["message"]["tool_calls"][0];
        let called = json!({"name": call["function"]["name"], "arguments": call["function"]["arguments"]});
        assert_eq!(
            called,
            json!({"name": "get_weather", "arguments": r#"{"city":"Paris"}"#})
        );
        let calls = json!([{"id": call["id"], "type": "function", "function": called}]);
        ask["messages"].as_array_mut().unwrap().extend([
            json!({"role": "assistant", "content": first["message"]["content"], "tool_calls": calls}),
            json!({"role": "tool", "tool_call_id": call["id"], "content": "clear"}),
        ]);
        let second = client.gathers("gatherChat", ask).await;
        assert!(second["text"].as_str().unwrap().ends_with("It is sunny."), "{second:#}");
        assert_eq!(stored(&app).await.last().unwrap(), "Let me look. \n\nIt is sunny.");
    }
    assert_eq!(app.model.violations(), Vec::<String>::new());
}
