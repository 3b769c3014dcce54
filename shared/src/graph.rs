//! The knowledge graph.
