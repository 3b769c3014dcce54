//! Rules about the documents: every link has a target, every named path below `docs/` exists, and the README of each
//! folder lists its pages. Reads the repository's text; needs nothing else.

use std::collections::{BTreeSet, HashMap};

use super::layout::{root, texts};

/// Returns lines of a Markdown text outside fenced blocks, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence = None;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.trim_start().starts_with(*mark));
        match (fence, mark) {
            (None, None) => lines.push((index + 1, line)),
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
        }
    }
    lines
}

/// Removes code spans from a line. A span that continues on the next line stays.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return line.to_owned();
    }
    parts.into_iter().step_by(2).collect()
}

/// Returns the targets of a line's links: inline links, images, reference definitions, and HTML attributes.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut found = Vec::new();
    for (begin, end) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
        for rest in line.split(begin).skip(1) {
            let target = rest.split(end).next().unwrap_or_default();
            found.push(target.split(' ').next().unwrap_or_default().to_owned());
        }
    }
    if let Some((name, target)) = line.split_once("]: ")
        && name.starts_with('[')
        && !name.contains(']')
    {
        found.push(target.split(' ').next().unwrap_or_default().to_owned());
    }
    found
}

/// Returns links into the repository, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let is_outside =
        |target: &str| target.contains("://") || target.starts_with("mailto:") || target.starts_with("data:");
    prose(text)
        .into_iter()
        .flat_map(|(number, line)| targets(line).into_iter().map(move |target| (number, target)))
        .filter(|(_, target)| !is_outside(target))
        .collect()
}

/// Returns the anchor of a heading, by GitHub's rule.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    // The text of a link counts, its target does not.
    while let Some((before, link)) = rest.split_once("](") {
        text.push_str(before);
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text.trim()
        .to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        })
        .collect()
}

/// The text of a heading.
fn heading(line: &str) -> Option<&str> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| text.trim_end_matches('#').trim())
}

/// Returns the valid fragments of a document. A repeated heading has a number appended.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (_, line) in prose(text) {
        if let Some(heading) = heading(line) {
            let slug = slug(heading);
            let before = times.entry(slug.clone()).or_default();
            anchors.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
            *before += 1;
        }
        let ids = line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(ids.map(str::to_owned));
    }
    anchors
}

/// Resolves a link's path from the root. None: it leaves the repository.
fn resolved(document: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(document.to_owned());
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns paths below `docs/` named from the root, optionally after `../`. Those below another folder or in a URL
/// don't count.
fn named(text: &str) -> Vec<&str> {
    let is_inner = |before: &str| {
        !before.ends_with("../") && before.ends_with(|last: char| last.is_alphanumeric() || "/_-.".contains(last))
    };
    text.match_indices("docs/")
        .filter(|(at, _)| !is_inner(&text[..*at]))
        .map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "/_-.".contains(letter)));
            rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', '-', '/'])
        })
        .collect()
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md")
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let texts = texts("");
    let documents: Vec<&(String, String)> = texts.iter().filter(|(path, _)| is_document(path)).collect();
    let anchors: HashMap<&str, BTreeSet<String>> = documents
        .iter()
        .map(|(path, text)| (path.as_str(), anchors(text)))
        .collect();
    let mut followed = 0;
    let mut broken = Vec::new();
    for (document, text) in &documents {
        for (number, target) in links(text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = resolved(document, path).filter(|file| !path.starts_with('/') && root().join(file).exists());
            let is_there = file.is_some_and(|file| match anchors.get(file.as_str()) {
                Some(anchors) => anchor.is_empty() || anchors.contains(anchor),
                None => true,
            });
            if !is_there {
                broken.push(format!("{document}:{number}: {target}"));
            }
            followed += 1;
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(followed > 400, "only {followed} links were found: are they read?");
}

#[test]
fn every_document_that_is_named_exists() {
    let mut found = 0;
    let mut missing = Vec::new();
    for (file, text) in texts("") {
        // Checksums of applied migrations are stored: their comments can't be updated when a document moves.
        if file.starts_with("migrations/") && file.ends_with(".sql") {
            continue;
        }
        for path in named(&text) {
            found += 1;
            if !root().join(path).exists() {
                missing.push(format!("{file}: {path}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "documents that do not exist:\n{}",
        missing.join("\n")
    );
    assert!(found > 200, "only {found} paths were found: are they read?");
}

#[test]
fn the_readme_of_each_folder_lists_its_pages() {
    let texts = texts("docs");
    for (page, _) in texts.iter().filter(|(path, _)| is_document(path)) {
        let (folder, name) = page.rsplit_once('/').expect("a folder");
        if name == "README.md" {
            continue;
        }
        let index = format!("{folder}/README.md");
        let listed = texts
            .iter()
            .find(|(path, _)| *path == index)
            .unwrap_or_else(|| panic!("{index} is missing"));
        assert!(
            listed.1.contains(&format!("]({name})")),
            "{index} does not list {name}: say which question it answers"
        );
    }
}

#[test]
fn each_decision_is_listed_by_its_title() {
    let texts = texts("docs/decisions");
    let is_list = |path: &str| path.ends_with("/README.md");
    let (_, list) = texts.iter().find(|(path, _)| is_list(path)).expect("the list");
    for (path, text) in texts.iter().filter(|(path, _)| !is_list(path)) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let title = text.lines().next().and_then(heading).expect("a title");
        let (number, words) = title.split_once(": ").expect("a number and a title");
        assert!(name.starts_with(&format!("{number}-")), "{path} is titled {title}");
        let entry = format!("- [{number} {words}]({name})");
        assert!(
            list.lines().any(|line| line == entry),
            "the list of decisions lacks: {entry}"
        );
    }
}

#[test]
fn links_are_found_outside_code_only() {
    let text = "See [a](a.md#b), ![c](c.png \"title\") and `[d](d.md)`.\n\
        ```\n[e](e.md)\n```\n[f]: f.md\n<img src=\"g.svg\"> [h](https://example.com/h)\n";
    let found: Vec<(usize, String)> = links(text);
    let expected: [(usize, &str); 4] = [(1, "a.md#b"), (1, "c.png"), (5, "f.md"), (6, "g.svg")];
    assert_eq!(found, expected.map(|(number, target)| (number, target.to_owned())));
}

#[test]
fn a_heading_has_the_anchor_that_github_gives_it() {
    let text = "# Éa, `b_c`: [d](e.md) & f-g?\n## Same\n## Same\n```\n# not one\n```\n<a id=\"by-hand\"></a>\n";
    let expected = ["by-hand", "same", "same-1", "éa-b_c-d--f-g"];
    assert_eq!(anchors(text), BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn paths_are_named_from_the_root() {
    let text =
        "docs/decisions/README.md, ../docs/guide/. https://example.com/docs/x.md mydocs/x.md (docs/ARCHITECTURE.md).";
    assert_eq!(
        named(text),
        ["docs/decisions/README.md", "docs/guide", "docs/ARCHITECTURE.md"]
    );
    assert_eq!(
        resolved("docs/guide/web-app.md", "../pictures/./chat-dark.png").as_deref(),
        Some("docs/pictures/chat-dark.png")
    );
    assert_eq!(resolved("README.md", "../elsewhere.md"), None);
}
