//! Input that a tool asks its user for in the middle of a call: forms, which the caller puts to the user, and the
//! answers, with which the call is made again. Only a run can ask.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// What a tool needs before its call can go on. Nothing of the call is in progress meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputNeeded {
    /// The program that asks, in words for the user, such as `The MCP server crm`.
    pub asker: String,
    /// The arguments of the call, with which it is made again.
    pub arguments: Value,
    /// What the tool wants back with the answers. Only the tool reads it.
    pub state: Value,
    pub forms: Vec<Form>,
}

/// A form for the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Form {
    /// The tool's name for the form, unique in the call.
    pub key: String,
    /// Why it asks, for the user.
    pub message: String,
    /// Empty: the user only agrees or declines.
    pub fields: Vec<Field>,
    /// The account that the user is to connect meanwhile; the form is accepted when that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connects: Option<Connects>,
}

/// An account of the user at an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connects {
    pub server_id: Uuid,
    /// When the user had agreed last, in microseconds since 1970, as the tool has seen it. 0: never.
    pub seen: i64,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    pub name: String,
    pub required: bool,
    /// The JSON Schema of its value: a text, a number, a boolean, or a choice.
    pub schema: Value,
}

/// The user's answers to all forms of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct InputGiven {
    /// [`InputNeeded::state`], unchanged.
    pub state: Value,
    /// By the keys of the forms: `{"action": "accept", "content": {…}}`, `{"action": "decline"}` or
    /// `{"action": "cancel"}`.
    pub responses: Map<String, Value>,
}
