//! The vector of a query and the model that computed it.

/// An embedding model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// As stored, such as `local:all-minilm-l6-v2`.
    pub name: String,
    pub dimensions: i32,
}

/// A query's vector.
#[derive(Debug, Clone)]
pub struct QueryVector {
    pub model: Model,
    /// Of length 1.
    pub numbers: Vec<f32>,
}

impl QueryVector {
    pub fn new(model: &str, numbers: Vec<f32>) -> Self {
        Self {
            model: Model {
                name: model.to_owned(),
                dimensions: numbers.len() as i32,
            },
            numbers,
        }
    }
}

/// Returns the signs of a vector's numbers in PostgreSQL's bit syntax.
pub(super) fn signs_of(vector: &[f32]) -> String {
    vector.iter().map(|x| if *x > 0.0 { '1' } else { '0' }).collect()
}
