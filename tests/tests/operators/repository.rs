//! Rules about the repository itself: layers, imports, plain words, documents, tables of requirements, and documents made of the code.

mod documents;
mod imports;
mod layout;
mod openapi;
mod requirements;
mod standalone_crates;
mod tool_mapping;
mod words;
