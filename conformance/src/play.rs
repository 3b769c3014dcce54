//! Carries out a plan: posts the message, lets readers read, and does what the plan says at its moments. Called by `suite`.
//!
//! - `outcome` what the plan has left, judged

mod outcome;

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

pub use self::outcome::Played;
use self::outcome::{Fault, Times, judged};
use crate::capture;
use crate::gate::Point;
use crate::plan::{Action, Deed, Moment, Plan};
use crate::proxy::Weather;
use crate::random::Random;
use crate::reader::{Command, Progress, Read, Reader};
use crate::target::{Target, Turn};
use crate::transcript::Transcript;

/// Commands of a reader that it has not obeyed yet.
const COMMANDS: usize = 64;
/// From a cancellation until the model goes on, if it is still asked.
const CANCEL_PAUSE: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a post without an answer is repeated, where that is safe.
const POST_TRIES: usize = 100;

/// A reader that the director commands.
struct Seat {
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
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
