//! Schemas of the events that a snapshot contains, by their names in the OpenAPI document.

use utoipa::openapi::{ArrayBuilder, Ref, RefOr, Schema};

pub fn meta() -> RefOr<Schema> {
    Ref::from_schema_name("MetaEvent").into()
}

pub fn questions() -> RefOr<Schema> {
    ArrayBuilder::new().items(Ref::from_schema_name("QuestionEvent")).into()
}
