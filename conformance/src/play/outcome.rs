//! Judges what a plan has left: what readers have seen, the stored answer, effects, and the end of a cancelled turn. Called by `play`.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::LOOK_EVERY;
use crate::gate::Point;
use crate::judge::{self, Effect, Expect};
use crate::plan::{Action, Deed, Moment, Plan};
use crate::reader::Read;
use crate::script::{Script, Word};
use crate::scripted::CallState;
use crate::stream_rules::End;
use crate::target::{Target, Turn};
use crate::template::Values;
use crate::transcript::Transcript;
use crate::verdict::{Judgement, Verdict};

/// How long the stored answer of an ended turn may take.
const STORED_LIMIT: Duration = Duration::from_secs(10);

/// What a plan has shown.
#[derive(Debug, Default)]
pub struct Played {
    pub judgement: Judgement,
    /// From the last fault until a word that the model said after it.
    pub go_on_ms: Option<u64>,
}

/// The times of deeds.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// The last fault.
    pub fault: Option<Fault>,
    pub cancel_ms: Option<u64>,
    pub cancel_status: Option<u16>,
}

#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub at_ms: u64,
    /// What the model had said. Words that were on their way are not new.
    pub said: HashSet<Word>,
}

/// Judges all of it.
pub(super) async fn judged(
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
fn effect(target: &Target, script: &Script, call: &str) -> Effect {
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
