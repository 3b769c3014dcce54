//! Tools over consoles, the texts that a user edits beside the chat. A call refers to the console that it names, else
//! the conversation's pinned one, else the one that was active when the user wrote. Changes to a console outside the
//! conversation need the user's consent (`switch_console` is always confirmed); a run without a conversation changes no
//! console of a conversation.
//!
//! Tools return data; events for readers are derived from it ([`Tool::events`]) and written with the call's end.
//!
//! - `specs`  their descriptions and parameters

mod specs;

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::consoles::attached::{self, ConsoleContext};
use crate::consoles::edit::{Edit, Place};
use crate::consoles::{self, Change, Console, Filter, NewConsole, Writer, Written, connection};
use rejoin_integrations::data_sources::{self, DataSource};
use rejoin_tools::arguments::Arguments;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::events::Kind;
use rejoin_types::ids;
use rejoin_types::owner::Owner;

pub const READ_CONSOLE: &str = "read_console";
pub const CREATE_CONSOLE: &str = "create_console";
pub const MODIFY_CONSOLE: &str = "modify_console";
pub const LIST_OPEN_CONSOLES: &str = "list_open_consoles";
pub const SEARCH_CONSOLES: &str = "search_consoles";
pub const SET_CONSOLE_CONNECTION: &str = "set_console_connection";
/// Pins another console to the conversation: a user confirms each call.
pub const SWITCH_CONSOLE: &str = "switch_console";

/// Maximum number of consoles in a search or list.
const LISTED_MAX: i64 = 50;
/// Maximum length of a text in a list, in characters.
const PREVIEW_CHARS: usize = 200;

struct ConsoleTool {
    spec: ToolSpec,
}

/// All of them.
pub fn tools() -> Vec<SharedTool> {
    specs::TOOLS.clone()
}

fn internal(attempted: &'static str) -> impl Fn(sqlx::Error) -> ToolError {
    move |source| ToolError::Internal {
        attempted: attempted.to_owned(),
        source: Box::new(source),
    }
}

fn tool_error(message: impl Into<String>) -> ToolError {
    ToolError::RespondToModel(message.into())
}

#[async_trait]
impl Tool for ConsoleTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let desk = Desk::of(context).await?;
        let mut tx = rejoin_db::begin(&context.db)
            .await
            .map_err(internal("reading the consoles"))?;
        let arguments = Arguments::of(arguments);
        let output = match self.spec.name.as_str() {
            LIST_OPEN_CONSOLES => desk.list(&mut tx).await?,
            READ_CONSOLE => desk.read(&mut tx, &arguments).await?,
            CREATE_CONSOLE => desk.create(&mut tx, &arguments).await?,
            MODIFY_CONSOLE => desk.modify(&mut tx, &arguments).await?,
            SET_CONSOLE_CONNECTION => desk.connect(&mut tx, &arguments).await?,
            SEARCH_CONSOLES => desk.search(&mut tx, &arguments).await?,
            _ => desk.switch(&mut tx, &arguments).await?,
        };
        tx.commit().await.map_err(internal("storing the console"))?;
        Ok(output)
    }

    fn events(&self, output: &Value) -> Vec<Kind> {
        let Some(console_id) = output["consoleId"].as_str().and_then(|id| id.parse().ok()) else {
            return Vec::new();
        };
        let text = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
        let version = output["version"]
            .as_i64()
            .and_then(|version| i32::try_from(version).ok());
        let version = version.unwrap_or_default();
        match self.spec.name.as_str() {
            CREATE_CONSOLE => vec![Kind::ConsoleCreation {
                console_id,
                title: text("title"),
                content: text("content"),
                version,
            }],
            MODIFY_CONSOLE => vec![Kind::ConsoleModification {
                console_id,
                modification: output["modification"].clone(),
                version,
            }],
            _ => Vec::new(),
        }
    }
}

/// The consoles available to one call.
struct Desk {
    owner: Owner,
    console_context: ConsoleContext,
    by: Writer,
}

/// Returns the console that a call refers to, for other tools with a `consoleId`.
pub async fn meant(context: &ToolContext, arguments: &Arguments) -> Result<Console, ToolError> {
    let desk = Desk::of(context).await?;
    let id = desk.target(arguments)?;
    let mut db = context.db.acquire().await.map_err(internal("reading the consoles"))?;
    desk.get(&mut db, id).await
}

impl Desk {
    async fn of(context: &ToolContext) -> Result<Self, ToolError> {
        let Some(user_id) = context.user_id else {
            return Err(tool_error("this run has no user, so it has no consoles"));
        };
        Ok(Self {
            owner: Owner {
                workspace_id: context.workspace_id,
                user_id,
            },
            console_context: match context.run_id {
                Some(run) => attached::console_context(&context.db, run)
                    .await
                    .map_err(internal("reading the conversation's consoles"))?,
                None => ConsoleContext::default(),
            },
            by: Writer::Agent {
                run_id: context.run_id,
                call_id: context.record_id,
            },
        })
    }

    /// Returns the console that the call refers to.
    fn target(&self, arguments: &Arguments) -> Result<Uuid, ToolError> {
        match arguments.text("consoleId").filter(|id| !id.trim().is_empty()) {
            Some(id) => Uuid::parse_str(id.trim())
                .map_err(|_| tool_error(format!("{id} is not a console id; list_open_consoles returns the ids"))),
            None => self
                .console_context
                .pinned
                .or(self.console_context.active)
                .ok_or_else(|| tool_error("no console is attached to this conversation; open one with create_console")),
        }
    }

    /// The same, for changes.
    async fn own(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Console, ToolError> {
        let console = self.get(db, self.target(arguments)?).await?;
        let here = &self.console_context;
        // A run without a conversation may change consoles that are in none.
        let is_own = here.pinned.or(here.active) == Some(console.id) || here.conversation_id == console.conversation_id;
        let (id, title) = (console.id, &console.title);
        match (is_own, here.conversation_id) {
            (true, _) => Ok(console),
            (false, Some(_)) => Err(tool_error(format!(
                "the console {id} ({title}) does not belong to this conversation; call switch_console to ask the user \
                for it"
            ))),
            (false, None) => Err(tool_error(format!(
                "the console {id} ({title}) belongs to a conversation, but this run belongs to none; create another \
                console with create_console"
            ))),
        }
    }

    async fn get(&self, db: &mut PgConnection, id: Uuid) -> Result<Console, ToolError> {
        let found = consoles::get(db, self.owner, id)
            .await
            .map_err(internal("reading the console"))?;
        found.ok_or_else(|| {
            tool_error(format!(
                "the console {id} no longer exists; list_open_consoles returns the existing ones"
            ))
        })
    }

    /// Returns the data source that a call names, by name or id.
    async fn source(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Option<DataSource>, ToolError> {
        let Some(wanted) = arguments
            .text("dataSourceId")
            .map(str::trim)
            .filter(|name| !name.is_empty())
        else {
            return Ok(None);
        };
        let found = data_sources::find(&mut *db, self.owner.workspace_id, wanted).await;
        let found = found.map_err(internal("reading the data source"))?;
        let missing = || {
            tool_error(format!(
                "there is no data source {wanted}; list_data_sources returns the available ones"
            ))
        };
        found.map(Some).ok_or_else(missing)
    }

    async fn list(&self, db: &mut PgConnection) -> Result<Value, ToolError> {
        let here = &self.console_context;
        let filter = Filter {
            conversation_id: here.conversation_id,
            words: None,
        };
        let of_conversation = consoles::list(&mut *db, self.owner, filter, None, LISTED_MAX).await;
        let mut found = of_conversation.map_err(internal("listing the consoles"))?;
        for id in here.attached.iter().chain(&here.pinned).chain(&here.active) {
            if found.iter().all(|console| console.id != *id)
                && let Some(console) = consoles::get(&mut *db, self.owner, *id)
                    .await
                    .map_err(internal("reading a console"))?
            {
                found.push(console);
            }
        }
        let working_on = here.pinned.or(here.active);
        let listed: Vec<Value> = found
            .iter()
            .map(|console| {
                let mut item = short(console);
                item["pinned"] = (working_on == Some(console.id)).into();
                item
            })
            .collect();
        Ok(json!({"total": listed.len(), "consoles": listed}))
    }

    async fn read(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Value, ToolError> {
        let console = self.get(db, self.target(arguments)?).await?;
        let mut output = short(&console);
        output["content"] = console.content.as_str().into();
        let lines = console.content.lines().zip(1..);
        let numbered: Vec<String> = lines.map(|(line, n)| format!("{n}: {line}")).collect();
        output["lines"] = numbered.join("\n").into();
        let metadata = connection::metadata(db, self.owner.workspace_id, &console).await;
        output["metadata"] = metadata.map_err(internal("reading the console's connection"))?;
        output["modifiedBy"] = console.modified_by.into();
        Ok(output)
    }

    async fn create(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Value, ToolError> {
        let failed = internal("creating the console");
        if let Some((id, _)) = consoles::acted(db, self.by).await.map_err(&failed)? {
            return Ok(created(&self.get(db, id).await?));
        }
        let source = self.source(db, arguments).await?;
        let text = |name: &str| arguments.text(name).map(str::to_owned);
        let new = NewConsole {
            title: text("title").unwrap_or_default(),
            content: text("content").unwrap_or_default(),
            kind: text("kind").or(source.as_ref().map(|source| source.content.kind.as_str().to_owned())),
            data_source_id: source.map(|source| source.id),
            database: text("database"),
            metadata: None,
            is_temporary: true,
            conversation_id: self.console_context.conversation_id,
        };
        new.check().map_err(tool_error)?;
        let id = ids::new();
        consoles::insert(db, self.owner, id, &new, self.by)
            .await
            .map_err(&failed)?;
        if let (Some(conversation), None) = (self.console_context.conversation_id, self.console_context.pinned) {
            attached::pin(db, self.owner, conversation, Some(id))
                .await
                .map_err(&failed)?;
        }
        Ok(created(&self.get(db, id).await?))
    }

    async fn modify(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Value, ToolError> {
        let failed = internal("modifying the console");
        let edit = edit(arguments).map_err(tool_error)?;
        let id = match consoles::acted(db, self.by).await.map_err(&failed)? {
            Some((id, _)) => id,
            None => self.own(db, arguments).await?.id,
        };
        let most = i64::from(i32::MAX);
        let base = arguments
            .has("version")
            .then(|| arguments.integer("version", 1, (1, most)))
            .and_then(|version| i32::try_from(version).ok());
        let written = consoles::write(db, self.owner, id, base, self.by, |text| edit.apply(text)).await;
        match written.map_err(failed)? {
            Written::Done { console, merged } => Ok(json!({
                "consoleId": console.id, "title": console.title, "version": console.version, "merged": merged,
                "modification": edit.to_json(),
            })),
            Written::Conflict(now) => Err(tool_error(format!(
                "conflict: the user has edited the same lines; the console is now at version {}. Read it again, and \
                keep what the user wrote",
                now.version
            ))),
            Written::Refused(fault) => Err(tool_error(fault)),
            Written::NotFound => Err(tool_error(format!("the console {id} no longer exists"))),
        }
    }

    async fn connect(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Value, ToolError> {
        let console = self.own(db, arguments).await?;
        let source = self.source(db, arguments).await?;
        let change = Change {
            kind: source
                .as_ref()
                .map(|source| Some(source.content.kind.as_str().to_owned())),
            data_source_id: Some(source.map(|source| source.id)),
            database: Some(arguments.text("database").map(str::to_owned)),
            ..Change::default()
        };
        let changed = consoles::change(db, self.owner, console.id, &change).await;
        let changed = changed.map_err(internal("modifying the console"))?;
        changed.map_or_else(
            || Err(tool_error("the console no longer exists")),
            |console| Ok(short(&console)),
        )
    }

    async fn search(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Value, ToolError> {
        let filter = Filter {
            conversation_id: None,
            words: arguments.text("query"),
        };
        let found = consoles::list(db, self.owner, filter, None, LISTED_MAX).await;
        let found = found.map_err(internal("searching the consoles"))?;
        let listed: Vec<Value> = found.iter().map(short).collect();
        Ok(json!({"total": listed.len(), "consoles": listed}))
    }

    async fn switch(&self, db: &mut PgConnection, arguments: &Arguments) -> Result<Value, ToolError> {
        let console = self.get(db, self.target(arguments)?).await?;
        let Some(conversation) = self.console_context.conversation_id else {
            return Err(tool_error("consoles can be switched only in a conversation"));
        };
        let pinned = attached::pin(db, self.owner, conversation, Some(console.id)).await;
        pinned.map_err(internal("switching the console"))?;
        Ok(short(&console))
    }
}

fn short(console: &Console) -> Value {
    let preview: String = console.content.chars().take(PREVIEW_CHARS).collect();
    json!({
        "consoleId": console.id, "title": console.title, "kind": console.kind, "dataSourceId": console.data_source_id,
        "database": console.database, "version": console.version, "isTemporary": console.is_temporary, "preview": preview,
    })
}

fn created(console: &Console) -> Value {
    json!({"consoleId": console.id, "title": console.title, "content": console.content, "version": console.version})
}

/// Returns the edit requested by a call. Err: what is missing, for the model.
fn edit(arguments: &Arguments) -> Result<Edit, String> {
    let line = |name: &str| -> Option<usize> {
        let most = i64::from(i32::MAX);
        let line = arguments.has(name).then(|| arguments.integer(name, 1, (0, most)))?;
        usize::try_from(line).ok()
    };
    let place = match arguments.text("action").unwrap_or("replace") {
        "append" => Place::Append,
        "insert" => line("position").map_or(Place::Append, Place::Insert),
        "patch" => match (line("startLine"), line("endLine")) {
            (Some(start), Some(end)) => Place::Patch(start, end),
            _ => return Err("patch requires startLine and endLine".to_owned()),
        },
        _ => Place::Replace,
    };
    Ok(Edit {
        place,
        content: arguments.text("content").unwrap_or_default().to_owned(),
    })
}
