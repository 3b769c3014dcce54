//! Prompts of the workspace's installed products, for MCP clients. Called by the server in `mcp`.

use rejoin_db::rls;
use rejoin_http::problem::Problem;
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::Value;

use super::{Asked, refused};

/// Returns the prompts of manifests; of two with the same name the one of the first product by name.
async fn all(asked: &Asked) -> Result<Vec<Value>, ErrorData> {
    let failed = |error: sqlx::Error| refused(Problem::from(error));
    let mut db = rls::begin(&asked.state.db.pool_sqlx, asked.caller.rls_scope())
        .await
        .map_err(failed)?;
    let products = rejoin_products::list(&mut *db, asked.caller.workspace_id)
        .await
        .map_err(failed)?;
    let mut prompts: Vec<Value> = Vec::new();
    for product in products {
        let Some(Value::Array(its)) = product.manifest.pointer("/mcp/prompts").cloned() else {
            continue;
        };
        for prompt in its {
            if !prompts.iter().any(|one| one["name"] == prompt["name"]) {
                prompts.push(prompt);
            }
        }
    }
    Ok(prompts)
}

fn words<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn arguments(prompt: &Value) -> &[Value] {
    prompt["arguments"].as_array().map(Vec::as_slice).unwrap_or_default()
}

pub async fn list(asked: &Asked) -> Result<Vec<Prompt>, ErrorData> {
    let described = |prompt: &Value| {
        let arguments: Vec<PromptArgument> = arguments(prompt)
            .iter()
            .map(|argument| {
                let mut described = PromptArgument::new(words(argument, "name"));
                described.description = argument["description"].as_str().map(str::to_owned);
                described.required = Some(argument["required"] == Value::Bool(true));
                described
            })
            .collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        Prompt::new(words(prompt, "name"), prompt["description"].as_str(), arguments)
    };
    Ok(all(asked).await?.iter().map(described).collect())
}

pub async fn get(asked: &Asked, name: &str, given: &JsonObject) -> Result<GetPromptResult, ErrorData> {
    let all = all(asked).await?;
    let prompt = all.iter().find(|prompt| words(prompt, "name") == name);
    let prompt = prompt.ok_or_else(|| ErrorData::invalid_params(format!("there is no prompt {name}"), None))?;
    let mut result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, filled(prompt, given)?)]);
    result.description = prompt["description"].as_str().map(str::to_owned);
    Ok(result)
}

/// Replaces `{{argument}}` in a text. Inserted values are not expanded again.
fn filled(prompt: &Value, given: &JsonObject) -> Result<String, ErrorData> {
    for argument in arguments(prompt) {
        let name = words(argument, "name");
        if argument["required"] == Value::Bool(true) && !given.contains_key(name) {
            return Err(ErrorData::invalid_params(
                format!("the argument {name} is missing"),
                None,
            ));
        }
    }
    let mut text = String::new();
    let mut rest = words(prompt, "text");
    while let Some(at) = rest.find("{{") {
        let after = &rest[at + 2..];
        let Some(end) = after.find("}}") else { break };
        let name = after[..end].trim();
        text.push_str(&rest[..at]);
        if arguments(prompt).iter().any(|argument| words(argument, "name") == name) {
            match given.get(name) {
                Some(Value::String(value)) => text.push_str(value),
                Some(other) => text.push_str(&other.to_string()),
                None => {}
            }
        } else {
            // Not one of its arguments: literal text.
            text.push_str(&rest[at..at + 2 + end + 2]);
        }
        rest = &after[end + 2..];
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_filled_in_once_and_required_ones_are_required() {
        let prompt = json!({
            "name": "shop",
            "text": "Buy {{what}} and {{ what }} at {{where}}: {{other}} {{",
            "arguments": [{"name": "what", "required": true}, {"name": "where"}]
        });
        let given = |value: Value| value.as_object().cloned().unwrap();
        let text = filled(&prompt, &given(json!({"what": "{{where}}"}))).unwrap();
        assert_eq!(text, "Buy {{where}} and {{where}} at : {{other}} {{");
        assert!(filled(&prompt, &given(json!({}))).unwrap_err().message.contains("what"));
    }
}
