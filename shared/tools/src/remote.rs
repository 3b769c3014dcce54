//! Remote tools: functions in users' own programs, which take calls over HTTP. A tool that is remote does not act in this process: a run waits
//! for the program's result without a slot.

use serde_json::Value;

/// Where and how a remote tool is executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// The group of workers that may serve it.
    pub queue: String,
    /// Calls go to workers that serve this version.
    pub version: String,
    /// Maximum duration of one attempt, in seconds.
    pub timeout_s: i32,
    /// The JSON Schema of its output. None: any output.
    pub output_schema: Option<Value>,
    /// A user confirms each call before it is handed out.
    pub confirm: bool,
}
