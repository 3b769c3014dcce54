//! Carries out a plan: posts the message, lets readers read, does what the plan says at its moments, and judges. Called by `suite`.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::capture;
use crate::gate::Point;
use crate::judge::{self, Effect, Expect};
use crate::plan::{Action, Deed, Moment, Plan};
use crate::proxy::Weather;
use crate::random::Random;
use crate::reader::{Command, Progress, Read, Reader};
use crate::script::{Script, Word};
use crate::scripted::CallState;
use crate::stream_rules::End;
use crate::target::{Target, Turn};
use crate::template::Values;
use crate::transcript::Transcript;
use crate::verdict::{Judgement, Verdict};

/// Commands of a reader that it has not obeyed yet.
const COMMANDS: usize = 64;
/// From a cancellation until the model goes on, if it is still asked.
const CANCEL_PAUSE: Duration = Duration::from_millis(500);
/// How long the stored answer of an ended turn may take.
const STORED_LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a post without an answer is repeated, where that is safe.
const POST_TRIES: usize = 100;

/// What a plan has shown.
#[derive(Debug, Default)]
pub struct Played {
    pub judgement: Judgement,
    /// From the last fault until a word that the model said after it.
    pub go_on_ms: Option<u64>,
}

/// A reader that the director commands.
struct Seat {
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
}

/// The times of deeds.
#[derive(Debug, Clone, Default)]
struct Times {
    /// The last fault.
    fault: Option<Fault>,
    cancel_ms: Option<u64>,
    cancel_status: Option<u16>,
}

#[derive(Debug, Clone)]
struct Fault {
    at_ms: u64,
    /// What the model had said. Words that were on their way are not new.
    said: HashSet<Word>,
}

struct Stage<'a> {
    target: &'a Target,
    plan: &'a Plan,
    transcript: &'a Transcript,
    /// The turn, once it was posted.
    posted: watch::Receiver<Option<Turn>>,
    seats: Vec<Seat>,
}

/// # Errors
/// The suite itself fails, or a part of the server can't be started again.
pub async fn play(target: &Target, plan: &Plan, random: &mut Random, transcript: &Transcript) -> Result<Played> {
    let id = plan.script.id.as_str();
    for action in &plan.actions {
        if let Moment::At(point) = action.at {
            target.scripted.world.gate.hold(id, point);
        }
    }
    let turn = target.turn(plan.script.clone(), random);
    let (post, posted) = watch::channel(None);
    let mut seats = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..plan.readers {
        let (commands, heard) = mpsc::channel(COMMANDS);
        let (progress, followed) = watch::channel(Progress::default());
        seats.push(Seat {
            commands,
            progress: followed,
        });
        ends.push((heard, progress));
    }
    let mut ends = ends.into_iter();
    let Some((heard, progress)) = ends.next() else {
        anyhow::bail!("a plan needs a reader");
    };
    let first = seats[0].progress.clone();
    let main = poster(target, transcript, turn, plan.slow_ms, post, heard, progress);
    let joiners = ends.enumerate().map(|(nth, (heard, progress))| {
        joiner(
            target,
            transcript,
            nth + 1,
            posted.clone(),
            first.clone(),
            heard,
            progress,
        )
    });
    let stage = Stage {
        target,
        plan,
        transcript,
        posted: posted.clone(),
        seats,
    };
    let (main, others, times) = tokio::join!(main, join_all(joiners), stage.direct());
    let (main, turn) = main;
    let times = times?;
    target.settle(transcript).await?;
    let others: Vec<Read> = others.into_iter().flatten().collect();
    Ok(judged(target, plan, transcript, &main, &others, turn.as_ref(), &times).await)
}

/// Posts, and reads as reader 0.
async fn poster(
    target: &Target,
    transcript: &Transcript,
    mut turn: Turn,
    slow_ms: u64,
    post: watch::Sender<Option<Turn>>,
    heard: mpsc::Receiver<Command>,
    progress: watch::Sender<Progress>,
) -> (Read, Option<Turn>) {
    match posted(target, transcript, &mut turn).await {
        Ok(stream) => {
            post.send_replace(Some(turn.clone()));
            let reader = Reader::new(target, transcript, &turn, "reader 0", progress);
            let read = reader.slow(Duration::from_millis(slow_ms)).follow(stream, heard).await;
            turn.values.extend(read.view.captured.clone());
            (read, Some(turn))
        }
        Err(error) => {
            progress.send_modify(|progress| progress.has_ended = true);
            let mut read = Read {
                name: "reader 0".to_owned(),
                ..Read::default()
            };
            read.view.errors.push(format!("{error:#}"));
            (read, None)
        }
    }
}

/// Posts; again, if there was no answer and the product recognizes the message.
async fn posted(target: &Target, transcript: &Transcript, turn: &mut Turn) -> Result<Option<crate::wire::Response>> {
    let tries = if target.adapter.promises.idempotent {
        POST_TRIES
    } else {
        1
    };
    let deadline = Instant::now() + Duration::from_secs(target.adapter.limits.turn_s);
    let mut attempt = 1;
    loop {
        match target.post(turn).await {
            Ok(stream) => {
                transcript.note("posted");
                return Ok(stream);
            }
            Err(error) if attempt < tries && Instant::now() < deadline => {
                transcript.note(&format!("post {attempt}: {error:#}"));
                attempt += 1;
                sleep(LOOK_EVERY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits until it is asked to begin, and reads. None: it was not asked.
async fn joiner(
    target: &Target,
    transcript: &Transcript,
    nth: usize,
    mut posted: watch::Receiver<Option<Turn>>,
    first: watch::Receiver<Progress>,
    mut heard: mpsc::Receiver<Command>,
    progress: watch::Sender<Progress>,
) -> Option<Read> {
    heard.recv().await?;
    let mut turn = posted.wait_for(Option::is_some).await.ok()?.clone()?;
    // What the product calls the turn may be in frames alone.
    turn.values.extend(first.borrow().captured.clone());
    let reader = Reader::new(target, transcript, &turn, &format!("reader {nth}"), progress);
    Some(reader.follow(None, heard).await)
}

impl Stage<'_> {
    /// Does what the plan says. Consumes the seats: without them, readers wait for no command.
    async fn direct(mut self) -> Result<Times> {
        let mut times = Times::default();
        let done = self.do_all(&mut times).await;
        self.target.scripted.world.gate.release_all(&self.plan.script.id);
        done?;
        Ok(times)
    }

    async fn do_all(&mut self, times: &mut Times) -> Result<()> {
        let plan = self.plan;
        for group in plan.actions.chunk_by(|one, other| one.at == other.at) {
            match group[0].at {
                Moment::At(point) => {
                    self.wait_at(point).await;
                    for action in group {
                        if action.deed.lets_go_on() {
                            self.target.scripted.world.gate.release(&plan.script.id, point);
                        }
                        self.act(action, times).await?;
                    }
                    self.target.scripted.world.gate.release(&plan.script.id, point);
                }
                Moment::AfterEnd => {
                    self.wait_for_end().await;
                    for action in group {
                        self.act(action, times).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the turn is at a point, and reader 0 has what was said before.
    async fn wait_at(&mut self, point: Point) {
        let limit = Duration::from_secs(self.target.adapter.limits.turn_s);
        let gate = &self.target.scripted.world.gate;
        let mut first = self.seats[0].progress.clone();
        let has_ended = first.wait_for(|progress| progress.has_ended);
        let is_reached = tokio::select! {
            is_reached = gate.reached(&self.plan.script.id, point, limit) => is_reached,
            _ = has_ended => false,
        };
        self.transcript.note(&format!(
            "{point:?}: {}",
            if is_reached { "reached" } else { "never reached" }
        ));
        let words = self.plan.words_before(point);
        let mut first = self.seats[0].progress.clone();
        let caught_up = first.wait_for(|progress| progress.words >= words || progress.has_ended);
        let limit = Duration::from_millis(self.target.adapter.limits.catch_up_ms);
        let _ = timeout(limit, caught_up).await;
    }

    async fn wait_for_end(&self) {
        let limit = Duration::from_secs(self.target.adapter.limits.turn_s);
        let mut first = self.seats[0].progress.clone();
        let _ = timeout(limit, first.wait_for(|progress| progress.has_ended)).await;
    }

    async fn act(&mut self, action: &Action, times: &mut Times) -> Result<()> {
        self.transcript.note(&action.to_string());
        if action.deed.is_fault() {
            times.fault = Some(Fault {
                at_ms: self.transcript.now_ms(),
                said: self.target.scripted.world.said(&self.plan.script.id),
            });
        }
        let (target, transcript) = (self.target, self.transcript);
        match action.deed {
            Deed::Cut { reader, cut, after } => self.command(reader, Command::Cut(cut, after)).await,
            Deed::Leave { reader, away_ms } => {
                self.command(reader, Command::Leave(Duration::from_millis(away_ms)))
                    .await;
            }
            Deed::Join { reader } => self.command(reader, Command::Begin).await,
            Deed::Restart { which } => target.restart(which, transcript).await?,
            Deed::Drain { which } => target.drain(which, transcript).await?,
            Deed::Pause => {
                target.pause_workers(transcript).await?;
                sleep(Duration::from_secs(target.adapter.limits.pause_s)).await;
                target.continue_workers(transcript).await;
            }
            Deed::Partition { for_ms } => {
                let weather = Weather {
                    is_silent: true,
                    ..Weather::default()
                };
                self.weather(weather, for_ms).await;
            }
            Deed::Slow { by_ms, for_ms } => {
                let weather = Weather {
                    delay: Duration::from_millis(by_ms),
                    ..Weather::default()
                };
                self.weather(weather, for_ms).await;
            }
            Deed::LoseAnswers { for_ms } => {
                let weather = Weather {
                    loses_answers: true,
                    ..Weather::default()
                };
                self.weather(weather, for_ms).await;
            }
            Deed::FailOver => target.fail_over(transcript).await?,
            Deed::Cancel => self.cancel(times).await,
        }
        for seat in &self.seats {
            // Full or gone: it is reading.
            let _ = seat.commands.try_send(Command::Patience);
        }
        Ok(())
    }

    async fn command(&self, reader: usize, command: Command) {
        if let Some(seat) = self.seats.get(reader) {
            // It may have ended.
            let _ = seat.commands.send(command).await;
        }
    }

    async fn weather(&self, weather: Weather, for_ms: u64) {
        self.target.set(weather, self.transcript);
        sleep(Duration::from_millis(for_ms)).await;
        self.target.set(Weather::default(), self.transcript);
    }

    async fn cancel(&mut self, times: &mut Times) {
        let Ok(Some(turn)) = self.posted.wait_for(Option::is_some).await.map(|turn| turn.clone()) else {
            return;
        };
        // What the product calls the turn may be in frames alone.
        let names = capture::of_frames(&self.target.adapter.requests.post);
        let limit = Duration::from_millis(self.target.adapter.limits.catch_up_ms);
        let mut first = self.seats[0].progress.clone();
        let named = first
            .wait_for(|progress| progress.has_ended || names.keys().all(|name| progress.captured.contains_key(name)));
        let _ = timeout(limit, named).await;
        let mut values = turn.values;
        values.extend(self.seats[0].progress.borrow().captured.clone());
        times.cancel_ms = Some(self.transcript.now_ms());
        match self.target.cancel(&values).await {
            Ok(status) => {
                self.transcript.note(&format!("cancelled: {status}"));
                times.cancel_status = Some(status);
            }
            Err(error) => self.transcript.note(&format!("not cancelled: {error:#}")),
        }
        sleep(CANCEL_PAUSE).await;
    }
}

async fn judged(
    target: &Target,
    plan: &Plan,
    transcript: &Transcript,
    main: &Read,
    others: &[Read],
    turn: Option<&Turn>,
    times: &Times,
) -> Played {
    let mut judgement = judge::read(&plan.script, main, plan.expect);
    for other in others {
        judgement.merge(judge::read(&plan.script, other, plan.expect));
    }
    if target.adapter.promises.gapless {
        judgement.merge(judge::gapless(main));
    }
    let go_on_ms = times
        .fault
        .as_ref()
        .and_then(|fault| judge::goes_on(main, fault.at_ms, &fault.said));
    if let (Some(limit_s), Some(took_ms)) = (plan.go_on_within_s, go_on_ms)
        && took_ms > limit_s * 1_000
    {
        judgement.find(
            Verdict::Hang,
            format!("new words came after {took_ms} ms; {limit_s} s are promised"),
        );
    }
    if let Some(turn) = turn
        && plan.expect == Expect::Whole
        && main.view.ended == Some(End::Completed)
    {
        judgement.merge(stored(target, &plan.script, &turn.values, transcript).await);
    }
    for call in plan.script.calls() {
        judgement.merge(judge::effect(
            &effect(target, &plan.script, &call),
            plan.expect == Expect::Whole,
        ));
    }
    if plan.expect == Expect::Beginning {
        judgement.merge(cancelled(target, plan, main, times).await);
    }
    Played { judgement, go_on_ms }
}

/// Waits until the stored answer is whole, and judges it.
async fn stored(target: &Target, script: &Script, values: &Values, transcript: &Transcript) -> Judgement {
    if target.adapter.requests.stored.is_none() {
        return Judgement::default();
    }
    let deadline = Instant::now() + STORED_LIMIT;
    loop {
        let found = target.stored(values).await;
        let judgement = match &found {
            Ok(Some(text)) => judge::stored(script, text),
            Ok(None) => Judgement::of(Verdict::Lost, "no answer is stored"),
            Err(error) => Judgement::of(Verdict::Error, format!("the stored answer: {error:#}")),
        };
        if judgement.verdict.is_good() || Instant::now() > deadline {
            transcript.note(&format!("stored: {found:?}"));
            return judgement;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// What a call has left.
pub fn effect(target: &Target, script: &Script, call: &str) -> Effect {
    let world = &target.scripted.world;
    let step = call.rsplit_once(':').and_then(|(_, step)| step.parse::<usize>().ok());
    let asked = world
        .calls(&script.id)
        .into_iter()
        .rfind(|asked| Some(asked.step) == step.map(|step| step + 1));
    Effect {
        call: call.to_owned(),
        count: world.effects(call),
        result: asked.map(|asked| asked.results.join(" ")),
    }
}

/// Judges the end of a cancelled turn.
async fn cancelled(target: &Target, plan: &Plan, main: &Read, times: &Times) -> Judgement {
    let mut judgement = Judgement::default();
    let limit_s = target.adapter.limits.cancel_s;
    let Some(cancel_ms) = times.cancel_ms else {
        return Judgement::of(Verdict::Error, "the turn could not be cancelled: it was not posted");
    };
    match times.cancel_status {
        Some(status) if status < 400 => {}
        Some(status) => judgement.find(Verdict::Error, format!("the cancellation was refused with {status}")),
        None => judgement.find(Verdict::Error, "the cancellation had no answer"),
    }
    if main.over_ms.saturating_sub(cancel_ms) > limit_s * 1_000 && !main.is_hung {
        let took_ms = main.over_ms - cancel_ms;
        judgement.find(
            Verdict::Hang,
            format!("the stream ended {took_ms} ms after the cancellation"),
        );
    }
    let shown = crate::script::words_of(&main.view.text()).len();
    let is_early = plan.actions.iter().any(|action| {
        let at = match action.at {
            Moment::At(point) => plan.words_before(point),
            Moment::AfterEnd => usize::MAX,
        };
        action.deed == Deed::Cancel && at < plan.script.total()
    });
    if is_early && shown == plan.script.total() && main.view.ended == Some(End::Completed) {
        judgement.find(Verdict::Error, "the turn was cancelled, and went on to its end");
    }
    let is_asked = || {
        let calls = target.scripted.world.calls(&plan.script.id);
        calls.iter().any(|call| call.state == CallState::Running)
    };
    let deadline = Instant::now() + Duration::from_secs(limit_s);
    while is_asked() {
        if Instant::now() > deadline {
            judgement.find(
                Verdict::Error,
                format!("the model is still asked {limit_s} s after the cancellation"),
            );
            break;
        }
        sleep(LOOK_EVERY).await;
    }
    let before_effect = |action: &Action| {
        action.deed == Deed::Cancel
            && matches!(
                action.at,
                Moment::At(Point::Start { step: 0 } | Point::Words { step: 0, .. })
            )
    };
    if plan.actions.iter().any(before_effect) {
        for call in plan.script.calls() {
            if target.scripted.world.effects(&call) > 0 {
                judgement.find(Verdict::Error, format!("{call} has acted after the turn was cancelled"));
            }
        }
    }
    judgement
}
