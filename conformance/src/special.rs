//! Cases that are more than one turn, or read outside of one. Called by `suite`.
//!
//! - `cursors`  those that read an ended turn from many cursors

mod cursors;

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::adapter::{Busy, Call};
use crate::cases::{Special, planned};
use crate::frames::Decoder;
use crate::gate::Point;
use crate::judge::{self, Expect};
use crate::play::{self, Played};
use crate::proxy::Weather;
use crate::random::Random;
use crate::reader::{Progress, Read, Reader};
use crate::script::{Script, word};
use crate::scripted::ModelCall;
use crate::target::{Target, Turn, Which};
use crate::transcript::Transcript;
use crate::verdict::{Judgement, Verdict};
use crate::view::View;
use crate::wire::Response;

const WORDS: usize = 30;
const PACE_MS: u64 = 5;
/// How long a response may take that has nothing to wait for.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long after the end something might follow.
const AFTER_END: Duration = Duration::from_millis(1_500);
/// Time in which a second turn would begin, if it did not wait.
const BUSY_PAUSE: Duration = Duration::from_millis(1_000);
const AT_ONCE: usize = 100;
const POSTS: usize = 5;
/// Turns that many read, after one that fills caches.
const CROWDS: usize = 2;
/// Words of a sub-agent. The last one is plain, however a result is quoted.
const SUB_WORDS: usize = 20;
const FOREIGN: &str = "not-a-cursor";

struct Scene<'a> {
    target: &'a Target,
    transcript: &'a Transcript,
    id: String,
}

/// # Errors
/// The suite itself fails, or a part of the server can't be started again.
pub async fn run(
    target: &Target,
    special: Special,
    random: &mut Random,
    id: String,
    transcript: &Transcript,
) -> Result<Played> {
    let scene = Scene { target, transcript, id };
    let judgement = match special {
        Special::AfterDatabaseRestart => return scene.after_database_restart(random).await,
        Special::CutEveryByte => scene.cut_every_byte(random).await?,
        Special::CursorBefore => scene.cursor_before(random).await?,
        Special::CursorAhead => scene.cursor_ahead(random).await?,
        Special::CursorForeign => scene.odd_cursor(random, FOREIGN).await?,
        Special::AnotherUser => scene.another_user(random).await?,
        Special::Aged { age_s } => scene.aged(random, age_s).await?,
        Special::AfterTheEnd => scene.after_the_end(random).await?,
        Special::MemoryOfReaders => scene.memory_of_readers(random).await?,
        Special::EndOnce => scene.end_once(random).await?,
        Special::PostTwice => scene.post_twice(random).await?,
        Special::SecondMessage => scene.second_message(random).await?,
        Special::HundredAtOnce => scene.hundred_at_once(random).await?,
        Special::DatabaseKilledAtPost => scene.database_killed_at_post(random).await?,
        Special::SubAgent => scene.sub_agent(random).await?,
    };
    target.settle(transcript).await?;
    Ok(Played {
        judgement,
        go_on_ms: None,
    })
}

impl Scene<'_> {
    fn script(&self) -> Script {
        Script::words(self.id.clone(), WORDS, PACE_MS)
    }

    /// Reads, from a stream that is open or from a cursor, without commands.
    async fn read(&self, turn: &Turn, name: &str, first: Option<Response>, from: Option<String>) -> Read {
        self.reader(turn, name).beginning_at(from).follow(first, silent()).await
    }

    fn reader(&self, turn: &Turn, name: &str) -> Reader<'_> {
        let (progress, _) = watch::channel(Progress::default());
        Reader::new(self.target, self.transcript, turn, name, progress)
    }

    /// A turn that was read to its end. Its values have what frames said.
    async fn whole(&self, script: Script, random: &mut Random) -> Result<(Turn, Judgement)> {
        let mut turn = self.target.turn(script, random);
        let stream = self.target.post(&mut turn).await?;
        let read = self.read(&turn, "reader 0", stream, None).await;
        turn.values.extend(read.view.captured.clone());
        let judgement = judge::read(&turn.script, &read, Expect::Whole);
        Ok((turn, judgement))
    }

    async fn after_the_end(&self, random: &mut Random) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let late = self.read(&turn, "late reader", None, None).await;
        judgement.merge(judge::read(&turn.script, &late, Expect::Whole));
        Ok(judgement)
    }

    async fn memory_of_readers(&self, random: &mut Random) -> Result<Judgement> {
        let mut judgement = self.crowd(random, 0).await?;
        let before = self.target.memory_mib().await;
        for nth in 1..=CROWDS {
            judgement.merge(self.crowd(random, nth).await?);
        }
        let after = self.target.memory_mib().await;
        self.transcript.note(&format!(
            "memory of what serves streams: {before} MiB, then {after} MiB"
        ));
        if after > before + self.target.adapter.limits.grow_mib {
            judgement.find(
                Verdict::Error,
                format!("the readers are gone, and the server's memory has grown from {before} to {after} MiB"),
            );
        }
        Ok(judgement)
    }

    /// A turn that many read to its end.
    async fn crowd(&self, random: &mut Random, nth: usize) -> Result<Judgement> {
        let plan = planned::crowd(format!("{}-{nth}", self.id));
        let played = play::play(self.target, &plan, random, self.transcript).await?;
        Ok(played.judgement)
    }

    /// All that a request returns, until it ends or nothing follows for a while: its length in bytes, and the view.
    async fn listen(&self, call: &Call, turn: &Turn) -> Result<(usize, View)> {
        let rules = &self.target.adapter.stream;
        let mut response = self.target.ask(call, &turn.values).await?;
        let mut decoder = Decoder::new(rules.framing);
        let (mut length, mut view) = (0, View::default());
        while let Ok(Ok(Some(data))) = timeout(AFTER_END, response.next()).await {
            length += data.len();
            for frame in decoder.push(&data) {
                view.apply(&frame, rules, &std::collections::BTreeMap::new());
            }
        }
        Ok((length, view))
    }

    async fn another_user(&self, random: &mut Random) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        if let Some(call) = &self.target.adapter.requests.read_as_another {
            let status = self.target.ask(call, &turn.values).await?.status;
            if !(400..500).contains(&status) {
                judgement.find(Verdict::Error, format!("another user gets {status}"));
            }
        }
        Ok(judgement)
    }

    async fn end_once(&self, random: &mut Random) -> Result<Judgement> {
        let mut turn = self.target.turn(self.script(), random);
        let stream = self.target.post(&mut turn).await?;
        let first = self.read(&turn, "reader 0", stream, None).await;
        turn.values.extend(first.view.captured.clone());
        let mut judgement = judge::read(&turn.script, &first, Expect::Whole);
        if self.target.adapter.promises.gapless {
            judgement.merge(judge::gapless(&first));
        }
        let requests = &self.target.adapter.requests;
        let call = requests.follow.as_ref().or(requests.read.as_ref());
        let Some(call) = call.filter(|_| !self.shows_stored()) else {
            return Ok(judgement);
        };
        let (_, view) = self.listen(call, &turn).await?;
        if view.terminals > 1 {
            judgement.find(Verdict::Duplicated, format!("the turn has {} ends", view.terminals));
        } else if view.terminals == 0 && !self.target.adapter.stream.ends_with_body {
            judgement.find(Verdict::Error, "a reader of the ended turn sees no end");
        }
        if view.late > 0 {
            judgement.find(
                Verdict::Duplicated,
                format!("{} frames with text after the end", view.late),
            );
        }
        let all = Read {
            name: "reader of all".to_owned(),
            view,
            ..Read::default()
        };
        if self.target.adapter.promises.gapless {
            judgement.merge(judge::gapless(&all));
        }
        Ok(judgement)
    }

    /// Whether an ended turn is read from what is stored.
    fn shows_stored(&self) -> bool {
        self.target.adapter.stream.stored_at_end
    }

    async fn post_twice(&self, random: &mut Random) -> Result<Judgement> {
        let turn = self.target.turn(self.script(), random);
        let posts = (0..POSTS).map(|nth| {
            let mut turn = turn.clone();
            async move {
                let stream = self.target.post(&mut turn).await?;
                let read = self.read(&turn, &format!("reader of post {nth}"), stream, None).await;
                anyhow::Ok(judge::read(&turn.script, &read, Expect::Whole))
            }
        });
        let (mut judgement, mut refused) = (Judgement::default(), 0);
        for posted in join_all(posts).await {
            match posted {
                Ok(found) => judgement.merge(found),
                // In flight: its client tries again.
                Err(error) if format!("{error:#}").contains(" 409") => refused += 1,
                Err(error) => judgement.find(Verdict::Error, format!("{error:#}")),
            }
        }
        if refused == POSTS {
            judgement.find(Verdict::Error, "all posts were refused");
        }
        let answers = self.target.scripted.world.calls(&turn.script.id).len();
        if answers > 1 {
            judgement.find(Verdict::Duplicated, format!("one message was answered {answers} times"));
        }
        Ok(judgement)
    }

    async fn second_message(&self, random: &mut Random) -> Result<Judgement> {
        let world = &self.target.scripted.world;
        let busy = self.target.adapter.promises.busy;
        let script = self.script();
        let point = Point::Words {
            step: 0,
            count: random.between(2, WORDS - 2),
        };
        world.gate.hold(&script.id, point);
        let mut first = self.target.turn(script.clone(), random);
        let second_script = Script::words(format!("{}-next", self.id), WORDS, PACE_MS);
        let stream = self.target.post(&mut first).await?;
        let mut second = self.target.next_turn(&first, second_script.clone(), random);
        let reading = self.read(&first, "reader of the first", stream, None);
        let posting = async {
            let limit = Duration::from_secs(self.target.adapter.limits.turn_s);
            world.gate.reached(&script.id, point, limit).await;
            let next = async {
                let stream = self.target.post_next(&mut second).await?;
                anyhow::Ok(self.read(&second, "reader of the second", stream, None).await)
            };
            let go_on = async {
                sleep(BUSY_PAUSE).await;
                let began = !world.calls(&second_script.id).is_empty();
                world.gate.release(&script.id, point);
                began
            };
            tokio::join!(next, go_on)
        };
        let (read, (next, began)) = tokio::join!(reading, posting);
        let mut judgement = judge::read(&script, &read, Expect::Whole);
        match (next, busy) {
            (Ok(read), _) => judgement.merge(judge::read(&second_script, &read, Expect::Whole)),
            (Err(_), Busy::Reject) => {}
            (Err(error), _) => judgement.find(Verdict::Error, format!("the second message: {error:#}")),
        }
        if began && matches!(busy, Busy::Queue | Busy::Reject) {
            judgement.find(Verdict::Error, "two turns of one conversation ran at once");
        }
        Ok(judgement)
    }

    async fn sub_agent(&self, random: &mut Random) -> Result<Judgement> {
        let world = &self.target.scripted.world;
        let script = Script::with_sub_agent(self.id.clone(), SUB_WORDS, PACE_MS);
        let (turn, mut judgement) = self.whole(script, random).await?;
        let of_sub_agent = turn.script.of_sub_agent(0);
        if world.calls(&of_sub_agent.id).is_empty() {
            judgement.find(Verdict::Error, "the sub-agent was not asked");
        }
        let last = word(0, 0, SUB_WORDS);
        let is_given = |call: ModelCall| call.step == 1 && call.results.join(" ").contains(last.trim());
        if !world.calls(&turn.script.id).into_iter().any(is_given) {
            judgement.find(Verdict::Lost, "the agent was not given the answer of its sub-agent");
        }
        Ok(judgement)
    }

    async fn hundred_at_once(&self, random: &mut Random) -> Result<Judgement> {
        let turns: Vec<Turn> = (0..AT_ONCE)
            .map(|nth| {
                let script = Script::words(format!("{}-{nth}", self.id), WORDS, PACE_MS);
                self.target.turn(script, random)
            })
            .collect();
        let all = turns.into_iter().enumerate().map(|(nth, mut turn)| async move {
            let stream = self.target.post(&mut turn).await?;
            let read = self.read(&turn, &format!("reader {nth}"), stream, None).await;
            anyhow::Ok(judge::read(&turn.script, &read, Expect::Whole))
        });
        let mut judgement = Judgement::default();
        let mut bad = 0;
        for found in join_all(all).await {
            let found = found.unwrap_or_else(|error| Judgement::of(Verdict::Error, format!("{error:#}")));
            bad += usize::from(!found.verdict.is_good());
            judgement.merge(found);
        }
        if bad > 0 {
            judgement.details.insert(0, format!("{bad} of {AT_ONCE} turns"));
        }
        Ok(judgement)
    }

    async fn after_database_restart(&self, random: &mut Random) -> Result<Played> {
        self.target.restart(Which::Database, self.transcript).await?;
        let plan = planned::leave_and_return(random, &self.target.adapter, self.id.clone());
        play::play(self.target, &plan, random, self.transcript).await
    }

    async fn database_killed_at_post(&self, random: &mut Random) -> Result<Judgement> {
        let mut turn = self.target.turn(self.script(), random);
        let slow = Weather {
            delay: Duration::from_millis(random.between(50, 300).try_into().unwrap_or(100)),
            ..Weather::default()
        };
        self.target.set(slow, self.transcript);
        let posted = self.target.post(&mut turn).await;
        self.target.restart(Which::Database, self.transcript).await?;
        self.target.set(Weather::default(), self.transcript);
        let stream = match posted {
            Ok(stream) => stream,
            Err(error) if self.target.adapter.promises.idempotent => {
                self.transcript.note(&format!("posted again: {error:#}"));
                self.target.post(&mut turn).await?
            }
            // It was not confirmed.
            Err(error) => {
                return Ok(Judgement {
                    details: vec![format!("the post was refused: {error:#}")],
                    ..Judgement::default()
                });
            }
        };
        let read = self.read(&turn, "reader 0", stream, None).await;
        Ok(judge::read(&turn.script, &read, Expect::Whole))
    }
}

/// A channel without commands.
fn silent() -> mpsc::Receiver<crate::reader::Command> {
    let (_, commands) = mpsc::channel(1);
    commands
}
