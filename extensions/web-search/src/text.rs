//! Extracts a page's text for a model. Called by `visit`, on a blocking thread.
//!
//! Invariants: scripts, styles and hidden elements are omitted (as far as tags and `style` attributes tell); a page
//! nested so deeply that a traversal would exhaust a thread's stack is refused first.

use dom_query::{Document, NodeRef};
use dom_smoothie::Readability;
use encoding_rs::{Encoding, UTF_8};

/// Maximum nesting of elements: browsers stop at 512.
const MAX_DEPTH: usize = 512;
/// Maximum number of unclosed tags, checked before parsing: a parser's time grows with their square.
const MAX_OPEN: usize = 2_000;
/// Maximum length of a title, in characters.
const TITLE_MAX_CHARS: usize = 300;
/// Where a page may declare its encoding, in bytes from its beginning.
const META_BYTES: usize = 1_024;

/// Elements that are never visible.
const UNSEEN: &str = "script, style, noscript, template, iframe, object, embed, svg, canvas, dialog:not([open]), [hidden], [aria-hidden='true'], \
                      input[type='hidden'], img[src^='data:']";
/// Hiding styles, without blanks.
const HIDING: [&str; 5] = [
    "display:none",
    "visibility:hidden",
    "font-size:0",
    "opacity:0;",
    "content-visibility:hidden",
];
/// Elements with an optional end tag: opening them again does not nest them.
const ENDS_BY_ITSELF: [&str; 15] = [
    "p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody", "thead", "tfoot", "rp", "rt", "html", "body",
];
const NEVER_ENDS: [&str; 13] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
];

/// The part of a page to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Its main content.
    Reader,
    /// The whole page.
    Raw,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Markdown,
    Text,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    pub title: Option<String>,
    pub content: String,
}

/// Returns whether a media type is HTML; None: it is not supported.
pub fn is_html(content_type: &str) -> Option<bool> {
    match content_type {
        "text/html" | "application/xhtml+xml" => Some(true),
        "text/plain"
        | "text/markdown"
        | "text/x-markdown"
        | "application/json"
        | "text/json"
        | "application/xml"
        | "text/xml"
        | "application/rss+xml"
        | "application/atom+xml" => Some(false),
        kind if kind.ends_with("+json") && kind.starts_with("application/") => Some(false),
        _ => None,
    }
}

/// Decodes a page by the encoding declared in its header or its beginning.
pub fn decoded(body: &[u8], content_type: &str) -> String {
    let charset = |text: &str| {
        let text = text.to_ascii_lowercase();
        let (_, after) = text.split_once("charset=")?;
        let name = after.trim_start_matches(['"', '\'', ' ']);
        let end = name.find(['"', '\'', ';', ' ', '>', '/']).unwrap_or(name.len());
        Encoding::for_label(&name.as_bytes()[..end])
    };
    let beginning = String::from_utf8_lossy(&body[..body.len().min(META_BYTES)]);
    let encoding = charset(content_type).or_else(|| charset(&beginning)).unwrap_or(UTF_8);
    // A byte order mark takes precedence.
    encoding.decode(body).0.into_owned()
}

/// Extracts the text of an HTML page.
///
/// # Errors
/// It is nested too deeply; worded for a model.
pub fn of_html(html: &str, url: &str, mode: Mode, format: Format) -> Result<Readable, String> {
    let too_deep = || "the page's HTML is nested too deeply".to_owned();
    if open_tags(html) > MAX_OPEN {
        return Err(too_deep());
    }
    let document = Document::from(html);
    if depth(&document) > MAX_DEPTH {
        return Err(too_deep());
    }
    drop_unseen(&document);
    let title = document.select("title").first().text();
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = (!title.is_empty()).then(|| title.chars().take(TITLE_MAX_CHARS).collect());
    let main = match mode {
        Mode::Raw => None,
        // A page without an article is returned as a whole.
        Mode::Reader => Readability::with_document(document.clone(), Some(url), None)
            .and_then(|mut reader| reader.parse())
            .ok()
            .map(|article| Document::from(article.content)),
    };
    let shown = main.as_ref().unwrap_or(&document);
    let content = match format {
        Format::Text => match shown.body() {
            Some(body) => body.formatted_text().to_string(),
            None => shown.formatted_text().to_string(),
        },
        Format::Markdown => shown.md(Some(&["head", "title"])).to_string(),
    };
    Ok(Readable {
        title,
        content: content.trim().to_owned(),
    })
}

/// Returns the maximum number of simultaneously open tags, without parsing, ignoring optional end tags.
fn open_tags(html: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for tag in html.split('<').skip(1) {
        let (ends, tag) = match tag.strip_prefix('/') {
            Some(tag) => (true, tag),
            None => (false, tag),
        };
        let end = tag
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(tag.len());
        let name = tag[..end].to_ascii_lowercase();
        if name.is_empty() || ENDS_BY_ITSELF.contains(&name.as_str()) || NEVER_ENDS.contains(&name.as_str()) {
            continue;
        }
        open = if ends { open.saturating_sub(1) } else { open + 1 };
        most = most.max(open);
    }
    most
}

/// Returns the maximum nesting of elements, without recursion.
fn depth(document: &Document) -> usize {
    let mut deepest = 0;
    let mut left: Vec<(NodeRef, usize)> = vec![(document.root(), 0)];
    while let Some((node, depth)) = left.pop() {
        deepest = deepest.max(depth);
        left.extend(node.children_it(false).map(|child| (child, depth + 1)));
    }
    deepest
}

fn drop_unseen(document: &Document) {
    document.select(UNSEEN).remove();
    for node in document.select("[style]").nodes() {
        let style: String = node.attr("style").unwrap_or_default().to_ascii_lowercase();
        let style: String = style.chars().filter(|c| !c.is_whitespace()).chain([';']).collect();
        if HIDING.iter().any(|hides| style.contains(hides)) {
            node.remove_from_parent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!doctype html><html><head><title> A  page </title><style>p{}</style></head><body>
        <nav><a href='/home'>Home</a></nav>
        <article><h1>Heading</h1><p>The first paragraph, with <b>bold</b> words, and <a href='/more'>a link</a>. It is long enough to be
        what the page is about, and so it goes on for a while, with commas, and more commas, and yet another sentence.</p>
        <p>A second paragraph, that goes on in the same manner, with commas, and words, so that a reader takes both for an article.</p>
        <p style='display: none'>hidden one</p><p hidden>hidden two</p><div aria-hidden='true'>hidden three</div>
        <p style='FONT-SIZE:0px'>hidden four</p><script>alert(1)</script><noscript>hidden five</noscript><!-- hidden six --></article>
        </body></html>";

    /// Requirements: E09.
    #[test]
    fn a_page_becomes_markdown_without_its_invisible_parts() {
        let read = of_html(PAGE, "https://example.com/x", Mode::Reader, Format::Markdown).unwrap();
        assert_eq!(read.title.as_deref(), Some("A page"));
        assert!(read.content.contains("**bold**"), "{}", read.content);
        assert!(read.content.contains("(https://example.com/more)"), "{}", read.content);
        for absent in ["hidden", "alert", "Home"] {
            assert!(!read.content.contains(absent), "{absent}: {}", read.content);
        }
        let raw = of_html(PAGE, "https://example.com/x", Mode::Raw, Format::Text).unwrap();
        assert!(raw.content.contains("Home") && raw.content.contains("second paragraph"));
        assert!(
            !raw.content.contains("hidden") && !raw.content.contains('<'),
            "{}",
            raw.content
        );
    }

    #[test]
    fn an_endlessly_nested_page_is_refused_and_a_long_one_is_not() {
        for nested in [
            "<div>".repeat(400_000),
            "<b><p>".repeat(200_000),
            "<table><td>".repeat(100_000),
        ] {
            let read = of_html(&nested, "https://example.com/", Mode::Reader, Format::Markdown);
            assert!(read.unwrap_err().contains("too deeply"));
        }
        let long = format!("<ul>{}</ul>", "<li>one<br>".repeat(20_000));
        let read = of_html(&long, "https://example.com/", Mode::Raw, Format::Markdown).unwrap();
        assert_eq!(read.content.matches("one").count(), 20_000);
        // The maximum depth.
        let deep = format!("{}deep{}", "<div>".repeat(500), "</div>".repeat(500));
        let read = of_html(&deep, "https://example.com/", Mode::Raw, Format::Markdown).unwrap();
        assert_eq!(read.content, "deep");
    }

    #[test]
    fn characters_are_read_as_they_are_written() {
        assert_eq!(decoded(b"caf\xe9", "text/html; charset=ISO-8859-1"), "café");
        assert_eq!(
            decoded(b"<meta charset='windows-1252'>caf\xe9", "text/html"),
            "<meta charset='windows-1252'>café"
        );
        assert_eq!(decoded("café".as_bytes(), "text/plain"), "café");
        assert_eq!(decoded(b"\xff\xfea\0", "text/plain"), "a");
        assert_eq!(decoded(b"caf\xe9", "text/html; charset=nonsense"), "caf\u{fffd}");
    }

    #[test]
    fn types_that_hold_no_text_are_not_read() {
        assert_eq!(is_html("text/html"), Some(true));
        assert_eq!(is_html("application/ld+json"), Some(false));
        for kind in [
            "",
            "image/png",
            "application/octet-stream",
            "application/pdf",
            "text/javascript",
        ] {
            assert_eq!(is_html(kind), None, "{kind}");
        }
    }
}
