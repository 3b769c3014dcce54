//! The kinds of entities, their states and fields: one table, from which the pack's schemas, the tools' parameters and
//! the result of `get_field_info` are generated. No SQL.
//!
//! Invariant: stored fields have the names of the table, however they were spelled (`dueAt`, `due_at`; `name`,
//! `title`).

use serde_json::{Map, Value, json};

use rejoin_graph::Error;

/// Maximum size of a text field, in bytes.
pub const MAX_TEXT_BYTES: usize = 100_000;

rejoin_types::text_enum! {
    /// The kind of an entity. Its name is the type of its object.
    pub enum Kind {
        Project = "project",
        Task = "task",
        Goal = "goal",
        Plan = "plan",
        Document = "document",
        Milestone = "milestone",
        Risk = "risk",
        Requirement = "requirement",
        Output = "output",
        Event = "event",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    Text,
    /// RFC 3339.
    Time,
    Integer {
        least: i64,
        most: i64,
    },
    Choice(&'static [&'static str]),
    /// With arbitrary properties.
    Object,
}

/// A property of a kind of entities.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub holds: Holds,
    pub description: &'static str,
}

const fn field(name: &'static str, holds: Holds, description: &'static str) -> Field {
    Field {
        name,
        holds,
        description,
    }
}

const DESCRIPTION: Field = field("description", Holds::Text, "Description, in Markdown");
const TYPE_KEY: Field = field(
    "type_key",
    Holds::Text,
    "Subtype of the kind, as words separated by dots, e.g. task.review",
);
const PRIORITY: Field = field(
    "priority",
    Holds::Integer { least: 1, most: 5 },
    "Priority from 1 (most urgent) to 5 (least urgent)",
);
const DUE_AT: Field = field(
    "due_at",
    Holds::Time,
    "Due date, as an RFC 3339 time, e.g. 2030-01-31T17:00:00Z",
);
const START_AT: Field = field("start_at", Holds::Time, "Start time, as an RFC 3339 time");
const END_AT: Field = field("end_at", Holds::Time, "End time, as an RFC 3339 time");
const CONTENT: Field = field("content", Holds::Text, "Text, in Markdown");
const PROPS: Field = field("props", Holds::Object, "Custom properties, by name");
const LEVELS: &[&str] = &["low", "medium", "high"];
const IMPACT: Field = field("impact", Holds::Choice(LEVELS), "Impact if the risk occurs");
const PROBABILITY: Field = field("probability", Holds::Choice(LEVELS), "Probability that the risk occurs");

impl Kind {
    /// The plural, as used in paths and tools.
    pub const fn plural(self) -> &'static str {
        match self {
            Kind::Project => "projects",
            Kind::Task => "tasks",
            Kind::Goal => "goals",
            Kind::Plan => "plans",
            Kind::Document => "documents",
            Kind::Milestone => "milestones",
            Kind::Risk => "risks",
            Kind::Requirement => "requirements",
            Kind::Output => "outputs",
            Kind::Event => "events",
        }
    }

    /// The relationship type of a project's membership of this kind. None: a project is in none.
    pub const fn membership(self) -> Option<&'static str> {
        match self {
            Kind::Project => None,
            Kind::Task => Some("has_task"),
            Kind::Goal => Some("has_goal"),
            Kind::Plan => Some("has_plan"),
            Kind::Document => Some("has_document"),
            Kind::Milestone => Some("has_milestone"),
            Kind::Risk => Some("has_risk"),
            Kind::Requirement => Some("has_requirement"),
            Kind::Output => Some("has_output"),
            Kind::Event => Some("has_event"),
        }
    }

    pub fn of_plural(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.plural() == word)
    }

    /// Its states; a new entity has the first.
    pub const fn states(self) -> &'static [&'static str] {
        match self {
            Kind::Project => &["planning", "active", "paused", "completed", "cancelled"],
            Kind::Task => &["todo", "in_progress", "blocked", "done", "cancelled"],
            Kind::Goal => &["draft", "active", "achieved", "abandoned"],
            Kind::Plan => &["draft", "active", "completed", "abandoned"],
            Kind::Document => &["draft", "in_review", "ready", "published", "archived"],
            Kind::Milestone => &["pending", "in_progress", "completed", "missed"],
            Kind::Risk => &["identified", "mitigated", "occurred", "closed"],
            Kind::Requirement => &["proposed", "accepted", "met", "dropped"],
            Kind::Output => &["draft", "in_progress", "review", "published"],
            Kind::Event => &["scheduled", "completed", "cancelled"],
        }
    }

    /// Returns whether nothing remains to be done in this state.
    pub const fn is_over(state: &str) -> bool {
        matches!(
            state.as_bytes(),
            b"completed"
                | b"cancelled"
                | b"done"
                | b"achieved"
                | b"abandoned"
                | b"published"
                | b"archived"
                | b"missed"
                | b"closed"
                | b"met"
                | b"dropped"
        )
    }

    /// The field of its name.
    pub const fn name_field(self) -> &'static str {
        match self {
            Kind::Project | Kind::Goal | Kind::Plan | Kind::Output => "name",
            Kind::Task | Kind::Document | Kind::Milestone | Kind::Risk | Kind::Requirement | Kind::Event => "title",
        }
    }

    /// Its fields besides name and `state_key`.
    pub const fn more_fields(self) -> &'static [Field] {
        match self {
            Kind::Project => &[DESCRIPTION, TYPE_KEY, START_AT, END_AT, PROPS],
            Kind::Task => &[DESCRIPTION, TYPE_KEY, PRIORITY, START_AT, DUE_AT, PROPS],
            Kind::Goal => &[DESCRIPTION, TYPE_KEY, PRIORITY, DUE_AT, PROPS],
            Kind::Plan => &[DESCRIPTION, TYPE_KEY, START_AT, END_AT, PROPS],
            Kind::Document => &[DESCRIPTION, TYPE_KEY, CONTENT, PROPS],
            Kind::Milestone => &[DESCRIPTION, TYPE_KEY, DUE_AT, PROPS],
            Kind::Risk => &[DESCRIPTION, TYPE_KEY, IMPACT, PROBABILITY, PROPS],
            Kind::Requirement => &[DESCRIPTION, TYPE_KEY, PRIORITY, PROPS],
            Kind::Output => &[DESCRIPTION, TYPE_KEY, CONTENT, DUE_AT, PROPS],
            Kind::Event => &[DESCRIPTION, TYPE_KEY, START_AT, END_AT, PROPS],
        }
    }

    pub fn fields(self) -> Vec<Field> {
        let mut fields = vec![
            field(self.name_field(), Holds::Text, "Name"),
            field("state_key", Holds::Choice(self.states()), "Current state"),
        ];
        fields.extend_from_slice(self.more_fields());
        fields
    }

    /// The JSON Schema of its properties. It is open: the graph may store more.
    pub fn schema(self) -> Value {
        let mut properties = Map::new();
        for field in self.fields() {
            let mut schema = match field.holds {
                Holds::Text => json!({"type": "string"}),
                Holds::Time => json!({"type": "string", "format": "date-time"}),
                Holds::Integer { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
                Holds::Choice(words) => json!({"type": "string", "enum": words}),
                Holds::Object => json!({"type": "object"}),
            };
            schema["description"] = field.description.into();
            properties.insert(field.name.to_owned(), schema);
        }
        json!({
            "type": "object", "description": self.description(), "properties": properties,
            "required": [self.name_field(), "state_key"],
        })
    }

    const fn description(self) -> &'static str {
        match self {
            Kind::Project => "An undertaking with a goal; every other entity belongs to a project",
            Kind::Task => "A unit of work",
            Kind::Goal => "A result to achieve",
            Kind::Plan => "An approach to achieve a goal",
            Kind::Document => "A text in the document tree of its project",
            Kind::Milestone => "A significant point in the schedule of its project",
            Kind::Risk => "A problem that may occur",
            Kind::Requirement => "A condition that the project must satisfy",
            Kind::Output => "A result that the project produces",
            Kind::Event => "Something that happens at a given time",
        }
    }

    /// Parses fields to the table's names and validates them; null is kept: it clears a field.
    pub fn read(self, written: Map<String, Value>) -> Result<Map<String, Value>, Error> {
        let fields = self.fields();
        let mut read = Map::new();
        for (spelt, value) in written {
            let name = match spelt.as_str() {
                "name" | "title" => self.name_field().to_owned(),
                _ => snake_case(&spelt),
            };
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                return Err(Error::Invalid(format!(
                    "a {} has no field {spelt}; its fields are {}",
                    self.as_str(),
                    names.join(", ")
                )));
            };
            field.check(&value)?;
            let required = name == self.name_field() || name == "state_key";
            let blank = value.as_str().is_some_and(|text| text.trim().is_empty());
            if required && (value.is_null() || blank) {
                return Err(Error::Invalid(format!("{name} must not be empty")));
            }
            if read.insert(name.clone(), value).is_some() {
                return Err(Error::Invalid(format!("{name} is given twice")));
            }
        }
        Ok(read)
    }
}

impl Field {
    /// Err: worded so that the author can fix it. The pack's schema is validated separately.
    fn check(&self, value: &Value) -> Result<(), Error> {
        let wrong = |must: String| Err(Error::Invalid(format!("{} must be {must}", self.name)));
        if value.is_null() {
            return Ok(());
        }
        match self.holds {
            Holds::Text => match value.as_str() {
                Some(text) if text.len() <= MAX_TEXT_BYTES => Ok(()),
                Some(_) => wrong(format!("at most {MAX_TEXT_BYTES} bytes long")),
                None => wrong("text".to_owned()),
            },
            Holds::Time => match value.as_str().map(chrono::DateTime::parse_from_rfc3339) {
                Some(Ok(_)) => Ok(()),
                Some(Err(_)) | None => wrong("a time with a time zone, such as 2030-01-31T17:00:00Z".to_owned()),
            },
            Holds::Integer { least, most } => match value.as_i64() {
                Some(number) if (least..=most).contains(&number) => Ok(()),
                Some(_) | None => wrong(format!("an integer from {least} to {most}")),
            },
            Holds::Choice(words) => match value.as_str() {
                Some(word) if words.contains(&word) => Ok(()),
                Some(_) | None => wrong(format!("one of {}", words.join(", "))),
            },
            Holds::Object if value.is_object() => Ok(()),
            Holds::Object => wrong("an object".to_owned()),
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, written: Value) -> Result<Value, String> {
        let read = kind.read(written.as_object().unwrap().clone());
        read.map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_are_read_in_both_spellings_and_by_either_name() {
        let written = json!({"name": "Write", "stateKey": "todo", "due_at": "2030-01-31T17:00:00Z", "priority": 2});
        assert_eq!(
            read(Kind::Task, written).unwrap(),
            json!({"title": "Write", "state_key": "todo", "due_at": "2030-01-31T17:00:00Z", "priority": 2})
        );
        assert_eq!(
            read(Kind::Goal, json!({"title": "Win"})).unwrap(),
            json!({"name": "Win"})
        );
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        for (written, words) in [
            (json!({"colour": "red"}), "its fields are title, state_key"),
            (json!({"dueAt": "tomorrow"}), "a time with a time zone"),
            (json!({"priority": 9}), "an integer from 1 to 5"),
            (json!({"state_key": "draft"}), "one of todo, in_progress"),
            (json!({"title": " "}), "title must not be empty"),
            (json!({"title": "a", "name": "b"}), "given twice"),
            (json!({"description": 5}), "text"),
        ] {
            let fault = read(Kind::Task, written).unwrap_err();
            assert!(fault.contains(words), "{fault}");
        }
    }

    #[test]
    fn words_name_kinds_in_both_numbers() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(Kind::of_plural(kind.plural()), Some(kind));
            assert!(!Kind::is_over(kind.states()[0]));
        }
    }
}
