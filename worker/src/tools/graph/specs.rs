//! Names, descriptions and parameters of the graph tools: all that a model knows of them.

use crate::tools::arguments::Kind::{OptionalChoice, OptionalInteger, OptionalText, OptionalTexts, Text};
use crate::tools::arguments::Parameter;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    HybridSearch,
    SemanticSearch,
    SearchEntities,
    FindSimilar,
    ListEntityTypes,
    SchemaVersion,
    QueryEntities,
    ListRelationships,
    GetEntityEdges,
    TraverseGraph,
}

const ENTITY: &str = "The entity: its id from an earlier result, or Type:key, or its key or name if only one has it.";
const TYPES: &str = "Only entities of these types (names as in list_entity_types); null for all.";

impl Name {
    pub(super) const ALL: &[Name] = &[
        Name::HybridSearch,
        Name::SemanticSearch,
        Name::SearchEntities,
        Name::FindSimilar,
        Name::ListEntityTypes,
        Name::SchemaVersion,
        Name::QueryEntities,
        Name::ListRelationships,
        Name::GetEntityEdges,
        Name::TraverseGraph,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Name::HybridSearch => "hybrid_search",
            Name::SemanticSearch => "semantic_search",
            Name::SearchEntities => "search_entities",
            Name::FindSimilar => "find_similar",
            Name::ListEntityTypes => "list_entity_types",
            Name::SchemaVersion => "schema_version",
            Name::QueryEntities => "query_entities",
            Name::ListRelationships => "list_relationships",
            Name::GetEntityEdges => "get_entity_edges",
            Name::TraverseGraph => "traverse_graph",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Name::HybridSearch => {
                "Searches the knowledge graph for entities by words: full text with tolerance for typing errors and partial \
                 names. The best first. Start here when you look for something by name or topic."
            }
            Name::SemanticSearch => "Searches the knowledge graph for entities about a topic.",
            Name::SearchEntities => "Searches entities by name or text, optionally of one type.",
            Name::FindSimilar => "Finds entities like a given one: alike in words, connected to the same entities.",
            Name::ListEntityTypes => "Lists the types of entities and of relationships in the graph, with counts.",
            Name::SchemaVersion => {
                "Tells the version of the graph's set of types; it changes when a type comes or goes."
            }
            Name::QueryEntities => "Lists the entities of one type, page by page, sorted.",
            Name::ListRelationships => "Lists relationships by type, source or target, with both ends.",
            Name::GetEntityEdges => {
                "Lists the direct relationships of an entity: incoming (others point to it, for example what depends on it) \
                 and outgoing (it points to others), with the connected entities and the totals."
            }
            Name::TraverseGraph => {
                "Walks the graph from an entity, breadth first, over several steps of relationships."
            }
        }
    }

    pub(super) fn parameters(self) -> &'static [Parameter] {
        const QUERY: Parameter = Parameter::new("query", Text, "The words to search for.");
        const ONLY_TYPES: Parameter = Parameter::new("types", OptionalTexts, TYPES);
        const ENTITY_ID: Parameter = Parameter::new("entity_id", Text, ENTITY);
        match self {
            Name::HybridSearch => {
                const {
                    &[
                        QUERY,
                        ONLY_TYPES,
                        Parameter::new(
                            "labels",
                            OptionalTexts,
                            "Only entities with any of these labels; null for all.",
                        ),
                        Parameter::new("limit", OptionalInteger, "How many; default 20, at most 100."),
                    ]
                }
            }
            Name::SemanticSearch => {
                const {
                    &[
                        QUERY,
                        ONLY_TYPES,
                        Parameter::new("limit", OptionalInteger, "How many; default 20, at most 50."),
                    ]
                }
            }
            Name::SearchEntities => {
                const {
                    &[
                        QUERY,
                        Parameter::new("type_name", OptionalText, "Only entities of this type; null for all."),
                        Parameter::new("limit", OptionalInteger, "How many; default 10, at most 50."),
                    ]
                }
            }
            Name::FindSimilar => {
                const {
                    &[
                        ENTITY_ID,
                        ONLY_TYPES,
                        Parameter::new("limit", OptionalInteger, "How many; default 10, at most 50."),
                    ]
                }
            }
            Name::ListEntityTypes | Name::SchemaVersion => &[],
            Name::QueryEntities => {
                const {
                    &[
                        Parameter::new("type_name", Text, "The type, as in list_entity_types."),
                        Parameter::new("limit", OptionalInteger, "How many; default 10, at most 50."),
                        Parameter::new("offset", OptionalInteger, "How many to pass over; default 0."),
                        Parameter::new(
                            "sort_by",
                            OptionalChoice(&["created_at", "updated_at", "name"]),
                            "Default created_at.",
                        ),
                        Parameter::new("sort_order", OptionalChoice(&["asc", "desc"]), "Default desc."),
                    ]
                }
            }
            Name::ListRelationships => {
                const {
                    &[
                        Parameter::new("type", OptionalText, "Only relationships of this type; null for all."),
                        Parameter::new(
                            "source_id",
                            OptionalText,
                            "Only from this entity: id, Type:key, key or name; null for all.",
                        ),
                        Parameter::new(
                            "target_id",
                            OptionalText,
                            "Only to this entity: id, Type:key, key or name; null for all.",
                        ),
                        Parameter::new("limit", OptionalInteger, "How many; default 50, at most 100."),
                    ]
                }
            }
            Name::GetEntityEdges => &[ENTITY_ID],
            Name::TraverseGraph => {
                const {
                    &[
                        Parameter::new("start_entity_id", Text, ENTITY),
                        Parameter::new(
                            "max_depth",
                            OptionalInteger,
                            "Steps from the start; default 2, at most 5.",
                        ),
                        Parameter::new(
                            "relationship_types",
                            OptionalTexts,
                            "Only over relationships of these types; null for all.",
                        ),
                        Parameter::new(
                            "direction",
                            OptionalChoice(&["outgoing", "incoming", "both"]),
                            "outgoing follows relationships from source to target; default both.",
                        ),
                        Parameter::new(
                            "query_context",
                            OptionalText,
                            "What you look for: entities with these words go first.",
                        ),
                    ]
                }
            }
        }
    }
}
