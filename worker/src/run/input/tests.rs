//! Forms as questions, and answers as responses.

use chrono::DateTime;
use rejoin_tools::input::Field;
use uuid::Uuid;

use super::*;

fn awaited(fields: &[(&str, bool, Value)]) -> AwaitedInput {
    let fields = fields.iter().map(|(name, required, schema)| Field {
        name: (*name).to_owned(),
        required: *required,
        schema: schema.clone(),
    });
    AwaitedInput {
        round: 2,
        needed: InputNeeded {
            asker: "The MCP server inn".to_owned(),
            arguments: json!({}),
            state: json!({"requestState": "sealed"}),
            forms: vec![Form {
                key: "guest".to_owned(),
                message: "Who comes?".to_owned(),
                fields: fields.collect(),
                connects: None,
            }],
        },
    }
}

fn stored(question: &NewQuestion, status: &str, answer: Option<Value>) -> Question {
    Question {
        id: question.id,
        workspace_id: Uuid::nil(),
        run_id: Uuid::nil(),
        tool_call_id: Some(Uuid::nil()),
        kind: question.kind.to_owned(),
        question: question.question.clone(),
        options: json!(question.options),
        interaction_type: question.interaction_type.clone(),
        placeholder: None,
        max_length: question.max_length,
        status: status.to_owned(),
        answer,
        answered_by: None,
        created_at: DateTime::UNIX_EPOCH,
        answered_at: None,
        form_field: question.form_field.as_ref().map(|field| json!(field)),
    }
}

fn guest() -> AwaitedInput {
    awaited(&[
        (
            "name",
            true,
            json!({"type": "string", "title": "Name", "maxLength": 40}),
        ),
        ("confirm", true, json!({"type": "boolean"})),
        ("room", false, json!({"type": "integer", "default": 7})),
    ])
}

#[test]
fn each_field_of_a_form_is_a_question() {
    let questions = questions_of(&guest()).unwrap();
    let shown: Vec<(&str, &str)> = questions
        .iter()
        .map(|question| (question.interaction_type.as_str(), question.question.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("text", "The MCP server inn asks: Who comes?\n\nName"),
            ("buttons", "The MCP server inn asks: Who comes?\n\nconfirm"),
            ("text", "The MCP server inn asks: Who comes?\n\nroom (optional)"),
        ]
    );
    let values = |at: usize| -> Vec<&str> {
        let options = questions[at].options.iter();
        options.map(|option| option.value.as_str()).collect()
    };
    assert_eq!((questions[0].max_length, values(0)), (Some(40), vec![DECLINE]));
    assert_eq!(values(1), ["true", "false", DECLINE]);
    assert_eq!(values(2), [SKIP, DECLINE]);
}

#[test]
fn a_form_without_fields_is_accepted_or_declined() {
    let bare = awaited(&[]);
    let questions = questions_of(&bare).unwrap();
    let form = &bare.needed.forms[0];
    let answered = |answer: &str| response(form, &[stored(&questions[0], "answered", Some(json!(answer)))]);
    assert_eq!(answered(ACCEPT), json!({"action": "accept", "content": {}}));
    assert_eq!(answered(DECLINE), json!({"action": "decline"}));
}

#[test]
fn a_field_that_no_question_can_ask_for_is_refused() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "string", "enum": ["a", DECLINE]}),
        json!({}),
    ] {
        let refused = questions_of(&awaited(&[("odd", true, schema)])).unwrap_err();
        assert!(refused.contains("odd"), "{refused}");
    }
    let many: Vec<(&str, bool, Value)> = vec![("one", true, json!({"type": "string"})); FIELDS_MAX + 1];
    assert!(questions_of(&awaited(&many)).unwrap_err().contains("maximum"));
}

#[test]
fn answers_are_a_response_only_as_a_whole() {
    let guest = guest();
    let (form, questions) = (&guest.needed.forms[0], questions_of(&guest).unwrap());
    let with = |answers: [Option<&str>; 3]| {
        let asked: Vec<Question> = questions
            .iter()
            .zip(answers)
            .map(|(question, answer)| match answer {
                Some(answer) => stored(question, "answered", Some(json!(answer))),
                None => stored(question, "expired", None),
            })
            .collect();
        response(form, &asked)
    };
    assert_eq!(
        with([Some("Ada"), Some("true"), Some(SKIP)]),
        json!({"action": "accept", "content": {"name": "Ada", "confirm": true, "room": 7}})
    );
    assert_eq!(
        with([Some("Ada"), Some("false"), Some("12")]),
        json!({"action": "accept", "content": {"name": "Ada", "confirm": false, "room": 12}})
    );
    assert_eq!(with([None, Some(DECLINE), None]), json!({"action": "decline"}));
    assert_eq!(with([Some("Ada"), None, Some("12")]), json!({"action": "cancel"}));
}
