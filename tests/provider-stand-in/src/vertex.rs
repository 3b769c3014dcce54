//! Gemini's and Anthropic's protocols at Vertex AI: what differs from the Gemini API, and from Anthropic.
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::ledger::Ledger;
use super::messages;
use super::plan::{Plan, Request, bad_request, list};
use super::refusal::Refusal;

/// The project that the tokens are for.
pub const VERTEX_PROJECT: &str = "standin-project";

const INVALID: &str = "INVALID_ARGUMENT";
const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
const DENIED: &str = "PERMISSION_DENIED";
const NOT_FOUND: &str = "NOT_FOUND";
/// <https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai>: "must be set to the value vertex-2023-10-16".
const ANTHROPIC_VERSION: &str = "vertex-2023-10-16";

/// <https://cloud.google.com/docs/authentication/rest>: an access token as a bearer. The project is one of the caller's:
/// <https://cloud.google.com/vertex-ai/generative-ai/docs/access-control>.
pub(super) fn key(request: &Request) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::new(StatusCode::UNAUTHORIZED, UNAUTHENTICATED, message));
    match request.bearer() {
        None | Some("") => {
            return refuse(
                "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other \
                 valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
            );
        }
        Some(token) if token != request.key => {
            return refuse(
                "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid \
                 authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
            );
        }
        Some(_) => {}
    }
    match request.project.as_deref() {
        Some(VERTEX_PROJECT) => Ok(()),
        other => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            DENIED,
            format!(
                "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/{}' (or it \
                 may not exist).",
                other.unwrap_or_default()
            ),
        )),
    }
}

/// The page above, on `Content`: `role` is required. Calls have no ids, and so their responses have none:
/// <https://reference.rnfirebase.io/_react-native-firebase/ai/FunctionCall.html>, on `id`: "only supported in the Gemini Developer API".
pub(super) fn check_gemini(body: &Value) -> Result<(), Refusal> {
    for (index, content) in list(body, "contents").iter().enumerate() {
        if !matches!(content["role"].as_str(), Some("user" | "model")) {
            return Err(bad_request(INVALID, "Please use a valid role: user, model."));
        }
        for (position, part) in list(content, "parts").iter().enumerate() {
            for field in ["functionCall", "functionResponse"] {
                if part[field].get("id").is_some_and(|id| !id.is_null()) {
                    let at = format!("contents[{index}].parts[{position}].{field}");
                    return Err(bad_request(
                        INVALID,
                        format!("Invalid JSON payload received. Unknown name \"id\" at '{at}': Cannot find field."),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/api-errors>: 404 `NOT_FOUND`.
pub(super) fn unknown_model(request: &Request, name: &str) -> Refusal {
    let project = request.project.as_deref().unwrap_or_default();
    Refusal::new(
        StatusCode::NOT_FOUND,
        NOT_FOUND,
        format!(
            "Publisher Model `projects/{project}/models/{name}` was not found or your project does not have access to it. Please \
             ensure you are using a valid model version."
        ),
    )
}

/// Claude: <https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai>, "the model is not passed in the request body",
/// and `anthropic_version` is passed there.
pub(super) fn check_messages(request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
    key(request)?;
    let invalid = |message: &str| Err(bad_request("invalid_request_error", message));
    match request.body["anthropic_version"].as_str() {
        Some(ANTHROPIC_VERSION) => {}
        Some(_) => return invalid("anthropic_version: Invalid value"),
        None => return invalid("anthropic_version: Field required"),
    }
    if !request.body["model"].is_null() {
        return invalid("model: Extra inputs are not permitted");
    }
    let name = request.model.as_deref().unwrap_or_default();
    let mut body = request.body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove("anthropic_version");
        members.insert("model".to_owned(), json!(name));
    }
    let plan = messages::checked(request.service, &body, request.today, ledger).map_err(|refusal| {
        if refusal.status == StatusCode::NOT_FOUND {
            unknown_model(request, name)
        } else {
            refusal
        }
    })?;
    Ok(Plan {
        // `stream` is written twice: in the path, which decides, and in the body.
        stream: request.streams == Some(true),
        ..plan
    })
}

/// Whether Google refuses, in its shape; what Claude refuses has Anthropic's.
pub(super) fn is_googles(refusal: &Refusal) -> bool {
    matches!(refusal.kind, UNAUTHENTICATED | DENIED | NOT_FOUND)
}
