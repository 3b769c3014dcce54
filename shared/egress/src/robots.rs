//! robots.txt, by RFC 9309. Called by `fetch`.

use url::Url;

/// Our name for robots.txt, in lower case.
const NAME: &str = "rejoinbot";
/// Maximum size of a file, in bytes: RFC 9309 requires at least 500 KiB.
const MAX_BYTES: usize = 500 * 1024;
/// Maximum number of rules for us.
const MAX_RULES: usize = 2_000;
/// Maximum length of a rule's path, in bytes, and maximum number of its wildcards: matching takes their product.
const PATH_MAX_BYTES: usize = 2_000;
const MAX_STARS: usize = 20;

/// A site's rules for us.
#[derive(Debug, Clone, Default)]
pub struct Robots {
    /// Whether it is allowed, with the pattern of its path.
    rules: std::sync::Arc<[(bool, String)]>,
}

impl Robots {
    /// Allows everything.
    pub fn none() -> Self {
        Self::default()
    }

    /// Disallows everything.
    pub fn all() -> Self {
        Self {
            rules: [(false, "/".to_owned())].into(),
        }
    }

    /// Parses the rules of the groups that name us, else of the general group.
    pub fn parse(text: &str) -> Self {
        let end = (0..=MAX_BYTES.min(text.len()))
            .rev()
            .find(|&at| text.is_char_boundary(at));
        let (mut ours, mut everybodys) = (Vec::new(), Vec::new());
        let mut we_are_named = false;
        // Whether the group applies to us or to all, and whether its names are still being listed.
        let (mut for_us, mut for_all, mut naming) = (false, false, false);
        for line in text[..end.unwrap_or_default()].trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if !naming {
                        (for_us, for_all, naming) = (false, false, true);
                    }
                    let name = value.split('/').next().unwrap_or_default().trim().to_ascii_lowercase();
                    for_us |= name == NAME;
                    for_all |= name == "*";
                    we_are_named |= for_us;
                }
                "allow" | "disallow" => {
                    naming = false;
                    // An empty Disallow forbids nothing.
                    if value.is_empty() || value.len() > PATH_MAX_BYTES || value.matches('*').count() > MAX_STARS {
                        continue;
                    }
                    let rule = (key == "allow", value.to_owned());
                    if for_us && ours.len() < MAX_RULES {
                        ours.push(rule.clone());
                    }
                    if for_all && everybodys.len() < MAX_RULES {
                        everybodys.push(rule);
                    }
                }
                // Sitemaps, delays: they don't end a group's names, and don't concern us.
                _ => {}
            }
        }
        let rules = if we_are_named { ours } else { everybodys };
        Self { rules: rules.into() }
    }

    /// Returns whether a page is allowed: the longest matching pattern decides, and allowing wins ties.
    pub fn allow(&self, url: &Url) -> bool {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let matching = self.rules.iter().filter(|(_, pattern)| is_match(pattern, &path));
        matching
            .max_by_key(|(allowed, pattern)| (pattern.len(), *allowed))
            .is_none_or(|(allowed, _)| *allowed)
    }
}

/// Returns whether a path matches a pattern's prefix: `*` is anything, `$` at the end is the path's end.
fn is_match(pattern: &str, path: &str) -> bool {
    let (pattern, to_the_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    // The last one must be at the end; those between match as early as possible.
    let last = if to_the_end { parts.pop() } else { None };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match (to_the_end, last) {
        (false, _) => true,
        (true, None) => rest.is_empty(),
        (true, Some(last)) => rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(text: &str, path: &str) -> bool {
        Robots::parse(text).allow(&Url::parse(&format!("https://example.com{path}")).unwrap())
    }

    #[test]
    fn our_own_group_counts_and_else_that_of_all() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: Other\nUser-Agent: RejoinBot/1.0 # us\nDisallow: /private\nCrawl-delay: 3\n";
        assert!(allows(text, "/open") && !allows(text, "/private/x"));
        let text = "User-agent: other\nDisallow: /\nUser-agent: *\nDisallow: /closed";
        assert!(allows(text, "/open") && !allows(text, "/closed"));
        assert!(allows("User-agent: *\nDisallow:", "/any") && allows("", "/any") && allows("<html>", "/any"));
        assert!(!Robots::all().allow(&Url::parse("https://example.com/").unwrap()));
    }

    #[test]
    fn the_longest_pattern_decides() {
        let text = "user-agent: *\ndisallow: /a\nallow: /a/b\ndisallow: /*.pdf$\ndisallow: /*?session=\nallow: /same\ndisallow: /same";
        for (path, allowed) in [
            ("/", true),
            ("/a/c", false),
            ("/a/b/c", true),
            ("/x/y.pdf", false),
            ("/x/y.pdf.html", true),
            ("/x?session=1", false),
            ("/same", true),
        ] {
            assert_eq!(allows(text, path), allowed, "{path}");
        }
    }

    #[test]
    fn patterns_match_from_the_beginning() {
        for (pattern, path, matches) in [
            ("/a*b$", "/a-b-b", true),
            ("/a*b$", "/a-b-c", false),
            ("/a$", "/a", true),
            ("/a$", "/ab", false),
            ("/*a*b", "/xaxxbx", true),
            ("b", "/b", false),
            ("*", "/", true),
        ] {
            assert_eq!(is_match(pattern, path), matches, "{pattern} {path}");
        }
    }
}
