//! Commands of the manual's pages, which tests execute as they are written there.

use std::path::Path;

/// Returns the text of a page, such as `docs/operations/poolers.md`.
pub fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the blocks of a page in this language (` ```sh `), in their order.
pub fn blocks(name: &str, language: &str) -> Vec<String> {
    let blocks = blocks_of(&page(name), language);
    assert!(!blocks.is_empty(), "{name} has no block of {language}");
    blocks
}

/// Returns the only block of a page in this language that contains `words`.
pub fn block_with(name: &str, language: &str, words: &str) -> String {
    let mut found = blocks(name, language);
    found.retain(|block| block.contains(words));
    assert_eq!(found.len(), 1, "{name}: blocks of {language} with {words}");
    found.remove(0)
}

fn blocks_of(text: &str, language: &str) -> Vec<String> {
    let begins = format!("```{language}");
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match &mut open {
            Some(_) if line.trim_end() == "```" => blocks.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
            None if line.trim_end() == begins => open = Some(String::new()),
            None => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_their_language() {
        let text = "a\n```sh\none\ntwo\n```\n```sql\nselect\n```\n```sh\nthree\n```\n";
        assert_eq!(blocks_of(text, "sh"), ["one\ntwo\n", "three\n"]);
        assert_eq!(blocks_of(text, "sql"), ["select\n"]);
        assert!(blocks_of(text, "ini").is_empty());
    }
}
