//! The providers' own clients work with the fake providers.

use rejoin_provider_stand_in::{
    ANTHROPIC_KEY, AZURE_KEY, BEDROCK_KEY, GEMINI_KEY, OPENAI_KEY, OPENROUTER_KEY, Providers, Turn, VERTEX_KEY,
    VERTEX_PROJECT,
};
use rejoin_tests::needs;
use serde_json::json;

/// The providers' own clients: streamed texts, a tool and its result with signatures, structured output.
#[tokio::test]
async fn the_providers_own_clients_work_with_it() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".cache/model-clients/venv/bin/python");
    if !root.join(".cache/model-clients/requirements.txt").exists() {
        needs::skip("the clients of model providers are not installed (scripts/setup-clients.sh)");
        return;
    }
    let server = Providers::start().await.expect("a stand-in");
    for protocol in ["chat", "responses", "messages", "gemini"] {
        server.script(
            &format!("{protocol} text"),
            [Turn::text("one two three").reasoning("Counting.")],
        );
        server.script(
            &format!("{protocol} tool"),
            [
                Turn::call("search", json!({"q": "libssl3"})).reasoning("Let me look."),
                Turn::text("It is there.").reasoning("Found."),
            ],
        );
        server.script(
            &format!("{protocol} object"),
            [Turn::text(json!({"name": "libssl3", "size": 3}).to_string())],
        );
    }
    for service in ["azure", "vertex"] {
        server.script(
            &format!("{service} text"),
            [Turn::text("one two three").reasoning("Counting.")],
        );
    }
    for service in ["openrouter", "bedrock", "ollama"] {
        server.script(
            &format!("{service} tool"),
            [
                Turn::call("search", json!({"q": "libssl3"})).reasoning("Let me look."),
                Turn::text("It is there.").reasoning("Found."),
            ],
        );
    }
    let output = tokio::process::Command::new(python)
        .arg(root.join("tests/model-clients/clients.py"))
        // The clients read more variables than these.
        .env_clear()
        .env("OPENAI_BASE_URL", server.openai_url())
        .env("OPENAI_API_KEY", OPENAI_KEY)
        .env("ANTHROPIC_BASE_URL", server.anthropic_url())
        .env("ANTHROPIC_API_KEY", ANTHROPIC_KEY)
        .env("GOOGLE_GEMINI_BASE_URL", server.gemini_url().trim_end_matches("/v1beta"))
        .env("GEMINI_API_KEY", GEMINI_KEY)
        .env("AZURE_URL", server.url())
        .env("AZURE_KEY", AZURE_KEY)
        .env("OPENROUTER_URL", server.openrouter_url())
        .env("OPENROUTER_KEY", OPENROUTER_KEY)
        .env("VERTEX_URL", server.url())
        .env("VERTEX_PROJECT", VERTEX_PROJECT)
        .env("VERTEX_TOKEN", VERTEX_KEY)
        .env("BEDROCK_URL", server.url())
        .env("BEDROCK_KEY", BEDROCK_KEY)
        .env("OLLAMA_URL", server.url())
        .output()
        .await
        .expect("Python starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{failed}");
    assert_eq!(server.refusals(), []);
    assert_eq!(server.losses(), Vec::<String>::new());
    assert_eq!(server.left(), 0, "{printed}");
}
