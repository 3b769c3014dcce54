//! Entities, links and trees in tool results: just enough to cite and to continue from.

use serde_json::{Value, json};

use crate::documents::Node;
use crate::links::Link;
use crate::{Entity, Kind};

/// As in lists: name, state, due date; without its texts.
pub(super) fn brief(entity: &Entity) -> Value {
    let mut view = json!({
        "id": entity.object.id, "type": entity.kind.as_str(), "name": entity.object.name, "state_key": entity.state(),
    });
    if entity.kind != Kind::Project {
        view["project_id"] = json!(entity.project);
    }
    for name in [
        "type_key",
        "priority",
        "due_at",
        "start_at",
        "end_at",
        "impact",
        "probability",
    ] {
        if let Some(value) = entity.object.properties.get(name) {
            view[name] = value.clone();
        }
    }
    view
}

/// With all its properties.
pub(super) fn full(entity: &Entity) -> Value {
    let mut view = brief(entity);
    for field in entity.kind.fields() {
        if let Some(value) = entity.object.properties.get(field.name) {
            view[field.name] = value.clone();
        }
    }
    view["version"] = json!(entity.object.version);
    view["created_at"] = json!(entity.object.created_at);
    view["updated_at"] = json!(entity.object.updated_at);
    view
}

pub(super) fn link(link: &Link) -> Value {
    json!({
        "edge_id": link.id, "rel": link.link_type,
        "source": {"id": link.source.id, "type": link.source.kind, "name": link.source.name},
        "target": {"id": link.target.id, "type": link.target.kind, "name": link.target.name},
    })
}

pub(super) fn node(node: &Node) -> Value {
    let children: Vec<Value> = node.children.iter().map(self::node).collect();
    json!({
        "id": node.document.object.id, "title": node.document.object.name,
        "state_key": node.document.state(), "children": children,
    })
}
