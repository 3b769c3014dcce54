//! Normalizes file names: removes paths and characters that change how they are displayed.

/// Maximum length of a file's name, in characters.
pub const NAME_MAX_CHARS: usize = 200;
/// Maximum length of the extension kept when a name is truncated, in characters.
const EXTENSION_MAX_CHARS: usize = 20;
/// The name of a file whose own name has no usable characters.
const NAMELESS: &str = "file";

/// Returns the name without its path, control characters, and characters that change the direction of text.
pub fn clean(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last
        .chars()
        .filter(|char| !char.is_control() && !is_invisible(*char))
        .collect();
    let kept = kept.trim().trim_start_matches('.').trim();
    if kept.is_empty() {
        return NAMELESS.to_owned();
    }
    if kept.chars().count() <= NAME_MAX_CHARS {
        return kept.to_owned();
    }
    let extension = kept
        .rsplit_once('.')
        .map(|(_, extension)| extension)
        .filter(|extension| extension.chars().count() <= EXTENSION_MAX_CHARS)
        .map(|extension| format!(".{extension}"))
        .unwrap_or_default();
    let room = NAME_MAX_CHARS - extension.chars().count();
    kept.chars().take(room).chain(extension.chars()).collect()
}

/// Direction marks, joiners and the like: a name must look like what it is.
fn is_invisible(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{061c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_path_and_nothing_that_hides_its_end() {
        for (given, name) in [
            ("photo.png", "photo.png"),
            ("../../etc/passwd", "passwd"),
            (r"C:\Users\ann\notes.txt", "notes.txt"),
            ("a\r\nSet-Cookie: x.txt", "aSet-Cookie: x.txt"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("..", "file"),
            ("dir/", "file"),
            (".hidden", "hidden"),
            ("  ", "file"),
            ("naïve 🦀.md", "naïve 🦀.md"),
        ] {
            assert_eq!(clean(given), name, "{given:?}");
        }
        let long = clean(&format!("{}.png", "a".repeat(500)));
        assert_eq!(long.chars().count(), NAME_MAX_CHARS);
        assert!(long.ends_with("a.png"));
    }
}
