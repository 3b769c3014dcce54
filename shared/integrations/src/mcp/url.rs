//! The rule for URLs in the settings of an MCP server.

use super::template;

/// Maximum length of a URL, in bytes.
const MAX_BYTES: usize = 4 * 1024;

/// Checks that `field` may have this URL.
pub(super) fn check(field: &str, url: &str) -> Result<(), String> {
    if url.len() > MAX_BYTES {
        return Err(format!("`{field}` is longer than {MAX_BYTES} bytes"));
    }
    template::names(url).map_err(|fault| format!("{field}: {fault}"))?;
    // A reference to a secret may stand for anything.
    let shape = template::filled(url, |_| Some("x".to_owned())).unwrap_or_default();
    match url::Url::parse(&shape) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.host().is_some() => {
            if parsed.username().is_empty() && parsed.password().is_none() {
                Ok(())
            } else {
                Err(format!(
                    "`{field}` contains a password; store it as a secret, and refer to it in `headers` or `oauth`"
                ))
            }
        }
        Ok(_) => Err(format!("`{field}` must start with http:// or https://")),
        Err(error) => Err(format!("`{field}`: {error}")),
    }
}
