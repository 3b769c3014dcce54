//! The schemas of events in the OpenAPI document: a named object for each type, such as `TokenEvent`, and their union
//! with `type` as its discriminator. They are derived from [`Kind`], so the fields of a type are written once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use utoipa::openapi::schema::{
    Discriminator, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Object, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::shapes::EventSource;
use super::{DoneStatus, Event, Kind};

/// The field that distinguishes the types.
const DISCRIMINATOR: &str = "type";
/// The end of the names of events' schemas.
const SUFFIX: &str = "Event";
/// Types of events that may have no run.
const WITHOUT_RUN: [&str; 2] = ["message", "focus_changed"];

/// Named schemas, as [`ToSchema::schemas`] collects them.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

impl PartialSchema for Event {
    fn schema() -> RefOr<Schema> {
        union(
            "An event of a log. Ignore types that you do not know: later versions add some.",
            members(),
        )
    }
}

impl ToSchema for Event {
    fn name() -> Cow<'static, str> {
        "LogEvent".into()
    }

    fn schemas(schemas: &mut Schemas) {
        for (kind, object) in types() {
            schemas.push((name_of(&kind, SUFFIX), object.into()));
        }
        Kind::schemas(schemas);
    }
}

// Not derived: utoipa does not see the texts that `text_enum!` gives the variants.
impl PartialSchema for DoneStatus {
    fn schema() -> RefOr<Schema> {
        let texts = ObjectBuilder::new().schema_type(Type::String);
        let described = texts
            .description(Some("How a turn ended."))
            .enum_values(Some(Self::TEXTS));
        described.build().into()
    }
}

impl ToSchema for DoneStatus {}

/// A union of objects that differ in `type`: the name of each schema, with its value of `type`.
pub fn union(description: &str, members: impl IntoIterator<Item = (String, String)>) -> RefOr<Schema> {
    let mut union = OneOfBuilder::new().description(Some(description));
    let mut mapping = BTreeMap::new();
    for (name, kind) in members {
        let reference = Ref::from_schema_name(&name);
        mapping.insert(kind, reference.ref_location.clone());
        union = union.item(reference);
    }
    let mut discriminator = Discriminator::new(DISCRIMINATOR);
    discriminator.mapping = mapping;
    union.discriminator(Some(discriminator)).into()
}

/// The names of the schemas of all types of events, each with its value of `type`.
pub fn members() -> Vec<(String, String)> {
    let types = types().into_iter();
    types.map(|(kind, _)| (name_of(&kind, SUFFIX), kind)).collect()
}

/// The name of a type's schema: `SubAgentEvent` of `sub_agent`.
pub fn name_of(kind: &str, suffix: &str) -> String {
    let mut name = String::new();
    for word in kind.split('_') {
        let (first, rest) = word.split_at(1);
        name.push_str(&first.to_uppercase());
        name.push_str(rest);
    }
    name + suffix
}

/// The objects of an enum with the tag `type`, each with its value of `type`.
///
/// # Panics
/// If `T` is another type.
pub fn variants<T: PartialSchema>() -> Vec<(String, Object)> {
    let RefOr::T(Schema::OneOf(derived)) = T::schema() else {
        panic!("a tagged enum is a union");
    };
    let objects = derived.items.into_iter().map(|item| match item {
        RefOr::T(Schema::Object(object)) => object,
        _ => panic!("a variant is an object"),
    });
    objects.map(|object| (kind_of(&object), object)).collect()
}

/// The types of events, each with the schema of its fields and the common ones.
fn types() -> Vec<(String, Object)> {
    variants::<Kind>()
        .into_iter()
        // The reader's stand-in for the types of newer writers is never written.
        .filter(|(kind, _)| kind != Kind::Unknown.name())
        .map(|(kind, object)| {
            let object = complete(&kind, object);
            (kind, object)
        })
        .collect()
}

/// The value of `type` that an object requires.
fn kind_of(object: &Object) -> String {
    let kind = match object.properties.get(DISCRIMINATOR) {
        Some(RefOr::T(Schema::Object(kind))) => kind.enum_values.as_deref().and_then(|values| values.first()?.as_str()),
        _ => None,
    };
    kind.expect("serde's tag is a property with one value").to_owned()
}

/// Adds the common fields. An optional field is absent, never null.
fn complete(kind: &str, mut object: Object) -> Object {
    let required = object.required.clone();
    for (name, property) in &mut object.properties {
        if !required.contains(name) {
            take_null_away(property);
        }
    }
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let id = || text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)));
    let source = match EventSource::schema() {
        RefOr::T(Schema::Object(source)) => source.into(),
        _ => text(),
    };
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    for (name, description, property) in [
        ("runId", "The run that it comes from.", id()),
        (
            "agent",
            "The agent's name, on events of sub-agents and plan steps.",
            text(),
        ),
        ("parentRunId", "The run that started it.", id()),
        ("source", "The component that it comes from.", source),
        ("stepNumber", "The number of the plan's step.", number),
    ] {
        let property = property.description(Some(description)).build();
        object.properties.entry(name.to_owned()).or_insert(property.into());
    }
    if !WITHOUT_RUN.contains(&kind) {
        object.required.push("runId".to_owned());
    }
    object
}

/// Removes `null` from the types that a property may have.
fn take_null_away(property: &mut RefOr<Schema>) {
    let RefOr::T(schema) = property else { return };
    match schema {
        Schema::OneOf(union) => {
            union.items.retain(|item| !is_null(item));
            if let [only] = union.items.as_slice() {
                *property = only.clone();
            }
        }
        Schema::Object(Object { schema_type, .. }) => only_one(schema_type),
        Schema::Array(array) => only_one(&mut array.schema_type),
        _ => {}
    }
}

fn only_one(types: &mut SchemaType) {
    if let SchemaType::Array(all) = types {
        all.retain(|one| *one != Type::Null);
        if let [only] = all.as_slice() {
            *types = SchemaType::Type(only.clone());
        }
    }
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_named_object_in_the_union() {
        let types = types();
        assert_eq!(types.len(), 35);
        let RefOr::T(Schema::OneOf(union)) = Event::schema() else {
            panic!("a union");
        };
        let mapping = union.discriminator.unwrap().mapping;
        assert_eq!(mapping["sub_agent"], "#/components/schemas/SubAgentEvent");
        assert_eq!((mapping.len(), union.items.len()), (types.len(), types.len()));
    }

    #[test]
    fn an_optional_field_is_absent_rather_than_null() {
        let types: BTreeMap<String, Object> = types().into_iter().collect();
        let json = |kind: &str, field: &str| serde_json::to_value(&types[kind].properties[field]).unwrap();
        assert_eq!(json("mcp_tool", "error"), serde_json::json!({"type": "string"}));
        assert_eq!(
            json("done", "usage"),
            serde_json::json!({"$ref": "#/components/schemas/UsageTotals"})
        );
        assert!(types["focus_changed"].required.contains(&"focus".to_owned()));
    }
}
