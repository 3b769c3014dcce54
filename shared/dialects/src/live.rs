//! For tests of renderers.

use rejoin_sse::dialects::Renderer;
use rejoin_sse::frame::Token;
use serde_json::Value;

/// Renders an event as a reader of a live log is sent it: a piece of an answer without its tree.
pub fn render_live(renderer: &mut impl Renderer, seq: i64, event: &Value, out: &mut Vec<u8>) {
    let text = event.to_string();
    let token = serde_json::from_str::<Token<'_>>(&text).ok();
    let is_rendered = event["type"] == "token" && token.is_some_and(|token| renderer.render_token(seq, &token, out));
    if !is_rendered {
        renderer.render(seq, event, out);
    }
}
