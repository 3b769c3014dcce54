//! Charts of a small table.

use super::*;
use crate::results::{PlotKind, example};

/// Returns whether all tags are balanced.
fn is_well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else {
            return false;
        };
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty()
}

#[test]
fn both_kinds_show_every_median_and_name() {
    for kind in [PlotKind::Bars, PlotKind::Lines] {
        let table = example::table().plot(kind, &["ours", "peer", "limit"], true);
        let svg = Chart::of(&table).unwrap().svg();
        assert!(is_well_formed(&svg), "{svg}");
        for name in [
            "Rejoin",
            "a peer",
            "COPY",
            "10 events",
            "Events a second",
            "1/s (logarithmic scale)",
        ] {
            assert!(svg.contains(&format!(">{name}<")), "{name} is missing: {svg}");
        }
        assert!(
            !svg.contains("<script") && !svg.contains("NaN") && !svg.contains("inf"),
            "{svg}"
        );
    }
}

#[test]
fn a_bar_shows_its_value() {
    let svg = Chart::of(&example::table()).unwrap().svg();
    for value in [">100<", ">10.0<", ">200<", ">1,500<", ">2,000<"] {
        assert!(svg.contains(value), "{value} is missing: {svg}");
    }
}

#[test]
fn columns_of_another_unit_are_left_out() {
    let mut table = example::table();
    table.columns[2].unit = "ms".to_owned();
    let svg = Chart::of(&table).unwrap().svg();
    assert!(svg.contains(">a peer<") && !svg.contains(">COPY<"), "{svg}");
}

#[test]
fn where_nothing_was_measured_nothing_is_drawn() {
    let mut table = example::table();
    table.rows.clear();
    assert!(Chart::of(&table).is_none());
    table.plot = None;
    assert!(Chart::of(&table).is_none());
}

#[test]
fn text_is_escaped_and_wrapped() {
    assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
    assert_eq!(wrap("one two three", 60.0, 12.0), ["one two", "three"]);
}
