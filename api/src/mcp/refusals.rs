//! Error messages for unknown methods of the protocol: the library would return the bare method name. Called by `mcp`.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;

/// Returns the error of an unknown method.
pub fn unsupported(method: &str) -> ErrorData {
    let message = format!(
        "the method {method} is not supported; this server offers tools (tools/list, tools/call), prompts \
        (prompts/list, prompts/get) and resources (resources/list, resources/templates/list, resources/read)"
    );
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}
