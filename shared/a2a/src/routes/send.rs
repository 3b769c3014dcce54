//! Messages: to a new task, or to one that works, waits or is paused.

use axum::http::StatusCode;
use rejoin_chat::ChatState;
use rejoin_chat::files::uploads;
use rejoin_chat::{posting, trigger};
use rejoin_commands::{CloseQuestion, Closing, Idempotency, PostError, PostMessage, ResumeRun, SteerRun};
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_runs::conversations;
use rejoin_runs::questions::{self, Question};
use rejoin_runs::runs::by_change::Changed;
use rejoin_sse::start;
use serde_json::{Value, json};
use uuid::Uuid;

use super::repeats::{self, Place};
use super::state::A2aState;
use super::{Call, Reply, in_time, push, refused, tasks};
use crate::envelope::Envelope;
use crate::errors::codes;
use crate::request::{Answer, Asked, SendMessageRequest, SentFile};
use crate::{Begin, Context, FIELD, Form, TaskRenderer};

/// Maximum number of answers in one message.
const ANSWERS_MAX: usize = 100;

/// A message that was stored.
struct Stored {
    run: Uuid,
    about: Context,
    begin: Begin,
}

/// Stores a message. With an envelope: streams its task; without: returns the task when it rests.
pub(super) async fn send(
    state: &A2aState,
    caller: &Caller,
    call: &Call,
    mut request: SendMessageRequest,
    stream: Option<Envelope>,
) -> Result<Reply, Problem> {
    let length = request.history_length().map_err(refused)?;
    let returns_at_once = request.configuration.return_immediately && stream.is_none();
    let config = request.configuration.task_push_notification_config.take();
    let config = config.map(|config| push::checked(state, config)).transpose()?;
    let asked = request.asked().map_err(refused)?;
    // Before anything is stored, so that a caller without a free stream is refused.
    let permit = if returns_at_once {
        None
    } else {
        Some(start::admit(&state.streams, caller)?)
    };
    let Stored { run, about, begin } = in_time(store(state, caller, call, asked)).await?;
    if let Some(config) = config {
        // After the message: what it ends is not sent. A task that rests by now is sent at once.
        in_time(push::put(state, caller, run, &config)).await?;
    }
    let owner = caller.owner();
    match (permit, stream) {
        (None, _) => {
            let length = length.and_then(|length| i64::try_from(length).ok());
            let task = in_time(tasks::get(state, caller, &call.origin, &about.task_id, length)).await?;
            Ok(Reply::Result(json!({ "task": task })))
        }
        (Some(permit), Some(envelope)) => {
            let renderer = Box::new(TaskRenderer::new(about, begin, Form::Stream(envelope), length));
            let response = start::open_rendered(&state.streams, permit, owner, run, None, renderer).await?;
            Ok(Reply::Stream(response))
        }
        (Some(permit), None) => {
            let renderer = Box::new(TaskRenderer::new(about, begin, Form::AtRest, length));
            let whole = start::whole_run(&state.streams, permit, owner, run, renderer).await?;
            let whole = whole.ok_or_else(Problem::draining)?;
            let result = serde_json::from_slice(&whole).map_err(|_| Problem::internal())?;
            Ok(Reply::Result(result))
        }
    }
}

async fn store(state: &ChatState, caller: &Caller, call: &Call, asked: Asked) -> Result<Stored, Problem> {
    if asked.answers.len() > ANSWERS_MAX {
        let detail = format!("a message can have at most {ANSWERS_MAX} answers");
        return Err(Problem::bad_request("too_many_answers", detail));
    }
    match &asked.task_id {
        None if asked.answers.is_empty() => begin(state, caller, call, asked).await,
        None => Err(Problem::bad_request(
            "task_missing",
            "a part that answers a question needs message.taskId",
        )),
        Some(id) => {
            let run = tasks::find(state, caller, id).await?;
            to_task(state, caller, call, run, asked).await
        }
    }
}

/// Begins a task, or answers the question of the context's run.
async fn begin(state: &ChatState, caller: &Caller, call: &Call, asked: Asked) -> Result<Stored, Problem> {
    let agent = match &call.agent {
        Some(name) => Some(trigger::find(state, caller, caller.workspace_id, name).await?.id),
        None => None,
    };
    let mut known = None;
    if let Some(context) = &asked.context_id {
        let mut db = caller.begin(state).await?;
        known = conversations::by_thread_or_id(&mut db, caller.owner(), context).await?;
    }
    let mut place = asked.context_id.as_deref().map_or(Place::New, Place::Context);
    if let Some(known) = &known
        && let Some(first) = repeats::begun_by(state, caller, call, &asked).await?
        && first.conversation_id == Some(known.id)
    {
        place = Place::New;
    }
    let idempotency = repeats::key(call, &asked, place)?;
    let context_id = asked.context_id.clone();
    let command = PostMessage {
        conversation_id: known.as_ref().map(|known| known.id),
        client_thread: context_id.clone().filter(|_| known.is_none()),
        agent_definition_id: agent.filter(|_| known.is_none()),
        ..message(state, caller, asked, idempotency).await?
    };
    let posted = posting::post(state, caller, command).await?;
    Ok(Stored {
        run: posted.run_id,
        about: Context {
            task_id: posted.run_id.to_string(),
            context_id: context_id.unwrap_or_else(|| posted.conversation_id.to_string()),
            origin: call.origin.clone(),
        },
        begin: Begin::After(posted.cursor),
    })
}

/// The command that stores a message with this idempotency key.
async fn message(
    state: &ChatState,
    caller: &Caller,
    asked: Asked,
    idempotency: Option<Idempotency>,
) -> Result<PostMessage, Problem> {
    posting::check_message(&asked.text, state.settings.max_message_chars)?;
    posting::check_output_schema(asked.output_schema.as_ref())?;
    Ok(PostMessage {
        idempotency,
        attached_context: Some(json!({ FIELD: asked.kept })),
        files: files(state, caller, asked.files).await?,
        output_schema: asked.output_schema,
        exhausted: state.quotas.exhausted(&state.db.pool_sqlx, caller).await?,
        ..posting::plain(state, caller, asked.text)
    })
}

/// Returns the files of a message, without duplicates; those that came with it are stored first.
async fn files(state: &ChatState, caller: &Caller, sent: Vec<SentFile>) -> Result<Vec<Uuid>, Problem> {
    let most = state.settings.files.max_message_files;
    if sent.len() > most {
        let detail = format!("a message can have at most {most} files");
        return Err(Problem::bad_request("too_many_attachments", detail));
    }
    let mut ids = Vec::with_capacity(sent.len());
    for file in sent {
        let id = match file {
            SentFile::Uploaded(id) => id,
            SentFile::Inline {
                name,
                media_type,
                content,
                ..
            } => {
                uploads::store(state, caller, &name, Some(&media_type), content.into())
                    .await
                    .map_err(of_part)?
                    .id
            }
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// The problem of a part's file. Section 5.4 of the specification has the status 400 for a media type that is not accepted; 415 is about the
/// whole request.
fn of_part(mut problem: Problem) -> Problem {
    if problem.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        problem.status = StatusCode::BAD_REQUEST;
    }
    problem
}

fn unsupported(detail: impl Into<String>) -> Problem {
    Problem::bad_request(codes::UNSUPPORTED_OPERATION, detail)
}

/// Takes a message to an existing task.
async fn to_task(
    state: &ChatState,
    caller: &Caller,
    call: &Call,
    run: Changed,
    asked: Asked,
) -> Result<Stored, Problem> {
    let about = tasks::context_of(&run, &call.origin);
    let conversation = run.conversation_id.map(|id| id.to_string());
    let is_of = |context: &String| *context == about.context_id || Some(context) == conversation.as_ref();
    if !asked.context_id.as_ref().is_none_or(is_of) {
        let detail = format!(
            "message.contextId is not the context of the task, which is {}",
            about.context_id
        );
        return Err(Problem::bad_request("context_differs", detail));
    }
    if tasks::state_of(&run).is_terminal() {
        let detail = format!(
            "the task has ended: it is {}; send the message without taskId to begin another one",
            run.state
        );
        return Err(unsupported(detail));
    }
    let first = repeats::begun_by(state, caller, call, &asked).await?;
    let begin = if first.is_some_and(|first| first.id == run.id) {
        // The task began with this message, and is read from there.
        Begin::After(0)
    } else if run.state == "paused" {
        Begin::After(resume(state, caller, &run, &asked).await?)
    } else if asked.answers.is_empty() {
        let mut db = caller.begin(state).await?;
        let awaited = questions::awaited_in(&mut db, run.log_id).await?;
        drop(db);
        if awaited.is_empty() {
            Begin::After(steer(state, caller, &run, &asked).await?)
        } else {
            reply(state, caller, call, &run, (awaited, asked)).await?
        }
    } else {
        answer(state, caller, &run, &asked.answers).await?
    };
    Ok(Stored {
        run: run.id,
        about,
        begin,
    })
}

/// Checks a message for which a task has no place but its text.
fn check_text(state: &ChatState, asked: &Asked) -> Result<(), Problem> {
    posting::check_message(&asked.text, state.settings.max_message_chars)?;
    if !asked.files.is_empty() || asked.output_schema.is_some() {
        let detail =
            "a task that does not wait for an answer takes text only; send files and an outputSchema without taskId";
        return Err(unsupported(detail));
    }
    Ok(())
}

/// Continues a paused task. Returns the number after which its new turn begins.
async fn resume(state: &ChatState, caller: &Caller, run: &Changed, asked: &Asked) -> Result<i64, Problem> {
    check_text(state, asked)?;
    if let Some(exhausted) = state.quotas.exhausted(&state.db.pool_sqlx, caller).await? {
        return Err(PostError::Exhausted(exhausted).into());
    }
    let command = ResumeRun {
        run_id: run.id,
        message: Some(&asked.text),
        user_id: Some(caller.user_id),
    };
    let resumed = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(resumed.wake);
    Ok(resumed.cursor)
}

/// Gives a working task a message. Returns the number before it.
async fn steer(state: &ChatState, caller: &Caller, run: &Changed, asked: &Asked) -> Result<i64, Problem> {
    check_text(state, asked)?;
    let command = SteerRun {
        run_id: run.id,
        message: &asked.text,
        user_id: Some(caller.user_id),
    };
    let steered = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(steered.wake);
    Ok(steered.seq - 1)
}

/// Takes a text for the answer to the open questions of a task.
async fn reply(
    state: &ChatState,
    caller: &Caller,
    call: &Call,
    run: &Changed,
    (awaited, asked): (Vec<Question>, Asked),
) -> Result<Begin, Problem> {
    let meant: Vec<Answer> = awaited
        .iter()
        .filter(|question| !question.is_for_client())
        .filter_map(|question| {
            Some(Answer {
                question: question.id,
                answer: question.meant_by(&asked.text)?,
                input: None,
            })
        })
        .collect();
    if meant.is_empty() {
        let detail = "the task waits for another answer: send one of the values that its question names, or a data part with questionId and \
            answer";
        return Err(Problem::bad_request("answer_unfit", detail));
    }
    if run.conversation_id.is_none() {
        check_text(state, &asked)?;
        return answer(state, caller, run, &meant).await;
    }
    let idempotency = repeats::key(call, &asked, Place::Task(&run.id.to_string()))?;
    let command = PostMessage {
        conversation_id: run.conversation_id,
        output_schema: None,
        ..message(state, caller, asked, idempotency).await?
    };
    let posted = posting::post(state, caller, command).await?;
    if posted.run_id == run.id {
        Ok(Begin::After(posted.cursor))
    } else {
        // Another request has answered it, and this message has begun a run.
        Err(unsupported(format!(
            "the task no longer waits: the message began the task {}",
            posted.run_id
        )))
    }
}

/// Answers questions by their ids. The same answer may be given again.
async fn answer(state: &ChatState, caller: &Caller, run: &Changed, answers: &[Answer]) -> Result<Begin, Problem> {
    let mut questions = Vec::with_capacity(answers.len());
    let mut db = caller.begin(state).await?;
    for answer in answers {
        let question = questions::get_visible(&mut *db, caller.owner(), answer.question).await?;
        questions.push(question.ok_or_else(question_not_found)?);
    }
    drop(db);
    let after = tasks::last_seq(state, caller, run.id).await?;
    let mut is_new = false;
    for (question, given) in questions.iter().zip(answers) {
        // Of this task: a sub-agent of it may ask.
        if question.run_id != run.id && !is_in_tree(state, caller, question.run_id, run.id).await? {
            return Err(question_not_found());
        }
        if !question.is_pending() {
            let same = question.check(&given.answer, given.input.as_ref()).ok();
            if same != question.answer {
                let detail = format!("the question {} is already {}", question.id, question.status);
                return Err(Problem::conflict("question_closed", detail));
            }
            continue;
        }
        close(state, caller, given).await?;
        is_new = true;
    }
    Ok(if is_new { Begin::After(after) } else { Begin::Now })
}

async fn is_in_tree(state: &ChatState, caller: &Caller, run: Uuid, root: Uuid) -> Result<bool, Problem> {
    let span = rejoin_runs::runs::span(&state.db.pool_pg, caller.owner(), run).await?;
    Ok(span.is_some_and(|(span, _)| span.root_run_id == root))
}

async fn close(state: &ChatState, caller: &Caller, given: &Answer) -> Result<(), Problem> {
    let answer: &Value = &given.answer;
    let command = CloseQuestion {
        id: given.question,
        closing: Closing::Answer {
            answer,
            input: given.input.as_ref(),
            user_id: Some(caller.user_id),
        },
    };
    let wake = rejoin_commands::execute_for(&state.db.pool_sqlx, caller.rls_scope(), &command).await?;
    state.bus.publish(wake);
    Ok(())
}

fn question_not_found() -> Problem {
    Problem::not_found("question_not_found", "The question of the task")
}
