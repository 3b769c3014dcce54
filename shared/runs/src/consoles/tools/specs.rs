//! Names, descriptions and parameters of the tools over consoles, as models read them.

use std::sync::{Arc, LazyLock};

use super::{
    CREATE_CONSOLE, ConsoleTool, LIST_OPEN_CONSOLES, MODIFY_CONSOLE, READ_CONSOLE, SEARCH_CONSOLES,
    SET_CONSOLE_CONNECTION, SWITCH_CONSOLE,
};
use rejoin_tools::arguments::{Kind as P, Parameter, schema};
use rejoin_tools::{SharedTool, ToolSpec};

const CONSOLE_ID: Parameter = Parameter::new(
    "consoleId",
    P::OptionalText,
    "the console's id; null: the console that this conversation works on",
);

/// Creates a tool. A call repeated after a crash has no further effect: its changes carry its record's id.
fn tool(name: &str, description: &str, parameters: &[Parameter], read_only: bool) -> SharedTool {
    Arc::new(ConsoleTool {
        spec: ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: schema(parameters),
            read_only,
            idempotent: true,
            destructive: false,
        },
    })
}

/// All of them.
pub(super) static TOOLS: LazyLock<Vec<SharedTool>> = LazyLock::new(|| {
    vec![
        tool(
            LIST_OPEN_CONSOLES,
            "Lists the consoles of this conversation with id, title and kind of database, and marks the one that the \
            conversation works on.",
            &[],
            true,
        ),
        tool(
            READ_CONSOLE,
            "Reads a console: its text with line numbers, version and database. Call it before you modify a console.",
            &[CONSOLE_ID],
            true,
        ),
        tool(
            CREATE_CONSOLE,
            "Opens a new console with the given text, which the user sees and can edit. Use it only if no existing \
            console fits.",
            &[
                Parameter::new("title", P::Text, "title, a few words"),
                Parameter::new("content", P::Text, "text of the console"),
                Parameter::new("kind", P::OptionalText, "kind of database, e.g. postgresql; null: none"),
                Parameter::new(
                    "dataSourceId",
                    P::OptionalText,
                    "name of the data source to run on; null: none yet",
                ),
                Parameter::new(
                    "database",
                    P::OptionalText,
                    "database in the data source; null: the source's default",
                ),
            ],
            false,
        ),
        tool(
            MODIFY_CONSOLE,
            "Modifies a console's text while the user watches. Edits that the user made in the meantime are merged; \
            if they conflict, an error is returned.",
            &[
                Parameter::new(
                    "action",
                    P::OptionalChoice(&["replace", "insert", "append", "patch"]),
                    "replace (default): the whole text; insert: before line `position`; append: at the end; patch: \
                    lines startLine to endLine",
                ),
                Parameter::new("content", P::Text, "new text"),
                Parameter::new(
                    "position",
                    P::OptionalInteger,
                    "for insert: line number, from 1; null: at the end",
                ),
                Parameter::new("startLine", P::OptionalInteger, "for patch: first line, from 1"),
                Parameter::new("endLine", P::OptionalInteger, "for patch: last line, inclusive"),
                CONSOLE_ID,
                Parameter::new(
                    "version",
                    P::OptionalInteger,
                    "version that you have read and want to change; null: the current one",
                ),
            ],
            false,
        ),
        tool(
            SET_CONSOLE_CONNECTION,
            "Sets the data source and database that a console runs on.",
            &[
                CONSOLE_ID,
                Parameter::new("dataSourceId", P::OptionalText, "name of the data source; null: none"),
                Parameter::new(
                    "database",
                    P::OptionalText,
                    "database in the data source; null: the source's default",
                ),
            ],
            false,
        ),
        tool(
            SEARCH_CONSOLES,
            "Searches the user's consoles by words in title or text.",
            &[Parameter::new("query", P::Text, "words to search for")],
            true,
        ),
        tool(
            SWITCH_CONSOLE,
            "Makes another console the one that this conversation works on. The user is asked for confirmation.",
            &[Parameter::new("consoleId", P::Text, "the console's id")],
            false,
        ),
    ]
});
