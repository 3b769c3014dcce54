//! The address of this installation as others use it. Called by settings.

use url::Url;

/// Validates a public URL, such as `https://chat.example`: scheme and host only, since our links append paths.
///
/// # Errors
/// It is not such a URL; a text for the operator.
pub fn parse(text: &str) -> Result<String, String> {
    let wrong = || format!("{text} is not a valid origin; use e.g. https://chat.example");
    let url = Url::parse(text).map_err(|_| wrong())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        assert_eq!(parse("https://chat.example/"), Ok("https://chat.example".to_owned()));
        for wrong in [
            "chat.example",
            "https://chat.example/app",
            "ftp://chat.example",
            "https://a@chat.example",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
