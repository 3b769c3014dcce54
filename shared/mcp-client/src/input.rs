//! Input that a server asks for in the middle of a call (elicitation). Since its revision 2026-07-28, a server answers a
//! call with forms and a state, and the client makes the call again with the answers and the state; a call that the
//! server executes as a task asks by the state of its task. Called by `connection`.
//!
//! Invariant: what a server asks for is read from the answer to a call, so that it is known which run is asked. A
//! request `elicitation/create` of older revisions does not name its call, and is declined.

use rejoin_tools::input::{Connects, Field, Form, InputGiven, InputNeeded};
use rejoin_types::text;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitationCapability, ElicitationSchema, FormElicitationCapability,
    InputRequest, InputRequests, InputResponses,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::redact::Redactor;

/// Maximum size of what a call asks for, with its state, in bytes of JSON: it is stored with the call.
const NEEDED_MAX_BYTES: usize = 256 * 1024;

/// The field of [`InputNeeded::state`] with the server's state of a call.
const CALL: &str = "requestState";
/// The field with the id of a task.
const TASK: &str = "taskId";
/// The field of a call that waits for the user's account: what it was given before, or null. Also the key of its form.
const ACCOUNT: &str = "account";

/// Announces forms.
pub(crate) fn announce(capabilities: &mut ClientCapabilities) {
    let forms = ElicitationCapability::new().with_form(FormElicitationCapability::new());
    capabilities.elicitation = Some(forms);
}

/// What a server wants back with the answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pending {
    /// The call is made again, with this state of the server's.
    Call(Option<String>),
    /// The task with this id goes on.
    Task(String),
}

impl Pending {
    pub(crate) fn of(state: &Value) -> Self {
        if let Some(before) = state.get(ACCOUNT) {
            return Self::of(&before["state"]);
        }
        match state[TASK].as_str() {
            Some(id) => Self::Task(id.to_owned()),
            None => Self::Call(state[CALL].as_str().map(str::to_owned)),
        }
    }

    fn to_state(&self) -> Value {
        match self {
            Self::Call(state) => json!({ CALL: state }),
            Self::Task(id) => json!({ TASK: id }),
        }
    }
}

/// Returns what a call that waits for its user's account asks. `given`: what it was given before.
pub(crate) fn account(
    server: &str,
    arguments: Map<String, Value>,
    given: Option<&InputGiven>,
    message: String,
    connects: Connects,
) -> InputNeeded {
    let before = given.map(|given| json!({"state": given.state, "responses": given.responses}));
    InputNeeded {
        asker: format!("The MCP server {server}"),
        arguments: Value::Object(arguments),
        state: json!({ ACCOUNT: before }),
        forms: vec![Form {
            key: ACCOUNT.to_owned(),
            message,
            fields: Vec::new(),
            connects: Some(connects),
        }],
    }
}

/// What the answers to a call are about.
#[derive(Debug, PartialEq)]
pub(crate) enum Answered {
    /// The server's forms.
    Forms,
    /// The account, which is connected. The call goes on with what it was given before.
    Account(Option<InputGiven>),
    /// The user has declined to connect an account, or has not answered.
    NoAccount,
}

impl Answered {
    pub(crate) fn of(given: &InputGiven) -> Self {
        let Some(before) = given.state.get(ACCOUNT) else {
            return Self::Forms;
        };
        if given
            .responses
            .get(ACCOUNT)
            .is_none_or(|response| response["action"] != "accept")
        {
            return Self::NoAccount;
        }
        Self::Account(before["responses"].as_object().map(|responses| InputGiven {
            state: before["state"].clone(),
            responses: responses.clone(),
        }))
    }
}

/// Returns the answers in the protocol's form.
pub(crate) fn responses(given: &InputGiven) -> InputResponses {
    given
        .responses
        .iter()
        .map(|(key, response)| (key.clone(), response.clone()))
        .collect()
}

/// Returns what the server asks the user for. Err: why that is not possible, for the model.
pub(crate) fn needed(
    server: &str,
    redactor: &Redactor,
    arguments: Map<String, Value>,
    requests: InputRequests,
    pending: &Pending,
) -> Result<InputNeeded, String> {
    let mut forms = Vec::with_capacity(requests.len());
    for (key, request) in requests {
        match request {
            InputRequest::Elicitation(request) => match request.params {
                ElicitRequestParams::FormElicitationParams {
                    message,
                    requested_schema,
                    ..
                } => forms.push(form(key, message, requested_schema, redactor)),
                _ => {
                    return Err(format!(
                        "{server} asks the user to open a web page, which is not supported; use another tool"
                    ));
                }
            },
            _ => {
                return Err(format!(
                    "{server} asks for a model's answer or for folders, which is not supported; use another tool"
                ));
            }
        }
    }
    let needed = InputNeeded {
        asker: format!("The MCP server {server}"),
        arguments: Value::Object(arguments),
        state: pending.to_state(),
        forms,
    };
    let stored = json!(needed);
    let bytes = stored.to_string().len();
    if bytes > NEEDED_MAX_BYTES {
        return Err(format!(
            "{server} asks for input with {bytes} bytes; the maximum is {NEEDED_MAX_BYTES}"
        ));
    }
    // The state must come back as it was.
    if text::has_nul(&stored) {
        return Err(format!(
            "{server} asks for input with the character NUL, which the database does not store"
        ));
    }
    Ok(needed)
}

fn form(key: String, message: String, schema: ElicitationSchema, redactor: &Redactor) -> Form {
    let required = schema.required.unwrap_or_default();
    let mut definitions = schema.properties;
    let mut names = schema.property_order.unwrap_or_default();
    names.extend(definitions.keys().cloned());
    // The map has each name once, so that a repeated one is skipped.
    let fields = names
        .into_iter()
        .filter_map(|name| {
            let definition = definitions.remove(&name)?;
            Some(Field {
                required: required.contains(&name),
                schema: redactor.value(text::plain_json(json!(definition))),
                name,
            })
        })
        .collect();
    Form {
        key,
        message: answer::cut(text::plain(redactor.text(message))),
        fields,
        connects: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: Value) -> Result<InputNeeded, String> {
        let requests: InputRequests = serde_json::from_value(json!({ "guest": request })).unwrap();
        let pending = Pending::Call(Some("sealed".to_owned()));
        needed(
            "crm",
            &Redactor::new(std::iter::empty()),
            Map::new(),
            requests,
            &pending,
        )
    }

    #[test]
    fn a_form_has_required_and_optional_fields() {
        let schema = json!({
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string", "title": "Name"}, "confirm": {"type": "boolean"}},
        });
        let params = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
        let needed = asked(json!({"method": "elicitation/create", "params": params})).unwrap();
        let form = &needed.forms[0];
        assert_eq!((form.key.as_str(), form.message.as_str()), ("guest", "Who?"));
        let fields: Vec<(&str, bool)> = form
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.required))
            .collect();
        assert_eq!(fields, [("name", true), ("confirm", false)]);
        assert_eq!(Pending::of(&needed.state), Pending::Call(Some("sealed".to_owned())));
    }

    #[test]
    fn a_web_page_and_a_models_answer_are_refused() {
        let page = json!({"mode": "url", "message": "Sign in", "url": "https://crm.example/", "elicitationId": "1"});
        let refused = asked(json!({"method": "elicitation/create", "params": page})).unwrap_err();
        assert!(refused.contains("web page"), "{refused}");
        let refused = asked(json!({"method": "roots/list"})).unwrap_err();
        assert!(refused.contains("folders"), "{refused}");
    }

    #[test]
    fn a_call_that_waits_for_an_account_keeps_what_it_was_given() {
        let before = InputGiven {
            state: Pending::Task("7".to_owned()).to_state(),
            responses: json!({"guest": {"action": "accept"}}).as_object().unwrap().clone(),
        };
        let connects = Connects {
            server_id: uuid::Uuid::nil(),
            seen: 0,
        };
        for given in [None, Some(&before)] {
            let needed = account("crm", Map::new(), given, "Connect.".to_owned(), connects.clone());
            let answered = |action: &str| InputGiven {
                state: needed.state.clone(),
                responses: json!({ "account": { "action": action } }).as_object().unwrap().clone(),
            };
            assert_eq!(
                Answered::of(&answered("accept")),
                Answered::Account(given.cloned()),
                "{given:?}"
            );
            assert_eq!(Answered::of(&answered("decline")), Answered::NoAccount);
            let pending = given.map_or(Pending::Call(None), |given| Pending::of(&given.state));
            assert_eq!(Pending::of(&needed.state), pending);
        }
        assert_eq!(Answered::of(&before), Answered::Forms);
    }

    #[test]
    fn a_state_is_that_of_a_call_or_of_a_task() {
        for pending in [
            Pending::Call(None),
            Pending::Call(Some("s".to_owned())),
            Pending::Task("7".to_owned()),
        ] {
            assert_eq!(Pending::of(&pending.to_state()), pending);
        }
    }
}
