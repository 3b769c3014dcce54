//! OpenAI's protocols at Azure: what differs from OpenAI.
//! <https://learn.microsoft.com/en-us/azure/foundry/openai/api-version-lifecycle>

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::plan::Request;
use super::refusal::Refusal;

/// Refusals of the gateway before the model, which have a shape of their own.
const GATEWAY: &str = "gateway";
/// A deployment whose name is not that of its model. All others are named like their models, which the portal suggests.
/// <https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/create-resource>, "Deployment name".
pub const AZURE_DEPLOYMENT: &str = "team-chat";
const DEPLOYED: &str = "gpt-5.2";

/// The page above: a key in `api-key`, or as OpenAI's clients send it; no dated `api-version`, since version 1 has `v1` and `preview` alone.
pub(super) fn key(request: &Request) -> Result<(), Refusal> {
    let given = request
        .header("api-key")
        .or_else(|| request.bearer())
        .unwrap_or_default();
    // <https://learn.microsoft.com/en-us/azure/ai-services/authentication>, "Authenticate with a single-service resource key".
    if given != request.key {
        return Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            GATEWAY,
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active \
             subscription and use a correct regional API endpoint for your resource.",
        )
        .code("401"));
    }
    match request.query.get("api-version").map(String::as_str) {
        None | Some("v1" | "preview") => Ok(()),
        Some(_) => Err(Refusal::new(StatusCode::BAD_REQUEST, GATEWAY, "API version not supported").code("BadRequest")),
    }
}

/// The model behind a deployment's name.
pub(super) fn model_of(deployment: &str) -> &str {
    match deployment {
        AZURE_DEPLOYMENT => DEPLOYED,
        other => other,
    }
}

/// <https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/responses>, "model: your model deployment name".
pub(super) fn unknown_deployment() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        GATEWAY,
        "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please \
         wait a moment and try again.",
    )
    .code("DeploymentNotFound")
}

/// Whether the gateway refuses; the rest has OpenAI's shape.
pub(super) fn is_gateways(refusal: &Refusal) -> bool {
    refusal.kind == GATEWAY
}

pub(super) fn error_body(refusal: &Refusal) -> Value {
    json!({"error": {"code": refusal.code, "message": refusal.message}})
}

/// Before an answer in Chat Completions comes what the content filter found in the prompt, in a chunk without choices.
/// <https://learn.microsoft.com/en-us/azure/foundry/openai/concepts/content-filter>, "Prompt annotation message".
pub(super) fn annotated(of_openai: Vec<String>) -> Vec<String> {
    let safe = json!({"filtered": false, "severity": "safe"});
    let filter = json!({
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
        "prompt_filter_results": [{
            "prompt_index": 0,
            "content_filter_results": {"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe},
        }],
        "choices": [],
    });
    let mut frames = vec![format!("data: {filter}\n\n")];
    frames.extend(of_openai);
    frames
}
