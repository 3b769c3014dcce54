//! The Gemini API, like Google's.

use rejoin_provider_stand_in::{Protocol, Providers, Turn, hello, message_of};
use serde_json::{Value, json};

use super::{GEMINI, merge, refuses, send};

#[tokio::test]
async fn gemini_keeps_to_its_parameters() {
    let declared = |change: Value| {
        let mut tool =
            json!({"name": "search", "parameters": {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}}});
        merge(&mut tool, &change);
        json!({"tools": [{"functionDeclarations": [tool]}]})
    };
    let config = |config: Value| json!({"generationConfig": config});
    let contents = |contents: Value| json!({"contents": contents});
    let part = |part: Value| json!({"contents": [{"role": "user", "parts": [part]}]});
    refuses(
        Protocol::Gemini,
        GEMINI,
        hello(Protocol::Gemini, GEMINI),
        &[
            (json!({"colour": 1}), 400, "Invalid JSON payload received. Unknown name \"colour\": Cannot find field."),
            (config(json!({"warmth": 1})), 400, "Unknown name \"warmth\" at 'generation_config': Cannot find field."),
            (config(json!({"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 100}})), 400, "only one of thinking budget and thinking level"),
            (config(json!({"thinkingConfig": {"thinkingLevel": "MINIMAL"}})), 400, "Thinking level MINIMAL is not supported for this model."),
            (json!({"model": "gemini-2.5-flash", "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}}), 400, "Thinking level is not supported for this model."),
            (config(json!({"maxOutputTokens": 100_000})), 400, "the supported range is from 1 (inclusive) to 65537 (exclusive)"),
            (config(json!({"temperature": 3})), 400, "temperature must be in the range [0.0, 2.0]"),
            (config(json!({"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "additionalProperties": false}})), 400, "Unknown name \"additionalProperties\" at 'generation_config.response_schema': Cannot find field."),
            (config(json!({"responseJsonSchema": {"type": "object"}})), 400, "application/json"),
            (contents(json!([])), 400, "contents is not specified"),
            (contents(json!([{"role": "user", "parts": []}])), 400, "contents.parts must not be empty"),
            (contents(json!([{"role": "assistant", "parts": [{"text": "hi"}]}])), 400, "Please use a valid role: user, model."),
            (contents(json!([{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"text": "hi"}]}])), 400, "end with a user role"),
            (part(json!({"thought": true})), 400, "required oneof field 'data' must have one initialized field"),
            (part(json!({"text": "a", "inlineData": {"mimeType": "image/png", "data": "AA=="}})), 400, "oneof field 'data' is already set"),
            (part(json!({"inlineData": {"mimeType": "image/svg+xml", "data": "AA=="}})), 400, "Unsupported MIME type: image/svg+xml"),
            (json!({"model": "gemma-4-31b-it", "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "audio/mpeg", "data": "AA=="}}]}]}), 400, "Unsupported MIME type: audio/mpeg"),
            (declared(json!({"name": "1search"})), 400, "Invalid function name. Must start with a letter or an underscore."),
            (declared(json!({"parameters": {"$schema": "x"}})), 400, "Unknown name \"$schema\" at 'tools[0].function_declarations[0].parameters': Cannot find field."),
            (declared(json!({"parameters": {"properties": {"q": {"type": ["string", "null"]}}}})), 400, "Proto field is not repeating, cannot start list."),
            (declared(json!({"parameters": {"properties": {"q": {"const": 1, "type": "STRING"}}}})), 400, "Unknown name \"const\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Cannot find field."),
            (declared(json!({"parametersJsonSchema": {"type": "object"}})), 400, "cannot both be set"),
            (json!({"tools": [{"functionDeclarations": [{"name": "a"}, {"name": "a"}]}]}), 400, "Duplicate function declaration found: a"),
            (json!({"tools": [{"functionDeclarations": [{"name": "a"}]}], "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["b"]}}}), 400, "is not one of the declared functions"),
        ],
    )
    .await;
}

#[tokio::test]
async fn gemini_wants_calls_answered_and_signatures_back() {
    let server = Providers::start().await.expect("a stand-in");
    server.script(
        "weather",
        [
            Turn::call("search", json!({"q": "a"})).then_call("count", json!({})),
            Turn::text("done"),
            Turn::text("done"),
        ],
    );
    let user = json!({"role": "user", "parts": [{"text": "weather"}]});
    let tools = json!([{"functionDeclarations": [{"name": "search"}, {"name": "count"}]}]);
    let request = |contents: Value| json!({"contents": contents, "tools": tools});
    let (status, answer) = send(&server, Protocol::Gemini, GEMINI, &request(json!([user]))).await;
    assert_eq!(status, 200, "{answer}");
    let model = answer["candidates"][0]["content"].clone();
    assert!(
        model["parts"][0]["thoughtSignature"].is_string() && model["parts"][1]["thoughtSignature"].is_null(),
        "{model}"
    );
    let response = |index: usize| {
        let call = &model["parts"][index]["functionCall"];
        json!({"functionResponse": {"id": call["id"], "name": call["name"], "response": {"content": "{}"}}})
    };
    let results = json!({"role": "user", "parts": [response(0), response(1)]});
    let ask = async |contents: Value, words: &str| {
        let (status, body) = send(&server, Protocol::Gemini, GEMINI, &request(contents)).await;
        assert_eq!(
            (status, &body["error"]["status"]),
            (400, &json!("INVALID_ARGUMENT")),
            "{body}"
        );
        assert!(message_of(&body).contains(words), "`{words}` is not in {body}");
    };
    let mut unsigned = model.clone();
    unsigned["parts"][0].as_object_mut().unwrap().remove("thoughtSignature");
    ask(
        json!([user, unsigned, results]),
        "Function call is missing a thought_signature in functionCall parts.",
    )
    .await;
    let mut forged = model.clone();
    forged["parts"][0]["thoughtSignature"] = json!("Zm9yZ2Vk");
    ask(json!([user, forged, results]), "Corrupted thought signature.").await;
    let mut other = model.clone();
    other["parts"][0]["functionCall"]["args"] = json!({"q": "b"});
    ask(json!([user, other, results]), "Corrupted thought signature.").await;
    ask(
        json!([user, model, {"role": "user", "parts": [response(0)]}]),
        "number of function response parts is equal",
    )
    .await;
    ask(
        json!([user, {"role": "user", "parts": [response(0)]}]),
        "comes immediately after a function call turn",
    )
    .await;
    ask(
        json!([user, model, model, results]),
        "comes immediately after a user turn",
    )
    .await;
    let mut renamed = results.clone();
    renamed["parts"][0]["functionResponse"]["name"] = json!("count");
    ask(json!([user, model, renamed]), "name and id of each function response").await;

    let mut replaced = model.clone();
    replaced["parts"][0]["thoughtSignature"] = json!("skip_thought_signature_validator");
    let (status, _) = send(
        &server,
        Protocol::Gemini,
        GEMINI,
        &request(json!([user, replaced, results])),
    )
    .await;
    assert_eq!(
        (status, server.losses().len()),
        (200, 1),
        "taken, and the reasoning is lost"
    );
    let (status, body) = send(
        &server,
        Protocol::Gemini,
        GEMINI,
        &request(json!([user, model, results])),
    )
    .await;
    assert_eq!((status, server.losses().len()), (200, 1), "{body}");
    // In an earlier turn it is not checked.
    let past = json!([user, unsigned, results, {"role": "model", "parts": [{"text": "done"}]}, user]);
    let (status, body) = send(&server, Protocol::Gemini, GEMINI, &request(past)).await;
    assert_eq!(status, 200, "{body}");
}
