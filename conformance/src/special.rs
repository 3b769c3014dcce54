//! Cases that are more than one turn, or read outside of one. Called by `suite`.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::adapter::{Busy, Call};
use crate::cases::{Special, planned};
use crate::cut::Cut;
use crate::frames::Decoder;
use crate::gate::Point;
use crate::judge::{self, Expect};
use crate::play::{self, Played};
use crate::proxy::Weather;
use crate::random::Random;
use crate::reader::{Progress, Read, Reader};
use crate::script::{Script, words_of};
use crate::stream_rules::Cursor;
use crate::target::{Target, Turn, Which};
use crate::transcript::Transcript;
use crate::verdict::{Judgement, Verdict};
use crate::view::View;
use crate::wire::Response;

const WORDS: usize = 30;
const PACE_MS: u64 = 5;
/// Maximum number of cuts of one stream; further ones are for other seeds.
const MAX_CUTS: usize = 150;
/// How long a response may take that has nothing to wait for.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long after the end something might follow.
const AFTER_END: Duration = Duration::from_millis(1_500);
/// Time in which a second turn would begin, if it did not wait.
const BUSY_PAUSE: Duration = Duration::from_millis(1_000);
const AT_ONCE: usize = 100;
const POSTS: usize = 5;
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
        Special::EndOnce => scene.end_once(random).await?,
        Special::PostTwice => scene.post_twice(random).await?,
        Special::SecondMessage => scene.second_message(random).await?,
        Special::HundredAtOnce => scene.hundred_at_once(random).await?,
        Special::DatabaseKilledAtPost => scene.database_killed_at_post(random).await?,
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

    async fn cut_every_byte(&self, random: &mut Random) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let Some(read) = &self.target.adapter.requests.read else {
            return Ok(Judgement::of(Verdict::Unsupported, "the adapter has no `read`"));
        };
        let (length, _) = self.listen(read, &turn).await?;
        let stride = length.div_ceil(MAX_CUTS).max(1);
        let mut at = random.between(0, stride - 1);
        while at < length && judgement.verdict.is_good() {
            let name = format!("reader cut after byte {at}");
            let read = self
                .reader(&turn, &name)
                .cutting(Cut::AnyByte, at)
                .follow(None, silent())
                .await;
            judgement.merge(judge::read(&turn.script, &read, Expect::Whole));
            at += stride;
        }
        self.transcript.note(&format!("{length} bytes, a cut each {stride}"));
        Ok(judgement)
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

    async fn cursor_before(&self, random: &mut Random) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let whole = self.read(&turn, "reader of all", None, None).await;
        judgement.merge(judge::read(&turn.script, &whole, Expect::Whole));
        for _ in 0..3 {
            judgement.merge(self.suffix(&turn, &whole, random).await);
        }
        Ok(judgement)
    }

    /// Reads from an earlier cursor: the frames must be those that followed it the first time.
    async fn suffix(&self, turn: &Turn, whole: &Read, random: &mut Random) -> Judgement {
        let cursors = positions(&whole.view.cursors);
        if cursors.len() < 3 {
            return Judgement::of(Verdict::Error, "the stream has fewer than three cursors");
        }
        let at = random.between(0, cursors.len() - 2);
        let from = &cursors[at].1;
        let again = self
            .read(turn, &format!("reader from {from}"), None, Some(from.clone()))
            .await;
        let (expected, found) = (&cursors[at + 1..], positions(&again.view.cursors));
        let is_same = match self.target.adapter.stream.cursor {
            // A new reader counts from the beginning.
            Cursor::Count => found.len() == expected.len(),
            _ => found
                .iter()
                .map(|(position, _)| position)
                .eq(expected.iter().map(|(position, _)| position)),
        };
        if is_same {
            return Judgement::default();
        }
        let verdict = if found.len() > expected.len() {
            Verdict::Duplicated
        } else {
            Verdict::Lost
        };
        Judgement::of(
            verdict,
            format!(
                "from cursor {from}: {} frames, and {} followed it before",
                found.len(),
                expected.len()
            ),
        )
    }

    async fn cursor_ahead(&self, random: &mut Random) -> Result<Judgement> {
        match self.target.adapter.stream.cursor_ahead.clone() {
            Some(cursor) => self.odd_cursor(random, &cursor).await,
            None => Ok(Judgement::of(Verdict::Unsupported, "the adapter has no `cursor_ahead`")),
        }
    }

    /// A cursor that no stream has given.
    async fn odd_cursor(&self, random: &mut Random, cursor: &str) -> Result<Judgement> {
        let (mut turn, mut judgement) = self.whole(self.script(), random).await?;
        let Some(call) = &self.target.adapter.requests.read_from else {
            return Ok(Judgement::of(Verdict::Unsupported, "the adapter has no `read_from`"));
        };
        turn.values.insert("cursor".to_owned(), cursor.to_owned());
        let mut response = self.target.ask(call, &turn.values).await?;
        let status = response.status;
        self.transcript.note(&format!("cursor {cursor}: {status}"));
        let says_so = (400..500).contains(&status) || self.target.adapter.stream.nothing_follows.contains(&status);
        if says_so {
            return Ok(judgement);
        }
        if status != 200 {
            judgement.find(Verdict::Error, format!("the cursor {cursor} is answered with {status}"));
            return Ok(judgement);
        }
        match response.text(ANSWER_LIMIT).await {
            Ok(body) => {
                let rules = &self.target.adapter.stream;
                let mut view = View::default();
                for frame in Decoder::new(rules.framing).push(body.as_bytes()) {
                    view.apply(&frame, rules, &std::collections::BTreeMap::new());
                }
                let is_whole = judge::text(&turn.script, &view.text(), Expect::Whole).verdict.is_good();
                if !is_whole && view.errors.is_empty() {
                    let words = words_of(&view.text()).len();
                    let detail =
                        format!("the cursor {cursor} is answered with {words} words, as if nothing were missing");
                    judgement.find(Verdict::Lost, detail);
                }
            }
            Err(_) => judgement.find(
                Verdict::Hang,
                format!("the cursor {cursor} is answered with a stream that never ends"),
            ),
        }
        Ok(judgement)
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

    async fn aged(&self, random: &mut Random, age_s: u64) -> Result<Judgement> {
        let (turn, mut judgement) = self.whole(self.script(), random).await?;
        let whole = self.read(&turn, "reader of all", None, None).await;
        let further = [("age_s", age_s.to_string())];
        self.target.run(&self.target.adapter.age, &further).await?;
        judgement.merge(self.suffix(&turn, &whole, random).await);
        let again = self.read(&turn, "reader of an old turn", None, None).await;
        judgement.merge(judge::read(&turn.script, &again, Expect::Whole));
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

/// The different positions of cursors, each with one that names it: several frames may share one, with or without leading zeros.
fn positions(cursors: &[String]) -> Vec<(String, String)> {
    let position = |cursor: &String| (cursor.trim_start_matches('0').to_owned(), cursor.clone());
    let mut positions: Vec<(String, String)> = cursors.iter().map(position).collect();
    positions.dedup_by(|one, other| one.0 == other.0);
    positions
}

/// A channel without commands.
fn silent() -> mpsc::Receiver<crate::reader::Command> {
    let (_, commands) = mpsc::channel(1);
    commands
}
