//! Decides on what readers have seen, on what is stored and on what tools did. Called by `play` and `special`.

use std::collections::HashSet;

use crate::reader::Read;
use crate::script::{Script, Word, words_of};
use crate::stream_rules::End;
use crate::verdict::{Judgement, Verdict};

/// How many words are named in a reason.
const NAMED: usize = 6;

/// What a turn should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// All words, and the end.
    Whole,
    /// The first words, however many, and the end.
    Beginning,
}

/// What a call of a tool has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub call: String,
    pub count: usize,
    /// What the model was given as the result, if it was asked again.
    pub result: Option<String>,
}

/// Judges a text.
pub fn text(script: &Script, shown: &str, expect: Expect) -> Judgement {
    let words = words_of(shown);
    let mut judgement = Judgement::default();
    let strange = words.iter().filter(|word| matches!(word, Word::Strange)).count();
    if strange > 0 {
        let tail: String = shown
            .chars()
            .rev()
            .take(60)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        judgement.find(
            Verdict::Lost,
            format!("{strange} words that the model did not say, at …{tail:?}"),
        );
    }
    let mut place = 0;
    for (step, planned) in script.steps.iter().enumerate() {
        let numbers: Vec<(usize, usize)> = words.iter().filter_map(|word| of_step(*word, step)).collect();
        judgement.merge(judge_step(step, planned.words, &numbers, expect));
        place += numbers.len();
    }
    let beyond = words.len() - strange - place;
    if beyond > 0 {
        judgement.find(
            Verdict::Lost,
            format!("{beyond} words of steps that the script does not have"),
        );
    }
    let steps: Vec<usize> = words.iter().filter_map(|word| step_of(*word)).collect();
    if judgement.verdict.is_good() && !steps.is_sorted() {
        judgement.find(Verdict::Lost, "the steps are in the wrong order");
    }
    judgement
}

fn step_of(word: Word) -> Option<usize> {
    match word {
        Word::Known { step, .. } => Some(step),
        Word::Strange => None,
    }
}

/// The attempt and the number of a word of a step.
fn of_step(word: Word, wanted: usize) -> Option<(usize, usize)> {
    match word {
        Word::Known { attempt, step, number } if step == wanted => Some((attempt, number)),
        Word::Known { .. } | Word::Strange => None,
    }
}

fn judge_step(step: usize, planned: usize, words: &[(usize, usize)], expect: Expect) -> Judgement {
    let mut judgement = Judgement::default();
    let mut counts = vec![0_usize; planned + 1];
    for (_, number) in words {
        if let Some(count) = counts.get_mut(*number) {
            *count += 1;
        }
    }
    let twice: Vec<usize> = (1..=planned).filter(|number| counts[*number] > 1).collect();
    if !twice.is_empty() {
        judgement.find(
            Verdict::Duplicated,
            format!("step {step}: {} shown more than once", named(&twice)),
        );
    }
    let wanted = match expect {
        Expect::Whole => planned,
        Expect::Beginning => words.iter().map(|(_, number)| *number).max().unwrap_or_default(),
    };
    let missing: Vec<usize> = (1..=wanted.min(planned))
        .filter(|number| counts[*number] == 0)
        .collect();
    if !missing.is_empty() {
        judgement.find(Verdict::Lost, format!("step {step}: {} missing", named(&missing)));
    }
    let mut attempts: Vec<usize> = words.iter().map(|(attempt, _)| *attempt).collect();
    attempts.sort_unstable();
    attempts.dedup();
    if attempts.len() > 1 && judgement.verdict.is_good() {
        judgement.find(
            Verdict::Lost,
            format!(
                "step {step}: one text of {} answers of the model, which never said it",
                attempts.len()
            ),
        );
    }
    let is_in_order = words.iter().map(|(_, number)| number).is_sorted();
    if !is_in_order && judgement.verdict.is_good() {
        judgement.find(Verdict::Lost, format!("step {step}: the words are in the wrong order"));
    }
    judgement
}

fn named(numbers: &[usize]) -> String {
    let first: Vec<String> = numbers.iter().take(NAMED).map(usize::to_string).collect();
    let more = if numbers.len() > NAMED { ", …" } else { "" };
    format!("{} words ({}{more})", numbers.len(), first.join(", "))
}

/// Judges what a reader has seen.
pub fn read(script: &Script, read: &Read, expect: Expect) -> Judgement {
    let view = &read.view;
    let mut judgement = Judgement::default();
    let name = &read.name;
    if read.is_hung {
        let words = words_of(&view.raw).len();
        judgement.find(Verdict::Hang, format!("{name}: nothing came after {words} words"));
    }
    for error in &view.errors {
        judgement.find(Verdict::Error, format!("{name}: {error}"));
    }
    match (view.ended, expect) {
        (None, _) if judgement.verdict.is_good() => {
            judgement.find(Verdict::Error, format!("{name}: the turn has no end"));
        }
        (Some(End::Failed), _) => judgement.find(Verdict::Error, format!("{name}: the turn has failed")),
        (Some(End::Cancelled), Expect::Whole) => {
            judgement.find(
                Verdict::Error,
                format!("{name}: the turn was cancelled, and was not asked to be"),
            );
        }
        (None | Some(End::Completed | End::Cancelled), _) => {}
    }
    if view.terminals > 1 {
        judgement.find(
            Verdict::Duplicated,
            format!("{name}: the turn has ended {} times", view.terminals),
        );
    }
    if view.late > 0 {
        judgement.find(
            Verdict::Duplicated,
            format!("{name}: {} frames with text after the end", view.late),
        );
    }
    let of_text = text(script, &view.text(), expect);
    // A hang or an error is the cause of what is missing.
    if judgement.verdict.is_good() || of_text.verdict == Verdict::Duplicated {
        let details = of_text
            .details
            .iter()
            .map(|detail| format!("{name}: {detail}"))
            .collect();
        judgement.merge(Judgement { details, ..of_text });
    }
    if judgement.verdict == Verdict::Exact && !text(script, &view.raw, expect).verdict.is_good() {
        judgement.verdict = Verdict::ExactByRules;
    }
    judgement
}

/// Judges the stored answer of a completed turn.
pub fn stored(script: &Script, stored: &str) -> Judgement {
    let found = text(script, stored, Expect::Whole);
    let details = found.details.iter().map(|detail| format!("stored: {detail}")).collect();
    Judgement { details, ..found }
}

/// Judges effects. `must_act` is false where a turn was cancelled.
pub fn effect(effect: &Effect, must_act: bool) -> Judgement {
    let call = &effect.call;
    if effect.count > 1 {
        return Judgement::of(Verdict::EffectTwice, format!("{call} has acted {} times", effect.count));
    }
    if effect.count == 1 || !must_act {
        return Judgement::default();
    }
    // What the tool itself returns when it has acted, however it is quoted.
    let plain = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    let claim = plain(&format!("done{call}"));
    let claims = effect
        .result
        .as_ref()
        .is_some_and(|result| plain(result).contains(&claim));
    match &effect.result {
        Some(result) if !claims => Judgement {
            verdict: Verdict::Exact,
            details: vec![format!("{call} has not acted, and the model knows: {result}")],
        },
        Some(_) => Judgement::of(
            Verdict::EffectLost,
            format!("{call} has not acted, and the model was given a result"),
        ),
        None => Judgement::of(
            Verdict::EffectLost,
            format!("{call} has not acted, and the model was not asked again"),
        ),
    }
}

/// Milliseconds from a fault until the reader has a word that the model said after it. None: no such word came.
pub fn goes_on(read: &Read, fault_ms: u64, said: &HashSet<Word>) -> Option<u64> {
    let is_new = |word: &Word| *word != Word::Strange && !said.contains(word);
    let mut after = read.arrivals.iter().filter(|arrival| arrival.at_ms >= fault_ms);
    let found = after.find(|arrival| {
        let shown = read.view.raw.get(..arrival.raw_bytes).unwrap_or_default();
        words_of(shown).iter().any(is_new)
    });
    Some(found?.at_ms - fault_ms)
}

/// Judges numbers of frames that promise to have no gaps.
pub fn gapless(read: &Read) -> Judgement {
    let numbers: Vec<u64> = read
        .view
        .cursors
        .iter()
        .filter_map(|cursor| cursor.parse().ok())
        .collect();
    let gap = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1);
    match gap {
        Some(pair) => Judgement::of(
            Verdict::Lost,
            format!("{}: after number {} comes {}", read.name, pair[0], pair[1]),
        ),
        None => Judgement::default(),
    }
}

#[cfg(test)]
mod tests;
