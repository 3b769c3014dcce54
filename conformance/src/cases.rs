//! All cases, by families. Read by `suite`, `report` and the command line.
//!
//! - `planned`  cases of one turn, as plans made from a seed
//!
//! The others are in `special`: they are more than one turn, or read outside of one.

pub mod planned;

use crate::adapter::{Adapter, Busy, Role};
use crate::plan::Plan;
use crate::random::Random;
use crate::stream_rules::Resume;

/// A case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub family: &'static str,
    pub about: &'static str,
    /// It is run with seeds 1, 1 + `every`, 1 + 2 × `every` …: cases that wait for leases or restarts take long.
    pub every: u64,
    pub needs: &'static [Need],
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One turn.
    Plan(fn(&mut Random, &Adapter, String) -> Plan),
    Special(Special),
}

/// Cases that are not a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    CutEveryByte,
    CursorBefore,
    CursorAhead,
    CursorForeign,
    AnotherUser,
    Aged { age_s: u64 },
    AfterTheEnd,
    MemoryOfReaders,
    EndOnce,
    PostTwice,
    SecondMessage,
    HundredAtOnce,
    AfterDatabaseRestart,
    DatabaseKilledAtPost,
    SubAgent,
}

/// What an adapter must have for a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Streams can be opened again.
    Reconnect,
    /// Streams go on after a cursor.
    Cursor,
    /// Its agent has the tool.
    Tools,
    /// Another user's credentials.
    AnotherUser,
    /// A worker that is another process than the server.
    Worker,
    /// A server that is another process than the worker.
    Server,
    /// Something that executes turns and may be paused.
    Pausable,
    Database,
    Proxy,
    Cancel,
    Idempotency,
    FollowUp,
    Age,
    FailOver,
    /// Its agent can let another one work.
    SubAgent,
}

impl Need {
    /// Why an adapter has not what is needed, if it has not.
    fn missing(self, adapter: &Adapter) -> Option<&'static str> {
        let requests = &adapter.requests;
        let (has, reason) = match self {
            Self::Reconnect => (adapter.stream.resume != Resume::Never, "a stream can't be opened again"),
            Self::Cursor => (
                requests.read_from.is_some() && adapter.stream.resume == Resume::Exact,
                "streams have no cursor: they are replayed from the beginning",
            ),
            Self::Tools => (adapter.tools, "its agent has no tools"),
            Self::AnotherUser => (
                requests.read_as_another.is_some(),
                "the adapter has no credentials of another user",
            ),
            Self::Worker => (
                adapter.has(|role| role == Role::Worker),
                "turns are executed by the process that serves them",
            ),
            Self::Server => (
                adapter.has(|role| role == Role::Server),
                "turns are executed by the process that serves them",
            ),
            Self::Pausable => (
                adapter.has(|role| role == Role::Spare),
                "there is no second worker that could take over",
            ),
            Self::Database => (adapter.has(|role| role == Role::Database), "it has no database"),
            Self::Proxy => (
                !adapter.proxies.is_empty(),
                "it has no connection that could be disturbed",
            ),
            Self::Cancel => (requests.cancel.is_some(), "a turn can't be cancelled"),
            Self::Idempotency => (adapter.promises.idempotent, "a repeated post is another message"),
            Self::FollowUp => (
                requests.follow_up.is_some() && adapter.promises.busy != Busy::Unknown,
                "it does not say what happens to a message while a turn is active",
            ),
            Self::Age => (
                !adapter.age.is_empty(),
                "the adapter has no command that makes its streams older",
            ),
            Self::FailOver => (
                adapter.fail_over.is_some(),
                "the adapter has no standby of its database",
            ),
            Self::SubAgent => (adapter.delegation.is_some(), "its agent can't let another one work"),
        };
        (!has).then_some(reason)
    }
}

impl Case {
    /// Why the case can't be run with a server, if it can't.
    pub fn refused_by(&self, adapter: &Adapter) -> Option<String> {
        adapter.refuses(self.name, self.family).or_else(|| {
            self.needs
                .iter()
                .find_map(|need| need.missing(adapter))
                .map(str::to_owned)
        })
    }

    /// Whether it needs a standby of the database.
    pub fn has_standby(&self) -> bool {
        self.needs.contains(&Need::FailOver)
    }

    /// Whether it is run with a seed, of seeds that begin with 1.
    pub fn is_due(&self, seed: u64) -> bool {
        (seed.saturating_sub(1)).is_multiple_of(self.every)
    }
}

/// Seconds of an hour and of a day.
const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;
/// Every seed, every fifth, every tenth.
const EACH: u64 = 1;
const FIFTH: u64 = 5;
const TENTH: u64 = 10;

const fn case(
    family: &'static str,
    name: &'static str,
    about: &'static str,
    every: u64,
    needs: &'static [Need],
    kind: Kind,
) -> Case {
    Case {
        name,
        family,
        about,
        every,
        needs,
        kind,
    }
}

use Kind::{Plan as Planned, Special as Other};
use Need::*;

/// All cases, in the order of the report.
#[rustfmt::skip]
pub const ALL: &[Case] = &[
    case("reconnect", "leave-and-return", "the reader closes the connection and comes back", EACH, &[Reconnect], Planned(planned::leave_and_return)),
    case("reconnect", "cut-any-byte", "the connection is lost at any byte, three times", EACH, &[Reconnect], Planned(planned::cut_any_byte)),
    case("reconnect", "cut-in-character", "… inside a character of several bytes", EACH, &[Reconnect], Planned(planned::cut_in_character)),
    case("reconnect", "cut-in-frame", "… inside a frame", EACH, &[Reconnect], Planned(planned::cut_in_frame)),
    case("reconnect", "cut-between-frames", "… between two frames", EACH, &[Reconnect], Planned(planned::cut_between_frames)),
    case("reconnect", "cut-every-byte", "an ended turn is read once for each byte at which a connection can be lost", FIFTH, &[Cursor], Other(Special::CutEveryByte)),
    case("reconnect", "cursor-before", "an earlier cursor gives the same frames again", FIFTH, &[Cursor], Other(Special::CursorBefore)),
    case("reconnect", "cursor-ahead", "a cursor beyond the stream is refused, or answered", FIFTH, &[Cursor], Other(Special::CursorAhead)),
    case("reconnect", "cursor-foreign", "what is not a cursor is refused, or answered", FIFTH, &[Cursor], Other(Special::CursorForeign)),
    case("reconnect", "another-user", "another user can't read the stream", FIFTH, &[AnotherUser], Other(Special::AnotherUser)),
    case("reconnect", "cursor-after-an-hour", "a cursor is used after an hour", TENTH, &[Cursor, Age], Other(Special::Aged { age_s: HOUR_S })),
    case("reconnect", "cursor-after-a-day", "a cursor is used after a day", TENTH, &[Cursor, Age], Other(Special::Aged { age_s: DAY_S })),
    case("readers", "reads-to-the-end", "nothing happens", EACH, &[], Planned(planned::reads_to_the_end)),
    case("readers", "late-joiner", "a second reader joins in the middle", EACH, &[Reconnect], Planned(planned::late_joiner)),
    case("readers", "many-readers", "twenty readers join at different times, and lose their connections", FIFTH, &[Reconnect], Planned(planned::many_readers)),
    case("readers", "slow-reader", "a reader takes its time", FIFTH, &[], Planned(planned::slow_reader)),
    case("readers", "after-the-end", "a reader comes when the turn has ended", EACH, &[Reconnect], Other(Special::AfterTheEnd)),
    case("readers", "memory-of-readers", "forty readers come and go, and the server's memory stays as it was", TENTH, &[Reconnect], Other(Special::MemoryOfReaders)),
    case("killed", "killed-before-first-word", "all processes of the server, before the model's first word", TENTH, &[Reconnect], Planned(planned::killed_before_first_word)),
    case("killed", "killed-between-words", "… between two words", TENTH, &[Reconnect], Planned(planned::killed_between_words)),
    case("killed", "killed-before-effect", "… between a tool's start and its effect", TENTH, &[Tools, Reconnect], Planned(planned::killed_before_effect)),
    case("killed", "killed-after-effect", "… between the effect and its record", TENTH, &[Tools, Reconnect], Planned(planned::killed_after_effect)),
    case("killed", "killed-at-end", "… before the end", TENTH, &[Reconnect], Planned(planned::killed_at_end)),
    case("killed", "worker-killed-before-first-word", "the worker alone, before the model's first word", TENTH, &[Worker], Planned(planned::worker_killed_before_first_word)),
    case("killed", "worker-killed-between-words", "… between two words", TENTH, &[Worker], Planned(planned::worker_killed_between_words)),
    case("killed", "worker-killed-before-effect", "… between a tool's start and its effect", TENTH, &[Tools, Worker], Planned(planned::worker_killed_before_effect)),
    case("killed", "worker-killed-after-effect", "… between the effect and its record", TENTH, &[Tools, Worker], Planned(planned::worker_killed_after_effect)),
    case("killed", "worker-killed-at-end", "… before the end", TENTH, &[Worker], Planned(planned::worker_killed_at_end)),
    case("killed", "server-killed-between-words", "the process that serves streams alone, between two words", TENTH, &[Server, Reconnect], Planned(planned::server_killed_between_words)),
    case("killed", "drained", "all processes get SIGTERM between two words, as in a deployment", TENTH, &[Reconnect], Planned(planned::drained)),
    case("killed", "worker-drained", "the worker alone gets SIGTERM", TENTH, &[Worker], Planned(planned::worker_drained)),
    case("paused", "worker-paused", "the worker is paused past its lease between two words, and continues", TENTH, &[Pausable], Planned(planned::worker_paused)),
    case("paused", "worker-paused-in-tool", "… after a tool's effect", TENTH, &[Tools, Pausable], Planned(planned::worker_paused_in_tool)),
    case("database", "database-restarted", "the database is killed and started again; the reader stays", TENTH, &[Database], Planned(planned::database_restarted)),
    case("database", "database-restarted-while-away", "… while the reader is away", TENTH, &[Database, Reconnect], Planned(planned::database_restarted_while_away)),
    case("database", "database-restarted-before", "… before the turn", TENTH, &[Database, Reconnect], Other(Special::AfterDatabaseRestart)),
    case("database", "database-killed-at-post", "… in the moment in which a message is confirmed", TENTH, &[Database, Proxy], Other(Special::DatabaseKilledAtPost)),
    case("database", "database-failed-over", "the database is killed, and its standby takes over", TENTH, &[FailOver], Planned(planned::database_failed_over)),
    case("network", "database-partitioned", "nothing passes between server and database for a while", TENTH, &[Proxy], Planned(planned::database_partitioned)),
    case("network", "database-slow", "all that passes between them is late", TENTH, &[Proxy], Planned(planned::database_slow)),
    case("network", "answers-lost", "answers of the database are lost, with their connections", TENTH, &[Proxy], Planned(planned::answers_lost)),
    case("posts", "post-twice", "a message is posted five times at once with one key", EACH, &[Idempotency], Other(Special::PostTwice)),
    case("posts", "second-message-while-busy", "a second message comes while a turn is active", EACH, &[FollowUp], Other(Special::SecondMessage)),
    case("cancel", "cancel-before-first-word", "a turn is cancelled before its first word", EACH, &[Cancel], Planned(planned::cancel_before_first_word)),
    case("cancel", "cancel-between-words", "… between two words", EACH, &[Cancel], Planned(planned::cancel_between_words)),
    case("cancel", "cancel-in-tool", "… while a tool works", EACH, &[Tools, Cancel], Planned(planned::cancel_in_tool)),
    case("cancel", "cancel-at-end", "… when all was said", EACH, &[Cancel], Planned(planned::cancel_at_end)),
    case("cancel", "cancel-after-end", "… when it has ended", FIFTH, &[Cancel], Planned(planned::cancel_after_end)),
    case("agents", "sub-agent", "an agent lets another one work, and goes on with its answer", FIFTH, &[SubAgent], Other(Special::SubAgent)),
    case("load", "hundred-at-once", "a hundred turns at once", TENTH, &[], Other(Special::HundredAtOnce)),
    case("end", "end-once", "readers at different times see one end, and nothing after it", EACH, &[], Other(Special::EndOnce)),
    case("random", "random", "a random schedule of all of the above", EACH, &[Reconnect], Planned(planned::random)),
];

/// The case with a name.
pub fn named(name: &str) -> Option<&'static Case> {
    ALL.iter().find(|case| case.name == name)
}

/// All families, in order.
pub fn families() -> Vec<&'static str> {
    let mut families: Vec<&str> = ALL.iter().map(|case| case.family).collect();
    families.dedup();
    families
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_different_and_families_stand_together() {
        let names: BTreeSet<&str> = ALL.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), ALL.len());
        let families = families();
        assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len());
        assert!(named("random").is_some());
    }

    #[test]
    fn the_first_seed_runs_each_case() {
        assert!(ALL.iter().all(|case| case.is_due(1)));
        assert!(named("killed-at-end").is_none_or(|case| !case.is_due(2)));
        assert!(named("killed-at-end").is_some_and(|case| case.is_due(11)));
    }

    #[test]
    fn adapters_name_cases_that_exist() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("adapters");
        let families = families();
        for adapter in Adapter::all(&folder).unwrap() {
            for name in adapter.unsupported.keys() {
                assert!(
                    named(name).is_some() || families.contains(&name.as_str()),
                    "{}: {name}",
                    adapter.name
                );
            }
            for (name, fault) in &adapter.faults {
                assert_eq!(
                    fault.cases.is_empty(),
                    fault.unseen.is_some(),
                    "{}: {name} has cases, or a reason why there is none",
                    adapter.name
                );
                for case in &fault.cases {
                    assert!(named(case).is_some(), "{}: {case}", adapter.name);
                }
                if let Some(other) = &fault.adapter {
                    assert!(folder.join(other).is_dir(), "{}: {name} names {other}", adapter.name);
                }
            }
        }
    }
}
