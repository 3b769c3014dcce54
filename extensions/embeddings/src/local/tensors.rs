//! Reads files in the safetensors format: a length, a JSON header with name, type, shape and offset of each tensor,
//! then the numbers, little-endian, of 32 or 16 bits. Called when the model is loaded, and for each token's row of the
//! vocabulary, which stays on disk.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Mutex;

use half::f16;
use ndarray::{Array1, Array2};
use serde::Deserialize;

/// Maximum size of a header, in bytes; real ones have some ten thousand.
const MAX_HEADER_BYTES: u64 = 1024 * 1024;
const F32_BYTES: usize = 4;
const F16_BYTES: usize = 2;

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// An open file of tensors.
#[derive(Debug)]
pub struct Tensors {
    /// One reader at a time: reads move the file's cursor.
    file: Mutex<File>,
    data_begin: u64,
    entries: HashMap<String, Entry>,
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Tensors {
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES {
            return Err(invalid("its header is too long for a safetensors file"));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header)?;
        let header: HashMap<String, serde_json::Value> = serde_json::from_slice(&header)
            .map_err(|error| invalid(format!("its header cannot be parsed: {error}")))?;
        let mut entries = HashMap::new();
        for (name, value) in header {
            if name != "__metadata__" {
                let entry = serde_json::from_value(value)
                    .map_err(|error| invalid(format!("its entry {name} cannot be parsed: {error}")))?;
                entries.insert(name, entry);
            }
        }
        Ok(Self {
            file: Mutex::new(file),
            data_begin: 8 + length,
            entries,
        })
    }

    /// Returns the rows and columns of a matrix.
    pub fn shape(&self, name: &str) -> io::Result<(usize, usize)> {
        let entry = self.entry(name)?;
        match entry.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(invalid(format!("{name} is not a matrix"))),
        }
    }

    pub fn vector(&self, name: &str) -> io::Result<Array1<f32>> {
        let entry = self.entry(name)?;
        let [length] = entry.shape[..] else {
            return Err(invalid(format!("{name} is not a vector")));
        };
        Ok(Array1::from_vec(self.numbers(entry, 0, length)?))
    }

    pub fn matrix(&self, name: &str) -> io::Result<Array2<f32>> {
        let (rows, columns) = self.shape(name)?;
        let numbers = self.numbers(self.entry(name)?, 0, rows * columns)?;
        Array2::from_shape_vec((rows, columns), numbers).map_err(|error| invalid(format!("{name}: {error}")))
    }

    /// Returns one row of a matrix.
    pub fn row(&self, name: &str, row: usize) -> io::Result<Vec<f32>> {
        let (rows, columns) = self.shape(name)?;
        if row >= rows {
            return Err(invalid(format!("{name} has no row {row}")));
        }
        self.numbers(self.entry(name)?, row * columns, columns)
    }

    fn entry(&self, name: &str) -> io::Result<&Entry> {
        self.entries
            .get(name)
            .ok_or_else(|| invalid(format!("it has no tensor {name}")))
    }

    fn numbers(&self, entry: &Entry, skipped: usize, count: usize) -> io::Result<Vec<f32>> {
        let width = match entry.dtype.as_str() {
            "F32" => F32_BYTES,
            "F16" => F16_BYTES,
            other => {
                return Err(invalid(format!(
                    "a tensor has type {other}; only F32 and F16 are supported"
                )));
            }
        };
        let [begin, end] = entry.data_offsets;
        let needed = ((skipped + count) * width) as u64;
        if end.checked_sub(begin).is_none_or(|bytes| bytes < needed) {
            return Err(invalid("a tensor is shorter than its shape"));
        }
        let mut bytes = vec![0; count * width];
        {
            let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            file.seek(SeekFrom::Start(self.data_begin + begin + (skipped * width) as u64))?;
            file.read_exact(&mut bytes)?;
        }
        Ok(if width == F32_BYTES {
            let (numbers, _) = bytes.as_chunks::<F32_BYTES>();
            numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
        } else {
            let (numbers, _) = bytes.as_chunks::<F16_BYTES>();
            numbers
                .iter()
                .map(|number| f16::from_le_bytes(*number).to_f32())
                .collect()
        })
    }
}
