//! Measures agent routing: the accuracy of a conversation's first agent on the labelled messages of
//! `data/routing.jsonl`, and its duration. `make eval-routing` prints the result and writes it into
//! `docs/guide/routing.md`; as a test, it checks that the document is still correct.
//!
//! Half of the messages, by a hash of their text, may be examined while rules are developed; `--errors` shows their
//! errors. Of the other half, and of those written after the rules, only figures are shown.
#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rejoin_routing::{Choice, Clues, Console, Database, Databases, Reason, Specialist, choose};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

const MESSAGES: &str = include_str!("../../../data/routing.jsonl");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/routing.md");
/// The tables are between these lines of the document; durations follow the second one, as they differ from run to run.
const MARKS: [&str; 3] = ["<!-- accuracy -->", "<!-- times -->", "<!-- end -->"];
/// Decides which messages are held out.
const SEED: &str = "1";
/// The default choice of agents: the built-in ones.
const AGENTS: [Database; 3] = [Database::PostgreSql, Database::MongoDb, Database::BigQuery];
const LAST_ROUND: usize = 4;
const TRIAGE: &str = "triage";
/// Number of timed choices per message.
const ROUNDS: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    lang: String,
    message: String,
    /// The expected agent from the message alone, and with all signals: a kind of database, or `triage`.
    alone: String,
    together: String,
    agents: Option<Vec<Database>>,
    pinned: Option<Database>,
    /// Messages were written in rounds: the first before there were rules, the second when they stood at first, the last when they
    /// stood as they are.
    #[serde(default = "first_round")]
    round: usize,
    #[serde(default)]
    consoles: Vec<Attached>,
    #[serde(default)]
    databases: Vec<Database>,
    preferred: Option<Database>,
    #[serde(default)]
    history: BTreeMap<String, u32>,
}

/// The purpose of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Tuning,
    HeldOut,
    Last,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attached {
    database: Option<Database>,
    content: String,
}

fn first_round() -> usize {
    1
}

/// The agent for a kind of database.
fn id(database: Database) -> Uuid {
    Uuid::from_u128(1 + database as u128)
}

impl Example {
    fn part(&self) -> Part {
        if self.round == LAST_ROUND {
            return Part::Last;
        }
        let digest = Sha256::new().chain_update(SEED).chain_update(&self.message).finalize();
        if digest[0] % 2 == 1 {
            Part::HeldOut
        } else {
            Part::Tuning
        }
    }

    fn specialists(&self) -> Vec<Specialist<'static>> {
        let kinds = self.agents.as_deref().unwrap_or(&AGENTS);
        let specialist = |kind: &Database| Specialist {
            id: id(*kind),
            name: kind.name(),
            databases: Databases::just(*kind),
            keywords: &[],
        };
        kinds.iter().map(specialist).collect()
    }

    /// Returns the choice with (or without) the signals beside the message, and its duration, for each of `times` runs.
    fn choose(&self, in_context: bool, times: usize) -> (Choice, Vec<Duration>) {
        let specialists = self.specialists();
        let consoles = self.consoles.iter().map(|attached| Console {
            database: attached.database,
            content: &attached.content,
        });
        let consoles: Vec<_> = consoles.collect();
        let history = self
            .history
            .iter()
            .filter_map(|(name, times)| Some((id(Database::named(name)?), *times)));
        let history: Vec<_> = history.collect();
        let mut clues = Clues {
            message: &self.message,
            ..Clues::default()
        };
        if in_context {
            clues = Clues {
                pinned: self.pinned.map(id),
                consoles: &consoles,
                databases: self.databases.iter().copied().collect(),
                preferred: self.preferred.map(id),
                history: &history,
                ..clues
            };
        }
        let choice = choose(&specialists, &clues);
        let timed = (0..times).map(|_| {
            let begun = Instant::now();
            black_box(choose(black_box(&specialists), black_box(&clues)));
            begun.elapsed()
        });
        (choice, timed.collect())
    }
}

fn name_of(agent: Option<Uuid>) -> &'static str {
    let kind = Database::ALL.into_iter().find(|kind| Some(id(*kind)) == agent);
    kind.map_or(TRIAGE, Database::name)
}

/// Right ones of all.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    right: usize,
    all: usize,
}

impl Share {
    fn count(&mut self, is_right: bool) {
        self.right += usize::from(is_right);
        self.all += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of some hundred messages")]
    fn percent(self) -> f64 {
        100.0 * self.right as f64 / self.all.max(1) as f64
    }

    fn cell(self) -> String {
        format!("{:.1} % ({} of {})", self.percent(), self.right, self.all)
    }
}

/// Everything that is counted, of one way to ask (with or without context).
#[derive(Debug, Default)]
struct Figures {
    /// By [`Part`].
    parts: [Share; 3],
    /// Of the unseen messages: English, other languages.
    languages: [Share; 2],
    /// Of all, by the name of the reason.
    reasons: BTreeMap<&'static str, Share>,
    /// Of the unseen messages: counts of (expected, chosen).
    confusion: BTreeMap<(String, &'static str), usize>,
    /// Of the unseen messages: an agent was chosen where another one, or triage, was expected.
    misled: usize,
    times: Vec<Duration>,
}

fn figures(examples: &[Example], in_context: bool, times: usize, show_errors: bool) -> Figures {
    let mut figures = Figures::default();
    for example in examples {
        let (choice, taken) = example.choose(in_context, times);
        let wanted = if in_context { &example.together } else { &example.alone };
        let chosen = name_of(choice.agent);
        let is_right = chosen == wanted;
        let part = example.part();
        figures.times.extend(taken);
        figures.parts[part as usize].count(is_right);
        figures.reasons.entry(choice.reason.name()).or_default().count(is_right);
        if part != Part::Tuning {
            figures.languages[usize::from(example.lang != "en")].count(is_right);
            figures.misled += usize::from(!is_right && chosen != TRIAGE);
            *figures.confusion.entry((wanted.clone(), chosen)).or_default() += 1;
        } else if show_errors && !is_right {
            let how = if in_context { "together" } else { "alone" };
            println!(
                "{how}: {wanted}, not {chosen} ({}): {}",
                choice.because, example.message
            );
        }
    }
    figures.times.sort_unstable();
    figures
}

/// Formats the deterministic part.
fn accuracy(with: &Figures, without: &Figures) -> String {
    let mut text = String::from("| right choices | with context | message alone |\n| --- | --- | --- |\n");
    let mut row = |name: &str, of: fn(&Figures) -> String| {
        let _ = writeln!(text, "| {name} | {} | {} |", of(with), of(without));
    };
    row("held-out half", |figures| figures.parts[Part::HeldOut as usize].cell());
    row("written last", |figures| figures.parts[Part::Last as usize].cell());
    row("of these two: English", |figures| figures.languages[0].cell());
    row("of these two: other languages", |figures| figures.languages[1].cell());
    row("of these two: a wrong agent, not triage", |figures| {
        figures.misled.to_string()
    });
    row("half that the rules were made with", |figures| {
        figures.parts[Part::Tuning as usize].cell()
    });
    for reason in Reason::ALL {
        let of = |figures: &Figures| {
            figures
                .reasons
                .get(reason.name())
                .map_or("–".to_owned(), |share| share.cell())
        };
        let _ = writeln!(text, "| all, by `{}` | {} | {} |", reason.name(), of(with), of(without));
    }
    for (title, figures) in [("with context", with), ("message alone", without)] {
        let mut names: Vec<&str> = AGENTS.map(Database::name).to_vec();
        names.extend([Database::MySql.name(), Database::Sqlite.name(), TRIAGE]);
        let _ = writeln!(
            text,
            "\nNot looked at, {title}: rows are what was expected, columns what was chosen.\n"
        );
        let _ = writeln!(
            text,
            "| | {} |\n|{}",
            names.join(" | "),
            " --- |".repeat(names.len() + 1)
        );
        for wanted in &names {
            let cells = names.iter().map(|chosen| {
                let count = figures
                    .confusion
                    .get(&((*wanted).to_owned(), *chosen))
                    .copied()
                    .unwrap_or(0);
                if count == 0 { "·".to_owned() } else { count.to_string() }
            });
            let _ = writeln!(text, "| {wanted} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

/// Returns (p50, p99) in µs.
fn percentiles(sorted: &[Duration]) -> (f64, f64) {
    let at = |share: usize| {
        let place = sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
        place.as_secs_f64() * 1e6
    };
    (at(50), at(99))
}

/// Measures a message and consoles longer than the examined size, without decisive signals.
fn longest() -> Vec<Duration> {
    let text = "select a, big b from postgr x where t.a = 5 group by the c; ".repeat(1_000);
    let attached = || Attached {
        database: None,
        content: text.clone(),
    };
    let example = Example {
        lang: "en".to_owned(),
        alone: TRIAGE.to_owned(),
        together: TRIAGE.to_owned(),
        consoles: (0..20).map(|_| attached()).collect(),
        message: text.clone(),
        round: LAST_ROUND,
        agents: None,
        pinned: None,
        databases: Vec::new(),
        preferred: None,
        history: BTreeMap::new(),
    };
    let (_, mut times) = example.choose(true, ROUNDS);
    times.sort_unstable();
    times
}

fn times(with: &Figures, without: &Figures) -> String {
    let mut text = String::from("| time of a choice [µs] | p50 | p99 |\n| --- | --- | --- |\n");
    let rows = [
        ("with context", &with.times),
        ("message alone", &without.times),
        ("the longest texts", &longest()),
    ];
    for (name, times) in rows {
        let (p50, p99) = percentiles(times);
        let _ = writeln!(text, "| {name} | {p50:.1} | {p99:.1} |");
    }
    text
}

/// Replaces the tables in the document.
fn document(old: &str, accuracy: &str, times: &str) -> Option<String> {
    let [first, second, last] = MARKS;
    let (before, rest) = old.split_once(first)?;
    let (_, after) = rest.split_once(last)?;
    Some(format!("{before}{first}\n{accuracy}\n{second}\n{times}{last}{after}"))
}

fn main() -> ExitCode {
    let asked = |flag| std::env::args().any(|argument| argument == flag);
    let measures = asked("--bench");
    let rounds = if measures { ROUNDS } else { 0 };
    let examples: Result<Vec<Example>, _> = MESSAGES.lines().map(serde_json::from_str).collect();
    let examples = match examples {
        Ok(examples) => examples,
        Err(error) => {
            println!("data/routing.jsonl: {error}");
            return ExitCode::FAILURE;
        }
    };
    let with = figures(&examples, true, rounds, asked("--errors"));
    let without = figures(&examples, false, rounds, asked("--errors"));
    let accuracy = accuracy(&with, &without);
    let path = Path::new(DOCUMENT);
    let old = std::fs::read_to_string(path).unwrap_or_default();
    if !measures {
        if old.contains(&accuracy) {
            println!("docs/guide/routing.md is right about {} messages", examples.len());
            return ExitCode::SUCCESS;
        }
        println!("docs/guide/routing.md is not what is measured now; `make eval-routing` writes it:\n{accuracy}");
        return ExitCode::FAILURE;
    }
    let times = times(&with, &without);
    println!("{} messages\n\n{accuracy}\n{times}", examples.len());
    match document(&old, &accuracy, &times).map(|new| std::fs::write(path, new)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            println!("docs/guide/routing.md can't be written: {error}");
            ExitCode::FAILURE
        }
        None => {
            println!("docs/guide/routing.md lacks one of the lines {MARKS:?}");
            ExitCode::FAILURE
        }
    }
}
