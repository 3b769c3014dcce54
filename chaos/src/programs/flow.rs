//! A durable function: it pays in a step that must not be repeated, hands its call back to wait, and goes on with what is recorded. Its
//! programs are gone, hang and repeat themselves like those of other calls.

use std::time::Duration;

use rand::random;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Mood, Program, RETRY, id_of};
use crate::client::answer_of;
use crate::evidence::RecordedStep;

const PAY_STEP: i64 = 1;
const WAIT_STEP: i64 = 2;
const LAST_STEP: i64 = 3;

impl Program {
    pub(super) async fn flow(&self, id: &str, call: &Value, mood: Mood) {
        let attempt = call["attempt"].as_i64().unwrap_or_default();
        let hold = Duration::from_millis(call["input"]["hold_ms"].as_u64().unwrap_or_default());
        if mood == Mood::Gone {
            self.gone.cancel();
            return;
        }
        if mood == Mood::Hangs {
            sleep(self.client.world.lease + self.client.world.lease / 2).await;
        }
        let Some(known) = self.steps(call).await else { return };
        let of_number = |number: i64| known.iter().find(|step| step["number"] == number);
        let paid = match of_number(PAY_STEP) {
            // It may have paid, and does not pay again.
            Some(step) if step["status"] == "begun" => Value::Null,
            Some(step) => step["output"].clone(),
            None => {
                if !self.record(id, call, PAY_STEP, "begun", None).await {
                    return;
                }
                self.act(call, 0);
                if mood == Mood::ActsAndIsGone {
                    self.gone.cancel();
                    return;
                }
                let paid = json!(random::<u32>());
                if !self.held(id, call, hold).await || !self.record(id, call, PAY_STEP, "completed", Some(&paid)).await
                {
                    return;
                }
                paid
            }
        };
        if of_number(WAIT_STEP).is_none() {
            let wait = json!({"kind": "sleep", "seconds": hold.as_secs_f64()});
            let steps = json!([{"number": WAIT_STEP, "name": "wait", "wait": wait}]);
            let body = json!({"workerId": id, "attempt": attempt, "steps": steps});
            for _ in 0..if mood == Mood::CompletesTwice { 2 } else { 1 } {
                self.settle(call, "suspension", &body).await;
            }
            return;
        }
        if of_number(LAST_STEP).is_none() && !self.record(id, call, LAST_STEP, "completed", Some(&paid)).await {
            return;
        }
        let output = json!({"done": call["input"]["step"], "attempt": attempt, "paid": paid});
        let body = json!({"workerId": id, "attempt": attempt, "output": output});
        self.complete(call, attempt, &body).await;
    }

    /// Returns the recorded steps of a call. None: it is gone.
    pub(super) async fn steps(&self, call: &Value) -> Option<Vec<Value>> {
        let path = format!(
            "/api/workers/default/calls/{}/steps",
            call["id"].as_str().unwrap_or_default()
        );
        loop {
            match answer_of(self.client.request(Method::GET, &path)).await {
                Some((StatusCode::OK, page)) => return page["items"].as_array().cloned(),
                Some((status, _)) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                    return None;
                }
                Some(_) | None => sleep(RETRY).await,
            }
        }
    }

    /// Records a step. False: the attempt does not have the call.
    pub(super) async fn record(
        &self,
        id: &str,
        call: &Value,
        number: i64,
        status: &str,
        output: Option<&Value>,
    ) -> bool {
        let body = json!({
            "workerId": id, "attempt": call["attempt"], "number": number, "name": format!("step {number}"),
            "status": status, "output": output,
        });
        let is_recorded = self.settle(call, "steps", &body).await;
        if let (true, Some(output)) = (is_recorded, output) {
            self.client.world.evidence.step(&RecordedStep {
                run_id: id_of(&call["runId"]),
                call_id: call["callId"].as_str().unwrap_or_default().to_owned(),
                number,
                output: output.clone(),
            });
        }
        is_recorded
    }
}
