//! A BERT encoder: word pieces in, one vector of length 1 per text out. Called by `local`; its only I/O is reading rows
//! of its vocabulary.
//!
//! The texts of a batch are stacked in one matrix, without padding: dense layers process all of it at once, attention
//! each text by itself. So a vector does not depend on the rest of its batch, except for rounding.

use std::io;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView1, Axis, s};

use super::tensors::Tensors;

/// Features per attention head, by default (for this family of models).
const HEAD_FEATURES: usize = 32;
/// Added to a variance by layer norms.
const EPSILON: f32 = 1e-12;
const WORDS: &str = "embeddings.word_embeddings.weight";

#[derive(Debug)]
struct Dense {
    /// Inputs in rows.
    weight: Array2<f32>,
    bias: Array1<f32>,
}

impl Dense {
    fn read(tensors: &Tensors, name: &str) -> io::Result<Self> {
        // Stored transposed; laid out for the product once.
        let weight = tensors.matrix(&format!("{name}.weight"))?;
        Ok(Self {
            weight: weight.t().as_standard_layout().to_owned(),
            bias: tensors.vector(&format!("{name}.bias"))?,
        })
    }

    fn of(&self, input: &Array2<f32>) -> Array2<f32> {
        let mut output = Array2::zeros((input.nrows(), self.bias.len()));
        output.assign(&self.bias);
        general_mat_mul(1.0, input, &self.weight, 1.0, &mut output);
        output
    }
}

#[derive(Debug)]
struct Norm {
    weight: Array1<f32>,
    bias: Array1<f32>,
}

impl Norm {
    fn read(tensors: &Tensors, name: &str) -> io::Result<Self> {
        Ok(Self {
            weight: tensors.vector(&format!("{name}.weight"))?,
            bias: tensors.vector(&format!("{name}.bias"))?,
        })
    }

    fn apply(&self, rows: &mut Array2<f32>) {
        for mut row in rows.rows_mut() {
            let count = row.len() as f32;
            let mean = row.sum() / count;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            for ((x, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *x = (*x - mean) * scale * weight + bias;
            }
        }
    }
}

#[derive(Debug)]
struct Layer {
    query: Dense,
    key: Dense,
    value: Dense,
    joined: Dense,
    joined_norm: Norm,
    widened: Dense,
    narrowed: Dense,
    norm: Norm,
}

#[derive(Debug)]
pub struct Encoder {
    tensors: Tensors,
    positions: Array2<f32>,
    segment: Array1<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Encoder {
    /// Reads everything but the vocabulary's matrix, which is half of the file, and of which a text needs a few rows.
    pub fn read(tensors: Tensors) -> io::Result<Self> {
        let mut layers = Vec::new();
        while tensors
            .shape(&format!("encoder.layer.{}.intermediate.dense.weight", layers.len()))
            .is_ok()
        {
            let name = |part: &str| format!("encoder.layer.{}.{part}", layers.len());
            let dense = |part: &str| Dense::read(&tensors, &name(part));
            layers.push(Layer {
                query: dense("attention.self.query")?,
                key: dense("attention.self.key")?,
                value: dense("attention.self.value")?,
                joined: dense("attention.output.dense")?,
                joined_norm: Norm::read(&tensors, &name("attention.output.LayerNorm"))?,
                widened: dense("intermediate.dense")?,
                narrowed: dense("output.dense")?,
                norm: Norm::read(&tensors, &name("output.LayerNorm"))?,
            });
        }
        let (_, features) = tensors.shape(WORDS)?;
        if layers.is_empty() || features % HEAD_FEATURES != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it contains no encoder of this family",
            ));
        }
        Ok(Self {
            positions: tensors.matrix("embeddings.position_embeddings.weight")?,
            segment: tensors
                .matrix("embeddings.token_type_embeddings.weight")?
                .row(0)
                .to_owned(),
            norm: Norm::read(&tensors, "embeddings.LayerNorm")?,
            layers,
            tensors,
        })
    }

    /// Returns the number of words in the vocabulary's matrix.
    pub fn words(&self) -> io::Result<usize> {
        Ok(self.tensors.shape(WORDS)?.0)
    }

    pub fn dimensions(&self) -> usize {
        self.segment.len()
    }

    /// Returns the maximum number of word pieces of a text.
    pub fn positions(&self) -> usize {
        self.positions.nrows()
    }

    /// Returns the vectors of texts, in order. No text may be empty or longer than [`Encoder::positions`].
    pub fn encode(&self, texts: &[Vec<u32>]) -> io::Result<Vec<Vec<f32>>> {
        let rows = texts.iter().map(Vec::len).sum();
        let mut state = Array2::zeros((rows, self.dimensions()));
        let mut at = 0;
        for text in texts {
            for (position, piece) in text.iter().enumerate() {
                let word = self.tensors.row(WORDS, *piece as usize)?;
                let mut row = state.row_mut(at);
                row.assign(&ArrayView1::from(&word));
                row += &self.positions.row(position);
                row += &self.segment;
                at += 1;
            }
        }
        self.norm.apply(&mut state);
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        for layer in &self.layers {
            state = layer.of(state, &lengths);
        }
        let mut at = 0;
        Ok(lengths
            .iter()
            .map(|length| {
                let own = state.slice(s![at..at + length, ..]);
                at += length;
                let mean = own
                    .mean_axis(Axis(0))
                    .unwrap_or_else(|| Array1::zeros(self.dimensions()));
                let norm = mean.dot(&mean).sqrt().max(f32::MIN_POSITIVE);
                mean.iter().map(|x| x / norm).collect()
            })
            .collect())
    }
}

impl Layer {
    fn of(&self, state: Array2<f32>, lengths: &[usize]) -> Array2<f32> {
        let (query, key, value) = (self.query.of(&state), self.key.of(&state), self.value.of(&state));
        let mut seen = Array2::zeros(state.raw_dim());
        let scale = 1.0 / (HEAD_FEATURES as f32).sqrt();
        let mut at = 0;
        for length in lengths {
            let own = at..at + length;
            for head in (0..state.ncols()).step_by(HEAD_FEATURES) {
                let part = s![own.clone(), head..head + HEAD_FEATURES];
                let mut weights = query.slice(part).dot(&key.slice(part).t());
                for mut row in weights.rows_mut() {
                    softmax(row.as_slice_mut().expect("a product lies in order"), scale);
                }
                general_mat_mul(1.0, &weights, &value.slice(part), 0.0, &mut seen.slice_mut(part));
            }
            at += length;
        }
        let mut joined = self.joined.of(&seen);
        joined += &state;
        self.joined_norm.apply(&mut joined);
        let mut wide = self.widened.of(&joined);
        wide.mapv_inplace(gelu);
        let mut out = self.narrowed.of(&wide);
        out += &joined;
        self.norm.apply(&mut out);
        out
    }
}

fn softmax(row: &mut [f32], scale: f32) {
    let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = ((*x - highest) * scale).exp();
        sum += *x;
    }
    for x in row {
        *x /= sum;
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// Abramowitz and Stegun 7.1.26: the error is at most 1.5e-7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_8 + t * (-1.453_152_1 + t * 1.061_405_4))));
    (1.0 - series * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_what_it_should_be() {
        for (x, expected) in [
            (0.0, 0.0),
            (1.0, 0.841_344_7),
            (-1.0, -0.158_655_25),
            (4.0, 3.999_873_3),
        ] {
            assert!((gelu(x) - expected).abs() < 1e-6, "gelu({x}) = {}", gelu(x));
        }
    }

    #[test]
    fn softmax_weights_sum_to_one_also_for_great_numbers() {
        let mut row = [1000.0, 999.0, -1000.0];
        softmax(&mut row, 1.0);
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(row[0] > row[1] && row[2] == 0.0);
    }
}
