//! Cases of one turn. The seed chooses the numbers: at which word, after how many bytes, for how long.

use crate::adapter::{Adapter, Role};
use crate::cut::Cut;
use crate::gate::Point;
use crate::judge::Expect;
use crate::plan::{Action, Deed, Moment, Plan};
use crate::random::Random;
use crate::script::Script;
use crate::target::Which;

/// Words of a step, and the pause after each: a turn takes about half a second if nothing happens.
const WORDS: usize = 40;
const PACE_MS: u64 = 10;
/// Where a paused worker continues in the middle of another one's answer.
const PAUSED_PACE_MS: u64 = 250;
/// Readers of `many_readers`.
const READERS: usize = 20;
const CUTS: usize = 3;
/// Bytes before a cut.
const CUT_AFTER_MAX: usize = 400;

fn words(id: String) -> Plan {
    Plan::quiet(Script::words(id, WORDS, PACE_MS))
}

fn with_call(id: String) -> Plan {
    Plan::quiet(Script::with_call(id, WORDS / 2, PACE_MS))
}

/// With a call, if the server's agent has the tool.
fn most(adapter: &Adapter, id: String) -> Plan {
    if adapter.tools {
        with_call(id)
    } else {
        Plan::quiet(Script::words(id, WORDS / 2, PACE_MS))
    }
}

/// Somewhere in the words of the first step, neither at the first nor at the last one.
fn somewhere(random: &mut Random, words: usize) -> Point {
    let count = random.between(2, words - 2);
    Point::Words { step: 0, count }
}

fn sorted(mut plan: Plan) -> Plan {
    let key = |plan: &Plan, action: &Action| match action.at {
        Moment::At(point) => (plan.words_before(point), rank(point)),
        Moment::AfterEnd => (usize::MAX, 0),
    };
    let mut actions = std::mem::take(&mut plan.actions);
    actions.sort_by_key(|action| key(&plan, action));
    plan.actions = actions;
    plan
}

/// The order of points with the same number of words before them.
fn rank(point: Point) -> usize {
    match point {
        Point::Words { .. } => 0,
        Point::End { .. } => 1,
        Point::BeforeEffect { .. } => 2,
        Point::AfterEffect { .. } => 3,
        Point::Start { .. } => 4,
    }
}

pub fn reads_to_the_end(_: &mut Random, adapter: &Adapter, id: String) -> Plan {
    most(adapter, id)
}

pub fn leave_and_return(random: &mut Random, _: &Adapter, id: String) -> Plan {
    let away_ms = random.between(0, 600).try_into().unwrap_or_default();
    words(id).at(somewhere(random, WORDS), Deed::Leave { reader: 0, away_ms })
}

fn cuts(random: &mut Random, id: String, cut: Cut) -> Plan {
    let mut plan = words(id);
    for _ in 0..CUTS {
        let after = random.between(0, CUT_AFTER_MAX);
        plan = plan.at(somewhere(random, WORDS), Deed::Cut { reader: 0, cut, after });
    }
    sorted(plan)
}

pub fn cut_any_byte(random: &mut Random, _: &Adapter, id: String) -> Plan {
    cuts(random, id, Cut::AnyByte)
}

pub fn cut_in_character(random: &mut Random, _: &Adapter, id: String) -> Plan {
    cuts(random, id, Cut::InCharacter)
}

pub fn cut_in_frame(random: &mut Random, _: &Adapter, id: String) -> Plan {
    cuts(random, id, Cut::InFrame)
}

pub fn cut_between_frames(random: &mut Random, _: &Adapter, id: String) -> Plan {
    cuts(random, id, Cut::AfterFrame)
}

pub fn late_joiner(random: &mut Random, _: &Adapter, id: String) -> Plan {
    let mut plan = words(id).at(somewhere(random, WORDS), Deed::Join { reader: 1 });
    plan.readers = 2;
    plan
}

pub fn many_readers(random: &mut Random, _: &Adapter, id: String) -> Plan {
    let mut plan = words(id);
    plan.readers = READERS;
    for reader in 1..READERS {
        let joins = random.between(2, WORDS - 4);
        let cut = random.one(&Cut::ALL);
        let after = random.between(0, CUT_AFTER_MAX);
        let leaves = Point::Words {
            step: 0,
            count: random.between(joins + 1, WORDS - 2),
        };
        plan = plan
            .at(Point::Words { step: 0, count: joins }, Deed::Join { reader })
            .at(leaves, Deed::Cut { reader, cut, after });
    }
    sorted(plan)
}

/// Many readers from the beginning to the end.
pub fn crowd(id: String) -> Plan {
    let mut plan = words(id);
    plan.readers = READERS;
    let point = Point::Words { step: 0, count: 2 };
    (1..READERS).fold(plan, |plan, reader| plan.at(point, Deed::Join { reader }))
}

pub fn slow_reader(_: &mut Random, _: &Adapter, id: String) -> Plan {
    let mut plan = Plan::quiet(Script::words(id, 10 * WORDS, 0));
    plan.slow_ms = 10;
    plan
}

/// Kills parts at a point.
fn killed(plan: Plan, point: Point, which: Which) -> Plan {
    plan.at(point, Deed::Restart { which })
}

pub fn killed_before_first_word(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), Point::Start { step: 0 }, Which::All)
}

pub fn killed_between_words(random: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), somewhere(random, WORDS), Which::All)
}

pub fn killed_before_effect(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(with_call(id), Point::BeforeEffect { step: 0 }, Which::All)
}

pub fn killed_after_effect(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(with_call(id), Point::AfterEffect { step: 0 }, Which::All)
}

pub fn killed_at_end(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), Point::End { step: 0 }, Which::All)
}

pub fn worker_killed_before_first_word(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), Point::Start { step: 0 }, Which::Worker)
}

pub fn worker_killed_between_words(random: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), somewhere(random, WORDS), Which::Worker)
}

pub fn worker_killed_before_effect(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(with_call(id), Point::BeforeEffect { step: 0 }, Which::Worker)
}

pub fn worker_killed_after_effect(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(with_call(id), Point::AfterEffect { step: 0 }, Which::Worker)
}

pub fn worker_killed_at_end(_: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), Point::End { step: 0 }, Which::Worker)
}

pub fn server_killed_between_words(random: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), somewhere(random, WORDS), Which::Server)
}

pub fn drained(random: &mut Random, _: &Adapter, id: String) -> Plan {
    words(id).at(somewhere(random, WORDS), Deed::Drain { which: Which::All })
}

pub fn worker_drained(random: &mut Random, adapter: &Adapter, id: String) -> Plan {
    let mut plan = words(id).at(somewhere(random, WORDS), Deed::Drain { which: Which::Worker });
    plan.go_on_within_s = Some(adapter.limits.drain_s);
    plan
}

/// Said slowly: the answer of the worker that has taken over is still being said when the first one continues.
pub fn worker_paused(random: &mut Random, _: &Adapter, id: String) -> Plan {
    Plan::quiet(Script::words(id, WORDS, PAUSED_PACE_MS)).at(somewhere(random, WORDS), Deed::Pause)
}

pub fn worker_paused_in_tool(_: &mut Random, _: &Adapter, id: String) -> Plan {
    with_call(id).at(Point::AfterEffect { step: 0 }, Deed::Pause)
}

pub fn database_restarted(random: &mut Random, _: &Adapter, id: String) -> Plan {
    killed(words(id), somewhere(random, WORDS), Which::Database)
}

pub fn database_restarted_while_away(random: &mut Random, _: &Adapter, id: String) -> Plan {
    let point = somewhere(random, WORDS);
    let leave = Deed::Leave {
        reader: 0,
        away_ms: 3_000,
    };
    killed(words(id).at(point, leave), point, Which::Database)
}

pub fn database_failed_over(random: &mut Random, _: &Adapter, id: String) -> Plan {
    words(id).at(somewhere(random, WORDS), Deed::FailOver)
}

pub fn database_partitioned(random: &mut Random, _: &Adapter, id: String) -> Plan {
    words(id).at(somewhere(random, WORDS), Deed::Partition { for_ms: 3_000 })
}

pub fn database_slow(random: &mut Random, _: &Adapter, id: String) -> Plan {
    let deed = Deed::Slow {
        by_ms: 100,
        for_ms: 3_000,
    };
    words(id).at(somewhere(random, WORDS), deed)
}

pub fn answers_lost(random: &mut Random, _: &Adapter, id: String) -> Plan {
    words(id).at(somewhere(random, WORDS), Deed::LoseAnswers { for_ms: 700 })
}

fn cancelled(mut plan: Plan, point: Point) -> Plan {
    plan.expect = Expect::Beginning;
    plan.at(point, Deed::Cancel)
}

pub fn cancel_before_first_word(_: &mut Random, adapter: &Adapter, id: String) -> Plan {
    cancelled(most(adapter, id), Point::Start { step: 0 })
}

pub fn cancel_between_words(random: &mut Random, adapter: &Adapter, id: String) -> Plan {
    cancelled(most(adapter, id), somewhere(random, WORDS / 2))
}

pub fn cancel_in_tool(_: &mut Random, _: &Adapter, id: String) -> Plan {
    cancelled(with_call(id), Point::BeforeEffect { step: 0 })
}

pub fn cancel_at_end(_: &mut Random, _: &Adapter, id: String) -> Plan {
    cancelled(words(id), Point::End { step: 0 })
}

pub fn cancel_after_end(_: &mut Random, _: &Adapter, id: String) -> Plan {
    let mut plan = words(id);
    plan.actions.push(Action {
        at: Moment::AfterEnd,
        deed: Deed::Cancel,
    });
    plan
}

/// One to four deeds at random points of a turn with a tool.
pub fn random(random: &mut Random, adapter: &Adapter, id: String) -> Plan {
    let words = WORDS / 2;
    let mut plan = most(adapter, id);
    plan.readers = 3;
    let last = plan.script.steps.len() - 1;
    let mut deeds = vec![Kind::Cut, Kind::Leave, Kind::Join, Kind::Kill];
    if adapter.has(|role| role == Role::Worker) {
        deeds.extend([Kind::KillWorker, Kind::KillServer, Kind::Drain]);
    }
    if adapter.has(|role| role == Role::Database) {
        deeds.push(Kind::KillDatabase);
    }
    if !adapter.proxies.is_empty() {
        deeds.push(Kind::Partition);
    }
    let mut joined = 0;
    for _ in 0..random.between(1, 4) {
        let point = match random.between(0, 4) {
            0 => Point::Start {
                step: random.between(0, last),
            },
            1 if adapter.tools => Point::BeforeEffect { step: 0 },
            2 if adapter.tools => Point::AfterEffect { step: 0 },
            _ => Point::Words {
                step: random.between(0, last),
                count: random.between(2, words - 2),
            },
        };
        let deed = match random.one(&deeds) {
            Kind::Cut => Deed::Cut {
                reader: 0,
                cut: random.one(&Cut::ALL),
                after: random.between(0, CUT_AFTER_MAX),
            },
            Kind::Join if joined < 2 => {
                joined += 1;
                Deed::Join { reader: joined }
            }
            Kind::Leave | Kind::Join => Deed::Leave {
                reader: 0,
                away_ms: random.between(0, 600).try_into().unwrap_or_default(),
            },
            Kind::Kill => Deed::Restart { which: Which::All },
            Kind::KillWorker => Deed::Restart { which: Which::Worker },
            Kind::KillServer => Deed::Restart { which: Which::Server },
            Kind::Drain => Deed::Drain { which: Which::Worker },
            Kind::KillDatabase => Deed::Restart { which: Which::Database },
            Kind::Partition => Deed::Partition { for_ms: 1_000 },
        };
        plan = plan.at(point, deed);
    }
    sorted(plan)
}

/// The deeds of a random plan.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Cut,
    Leave,
    Join,
    Kill,
    KillWorker,
    KillServer,
    Drain,
    KillDatabase,
    Partition,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_plan() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
        let adapter = Adapter::read(&folder.join("rejoin")).unwrap();
        let plan = |seed| random(&mut Random::of(seed, "random"), &adapter, "id".to_owned()).actions;
        for seed in 1..=50 {
            let actions = plan(seed);
            assert_eq!(actions, plan(seed));
            assert!((1..=4).contains(&actions.len()));
        }
        assert!((1..=50).any(|seed| plan(seed) != plan(seed + 1)));
    }

    #[test]
    fn deeds_are_in_the_order_of_the_turn() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
        let adapter = Adapter::read(&folder.join("rejoin")).unwrap();
        for seed in 1..=50 {
            let plan = many_readers(&mut Random::new(seed), &adapter, "id".to_owned());
            let words = plan.actions.iter().map(|action| match action.at {
                Moment::At(point) => plan.words_before(point),
                Moment::AfterEnd => usize::MAX,
            });
            assert!(words.is_sorted());
            assert_eq!(plan.actions.len(), 2 * (READERS - 1));
        }
    }
}
