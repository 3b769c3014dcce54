//! The function of an agent: it writes the words of a plan, in two steps, while it works. Its programs are gone, hang and repeat themselves like
//! those of other calls. Readers must get each word once.

use std::time::Duration;

use rand::random_range;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Mood, Program};
use crate::plan::Plan;

const STEPS: i64 = 2;
/// Maximum number of words of a piece.
const WORDS_MAX: usize = 3;

impl Program {
    pub(super) async fn answer(&self, id: &str, call: &Value, mood: Mood) {
        let Some(plan) = Plan::of(call["input"]["message"].as_str().unwrap_or_default()) else {
            return;
        };
        let Some(known) = self.steps(call).await else { return };
        let reply = plan.reply();
        let words: Vec<&str> = reply.split_inclusive(' ').collect();
        let (first, second) = words.split_at(words.len() / 2);
        for (number, words) in (1..=STEPS).zip([first, second]) {
            // Like a model, it does not write the same pieces again.
            let words: Vec<String> = words
                .chunks(random_range(1..=WORDS_MAX))
                .map(<[&str]>::concat)
                .collect();
            if known.iter().any(|step| step["number"] == number) {
                continue;
            }
            for (piece, word) in (1..).zip(&words) {
                // In the middle of a step.
                let is_middle = piece == words.len() / 2;
                match mood {
                    Mood::Gone | Mood::ActsAndIsGone if is_middle && (number == 1) == (mood == Mood::Gone) => {
                        self.gone.cancel();
                        return;
                    }
                    Mood::Hangs if is_middle => sleep(self.client.world.lease + self.client.world.lease / 2).await,
                    _ => {}
                }
                let body = json!({
                    "workerId": id, "attempt": call["attempt"], "step": number, "piece": piece, "text": word,
                });
                for _ in 0..if mood == Mood::CompletesTwice { 2 } else { 1 } {
                    if !self.settle(call, "text", &body).await {
                        return;
                    }
                }
                if !self.held(id, call, Duration::from_millis(plan.pace_ms)).await {
                    return;
                }
            }
            if mood == Mood::Retries && number == STEPS {
                let body = json!({"workerId": id, "attempt": call["attempt"], "error": "not now", "retry": true});
                self.settle(call, "failure", &body).await;
                return;
            }
            if !self
                .record(id, call, number, "completed", Some(&json!(words.len())))
                .await
            {
                return;
            }
        }
        let attempt = call["attempt"].as_i64().unwrap_or_default();
        let body = json!({"workerId": id, "attempt": attempt, "output": Value::Null});
        self.complete(call, attempt, &body).await;
    }
}
