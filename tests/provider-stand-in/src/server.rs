//! The server: receives requests, validates them, serves a turn for each, and records everything.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::NaiveDate;
use rejoin_models::{Tokens, catalogue};
use serde_json::Value;
use tokio::sync::watch;

use super::account::{Caches, Caching};
use super::answer::{Answer, Call, Reasoning};
use super::delivery;
use super::ledger::{Ledger, Made, Signed};
use super::plan::{Plan, Request};
use super::protocol::Protocol;
use super::refusal::Refusal;
use super::service::Service;
use super::turn::{Trouble, Turn};
use super::{converse, gemini, messages, openrouter, responses};

/// One model call with its result.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub service: Service,
    pub protocol: Protocol,
    pub model: String,
    pub headers: HeaderMap,
    pub body: Value,
    pub outcome: Outcome,
    /// The response: the frames of a stream, or JSON. Empty until it is built.
    pub response: String,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    /// An answer was sent, or is being sent.
    Answered {
        tokens: Tokens,
        reasoning_tokens: u64,
        /// By the catalogue; None: no price.
        usd: Option<f64>,
    },
    /// A rule was violated.
    Refused { status: u16, message: String },
    /// A scripted status.
    Failed { status: u16 },
}

pub(super) struct Standin {
    pub(super) today: NaiveDate,
    pub(super) inner: Mutex<Inner>,
    pub(super) count: watch::Sender<usize>,
}

pub(super) struct Inner {
    pub(super) scripts: Vec<(String, VecDeque<Turn>)>,
    pub(super) ledger: Ledger,
    pub(super) caches: Caches,
    pub(super) caching: bool,
    pub(super) recorded: Vec<Recorded>,
    pub(super) losses: Vec<String>,
}

impl Standin {
    pub(super) fn new() -> Self {
        Self {
            today: catalogue().made,
            inner: Mutex::new(Inner {
                scripts: Vec::new(),
                ledger: Ledger::default(),
                caches: Caches::default(),
                caching: true,
                recorded: Vec::new(),
                losses: Vec::new(),
            }),
            count: watch::Sender::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic of one test thread must not hide other results.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The target of a call, by its path and query.
pub(super) struct Asked {
    pub(super) service: Service,
    pub(super) protocol: Protocol,
    pub(super) model: Option<String>,
    pub(super) streams: Option<bool>,
    pub(super) project: Option<String>,
    pub(super) query: HashMap<String, String>,
}

pub(super) async fn call(state: &Standin, asked: Asked, headers: HeaderMap, bytes: Bytes) -> Response {
    let (service, protocol) = (asked.service, asked.protocol);
    let (place, answered) = decide(state, asked, headers, &bytes);
    let record = |response: String| state.lock().recorded[place].response = response;
    state.count.send_modify(|count| *count += 1);
    match answered {
        Decided::Error {
            refusal,
            number,
            retry_after_s,
        } => {
            record(protocol.error_body(service, &refusal, number).to_string());
            error(service, protocol, &refusal, number, retry_after_s)
        }
        Decided::Answer {
            turn,
            answer,
            body,
            stream: true,
        } => {
            let frames = protocol.frames(service, &answer, &body);
            record(frames.concat());
            let error = protocol.error_event(service, answer.number);
            let mut response = delivery::stream(&turn, protocol, frames, &error);
            identify(&mut response, answer.number);
            response
        }
        Decided::Answer { turn, answer, body, .. } => {
            let whole = protocol.whole(service, &answer, &body);
            record(whole.to_string());
            delivery::hold(&turn).await;
            let mut response = Json(whole).into_response();
            identify(&mut response, answer.number);
            response
        }
    }
}

enum Decided {
    Error {
        refusal: Refusal,
        number: u64,
        retry_after_s: Option<u64>,
    },
    Answer {
        turn: Turn,
        answer: Box<Answer>,
        body: Value,
        stream: bool,
    },
}

/// Returns the response, and the call's index among the recorded ones.
fn decide(state: &Standin, asked: Asked, headers: HeaderMap, bytes: &[u8]) -> (usize, Decided) {
    let (service, protocol) = (asked.service, asked.protocol);
    let mut inner = state.lock();
    let number = inner.ledger.next();
    let place = inner.recorded.len();
    let parsed: Result<Value, _> = serde_json::from_slice(bytes);
    let request = Request {
        service,
        headers,
        body: parsed.as_ref().cloned().unwrap_or(Value::Null),
        model: asked.model,
        streams: asked.streams,
        project: asked.project,
        query: asked.query,
        key: service.key().to_owned(),
        today: state.today,
    };
    let checked = match parsed {
        Ok(_) => protocol.check(&request, &inner.ledger),
        Err(error) => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            if protocol == Protocol::Gemini {
                "INVALID_ARGUMENT"
            } else {
                "invalid_request_error"
            },
            format!("We could not parse the JSON body of your request: {error}"),
        )),
    };
    let named = request
        .model
        .clone()
        .or_else(|| request.body["model"].as_str().map(str::to_owned))
        .unwrap_or_default();
    let record = |outcome: Outcome| Recorded {
        service,
        protocol,
        model: named,
        headers: request.headers.clone(),
        body: request.body.clone(),
        outcome,
        response: String::new(),
    };
    let plan = match checked {
        Ok(plan) => plan,
        Err(refusal) => {
            inner.recorded.push(record(Outcome::Refused {
                status: refusal.status.as_u16(),
                message: refusal.message.clone(),
            }));
            let retry_after_s = None;
            return (
                place,
                Decided::Error {
                    refusal,
                    number,
                    retry_after_s,
                },
            );
        }
    };
    let turn = inner.take(&plan.opening);
    if let Trouble::Status(status, retry_after_s) = turn.trouble {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        inner.recorded.push(record(Outcome::Failed {
            status: status.as_u16(),
        }));
        return (
            place,
            Decided::Error {
                refusal: protocol.failure(service, status),
                number,
                retry_after_s,
            },
        );
    }
    let answer = inner.answer((service, protocol), number, &plan, &turn, &request.body);
    let price = catalogue().price(&format!("{}:{}", service.provider(), plan.model), state.today);
    inner.recorded.push(record(Outcome::Answered {
        tokens: answer.tokens,
        reasoning_tokens: answer.reasoning_tokens,
        usd: price.map(|price| price.of(&answer.tokens)),
    }));
    inner.losses.extend(plan.losses);
    let answered = Decided::Answer {
        turn,
        answer: Box::new(answer),
        body: request.body,
        stream: plan.stream,
    };
    (place, answered)
}

impl Inner {
    fn take(&mut self, opening: &str) -> Turn {
        self.scripts
            .iter_mut()
            .find(|(marker, turns)| opening.contains(marker.as_str()) && !turns.is_empty())
            .and_then(|(_, turns)| turns.pop_front())
            .unwrap_or_else(|| Turn::text("This was not scripted."))
    }

    /// Returns the turn with its ids, signatures and tokens, all recorded.
    fn answer(
        &mut self,
        (service, protocol): (Service, Protocol),
        number: u64,
        plan: &Plan,
        turn: &Turn,
        body: &Value,
    ) -> Answer {
        let caching = if self.caching { plan.caching } else { Caching::None };
        let place = format!("{}:{}", service.provider(), plan.model);
        let prompt = self.caches.use_for(&place, &plan.prompt, caching);
        let reasoning = plan.reasons.then(|| self.reason(protocol, number, plan, turn));
        let details = match (service, &reasoning) {
            (Service::OpenRouter, Some(reasoning)) => openrouter::details(reasoning, &plan.model),
            (_, _) => Vec::new(),
        };
        let calls = turn
            .calls
            .iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                let id = call_id(service, protocol, number, index);
                let item = format!("fc_{number:044x}{index:04x}");
                // Of parallel calls only the first is signed.
                let signature = (protocol == Protocol::Gemini && plan.signs && index == 0).then(|| {
                    let signature = gemini::signature(number, index, &plan.model);
                    let what = Signed::Call {
                        name: name.clone(),
                        arguments: arguments.clone(),
                    };
                    self.ledger.sign(signature.clone(), &plan.model, what);
                    signature
                });
                let came_with = reasoning.as_ref().map(|reasoning| reasoning.id.clone());
                self.ledger.item(&item, came_with.clone());
                let made = Made {
                    reasoning: came_with,
                    details: details.clone(),
                };
                self.ledger.call(&id, made);
                Call {
                    id,
                    item,
                    name: name.clone(),
                    arguments: arguments.clone(),
                    signature,
                }
            })
            .collect();
        let text_signature = (protocol == Protocol::Gemini && plan.signs && turn.calls.is_empty()).then(|| {
            let signature = gemini::signature(number, usize::MAX, &plan.model);
            self.ledger.sign(signature.clone(), &plan.model, Signed::Part);
            signature
        });
        let mut answer = Answer {
            number,
            model: plan.model.clone(),
            reasoning,
            text: turn.text.clone(),
            text_signature,
            calls,
            stop: turn.stop,
            tokens: Tokens::default(),
            reasoning_tokens: 0,
        };
        answer.count(turn, prompt);
        if protocol == Protocol::Responses {
            let came_with = answer.reasoning.as_ref().map(|reasoning| reasoning.id.clone());
            self.ledger.item(&responses::message_id(&answer), came_with);
            if plan.store {
                let mut items = responses::whole_input(body, &self.ledger).unwrap_or_default();
                items.extend(responses::output(&answer));
                self.ledger.store(&responses::response_id(&answer), items);
            }
        }
        answer
    }

    fn reason(&mut self, protocol: Protocol, number: u64, plan: &Plan, turn: &Turn) -> Reasoning {
        let id = format!("rs_{number:048x}");
        let shown = if plan.shown {
            turn.reasoning.clone()
        } else {
            String::new()
        };
        let signature = match protocol {
            Protocol::Messages | Protocol::Converse if plan.signs => Some((
                messages::signature(number, &plan.model),
                Signed::Thinking {
                    text: shown.clone(),
                    before: plan.bound,
                },
            )),
            Protocol::Responses if plan.signs => {
                Some((format!("gAAAAAB{number:041x}"), Signed::Reasoning { id: id.clone() }))
            }
            // OpenRouter's, which it checks by the calls that they came with.
            Protocol::Chat if plan.signs => {
                let signature = messages::signature(number, &plan.model);
                return Reasoning {
                    id,
                    shown,
                    signature: Some(signature),
                };
            }
            _ => None,
        };
        let signature = signature.map(|(signature, what)| {
            self.ledger.sign(signature.clone(), &plan.model, what);
            signature
        });
        Reasoning { id, shown, signature }
    }
}

/// Returns an id in each provider's format.
fn call_id(service: Service, protocol: Protocol, number: u64, index: usize) -> String {
    match protocol {
        // Vertex AI gives none: <https://reference.rnfirebase.io/_react-native-firebase/ai/FunctionCall.html>, on `id`.
        Protocol::Gemini if service == Service::Vertex => String::new(),
        Protocol::Converse => format!("tooluse_{number:020}{index:02}"),
        Protocol::Ollama => format!("call_{number:06}{index:02}"),
        Protocol::Chat | Protocol::Responses => format!("call_{number:020}{index:04}"),
        Protocol::Messages => format!("toolu_{number:020}{index:04}"),
        Protocol::Gemini => format!("{number:06}-{index}"),
    }
}

fn error(service: Service, protocol: Protocol, refusal: &Refusal, number: u64, retry_after_s: Option<u64>) -> Response {
    let body = protocol.error_body(service, refusal, number);
    let mut response = (refusal.status, Json(body)).into_response();
    if protocol == Protocol::Converse {
        converse::name_error(&mut response, refusal);
    }
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    identify(&mut response, number);
    response
}

/// Adds the headers by which providers identify a request.
fn identify(response: &mut Response, number: u64) {
    if let Ok(id) = HeaderValue::from_str(&messages::request_id(number)) {
        for name in ["request-id", "x-request-id"] {
            response.headers_mut().insert(HeaderName::from_static(name), id.clone());
        }
    }
}
