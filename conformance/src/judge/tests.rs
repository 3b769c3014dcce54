//! Verdicts on texts, readers and effects.

use super::*;
use crate::reader::Arrival;
use crate::script::word;
use crate::view::View;

fn script() -> Script {
    Script::with_call("s", 6, 0)
}

/// Words of an attempt of step 0, and all of step 1.
fn shown(pieces: &[(usize, std::ops::RangeInclusive<usize>)]) -> String {
    let first = pieces
        .iter()
        .flat_map(|(attempt, numbers)| numbers.clone().map(|number| word(*attempt, 0, number)));
    first.chain((1..=6).map(|number| word(0, 1, number))).collect()
}

fn verdict(shown: &str) -> Verdict {
    text(&script(), shown, Expect::Whole).verdict
}

#[test]
fn each_word_once_is_exact() {
    assert_eq!(verdict(&shown(&[(0, 1..=6)])), Verdict::Exact);
    assert_eq!(
        verdict(&shown(&[(2, 1..=6)])),
        Verdict::Exact,
        "the answer of a later attempt"
    );
    assert_eq!(
        verdict(&shown(&[(0, 1..=6)]).replace(' ', "\n\n")),
        Verdict::Exact,
        "space does not count"
    );
}

#[test]
fn words_that_are_shown_twice_are_duplicated() {
    let judgement = text(&script(), &shown(&[(0, 1..=3), (1, 1..=6)]), Expect::Whole);
    assert_eq!(judgement.verdict, Verdict::Duplicated);
    assert_eq!(judgement.details, ["step 0: 3 words (1, 2, 3) shown more than once"]);
}

#[test]
fn words_that_are_missing_are_lost() {
    assert_eq!(verdict(&shown(&[(0, 1..=4)])), Verdict::Lost);
    assert_eq!(
        verdict(&shown(&[(0, 1..=2), (0, 5..=6), (0, 3..=4)])),
        Verdict::Lost,
        "in the wrong order"
    );
    assert_eq!(
        verdict(&shown(&[(0, 1..=3), (1, 4..=6)])),
        Verdict::Lost,
        "a splice of two answers"
    );
    assert_eq!(
        verdict(&shown(&[(0, 1..=6)]).replacen('é', "\u{fffd}", 1)),
        Verdict::Lost,
        "a damaged character"
    );
    assert_eq!(verdict(""), Verdict::Lost);
}

#[test]
fn a_cancelled_turn_shows_the_beginning() {
    let beginning: String = (1..=3).map(|number| word(0, 0, number)).collect();
    assert_eq!(text(&script(), &beginning, Expect::Beginning).verdict, Verdict::Exact);
    assert_eq!(text(&script(), "", Expect::Beginning).verdict, Verdict::Exact);
    assert_eq!(
        text(&script(), &word(0, 0, 2), Expect::Beginning).verdict,
        Verdict::Lost
    );
}

fn reader(raw: &str) -> Read {
    let mut view = View::default();
    view.raw = raw.to_owned();
    view.stored = Some(shown(&[(1, 1..=6)]));
    view.ended = Some(End::Completed);
    view.terminals = 1;
    Read {
        name: "reader".to_owned(),
        view,
        ..Read::default()
    }
}

fn judged(reader: &Read) -> Verdict {
    read(&script(), reader, Expect::Whole).verdict
}

#[test]
fn what_the_products_rules_took_back_does_not_count() {
    assert_eq!(judged(&reader(&shown(&[(1, 1..=6)]))), Verdict::Exact);
    assert_eq!(
        judged(&reader(&shown(&[(0, 1..=3), (1, 1..=6)]))),
        Verdict::ExactByRules
    );
}

#[test]
fn hangs_errors_and_second_ends_are_found() {
    let good = reader(&shown(&[(1, 1..=6)]));
    let mut hung = good.clone();
    hung.is_hung = true;
    hung.view.ended = None;
    assert_eq!(judged(&hung), Verdict::Hang);
    let mut failed = good.clone();
    failed.view.ended = Some(End::Failed);
    assert_eq!(judged(&failed), Verdict::Error);
    let mut endless = good.clone();
    endless.view.ended = None;
    assert_eq!(judged(&endless), Verdict::Error);
    let mut twice = good;
    twice.view.terminals = 2;
    assert_eq!(judged(&twice), Verdict::Duplicated);
}

#[test]
fn effects_are_counted() {
    let of = |count, result: Option<&str>| {
        let left = Effect {
            call: "s:0".to_owned(),
            count,
            result: result.map(str::to_owned),
        };
        effect(&left, true).verdict
    };
    assert_eq!(of(1, Some("{\"done\":\"s:0\"}")), Verdict::Exact);
    assert_eq!(of(2, Some("{\"done\":\"s:0\"}")), Verdict::EffectTwice);
    assert_eq!(of(0, Some("the outcome is unknown")), Verdict::Exact, "the model knows");
    assert_eq!(of(0, Some("{\"done\":\"s:0\"}")), Verdict::EffectLost);
    assert_eq!(of(0, None), Verdict::EffectLost);
}

#[test]
fn a_gap_in_promised_numbers_is_a_loss() {
    let mut read = reader("");
    read.view.cursors = ["3", "4", "6"].map(str::to_owned).to_vec();
    assert_eq!(gapless(&read).verdict, Verdict::Lost);
    read.view.cursors = ["3", "4", "5"].map(str::to_owned).to_vec();
    assert_eq!(gapless(&read).verdict, Verdict::Exact);
}

#[test]
fn going_on_begins_with_a_word_that_was_said_after_the_fault() {
    fn arrive(read: &mut Read, at_ms: u64, text: &str) {
        read.view.raw += text;
        let raw_bytes = read.view.raw.len();
        read.arrivals.push(Arrival { at_ms, raw_bytes });
    }
    let mut read = reader("");
    arrive(&mut read, 10, &word(0, 0, 1));
    // The fault, at 20: the second word was said, and is on its way.
    arrive(&mut read, 30, &word(0, 0, 2));
    let said = words_of(&(word(0, 0, 1) + &word(0, 0, 2))).into_iter().collect();
    assert_eq!(goes_on(&read, 20, &said), None);
    // Another attempt begins with the same number.
    arrive(&mut read, 1_500, &word(1, 0, 1));
    assert_eq!(goes_on(&read, 20, &said), Some(1_480));
}
