//! The fuzz targets over their corpus and mutations of it: a smoke test of `make fuzz`.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use rejoin_tests::fuzzing::TARGETS;

/// Number of mutated inputs per target.
const CASES: u32 = 3_000;
/// Maximum number of mutations per input.
const CHANGES: usize = 6;

/// Maximum size of an input, in bytes.
const MAX_INPUT_BYTES: usize = 16 * 1024;

/// Returns a target's corpus: one file per input.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a file")).collect()
}

#[derive(Debug, Clone)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    /// A part of another input.
    Splice(Index, Index, Index),
    Repeat(Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (any::<Index>(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Remove(from, to)),
        (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, of, from)| Change::Splice(at, of, from)),
        (any::<Index>(), 2..50_u8).prop_map(|(at, times)| Change::Repeat(at, times)),
    ]
}

fn apply(change: &Change, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = |index: &Index, input: &[u8]| index.index(input.len() + 1);
    match change {
        Change::Set(index, byte) => {
            let at = at(index, input);
            match input.get_mut(at) {
                Some(there) => *there = *byte,
                None => input.push(*byte),
            }
        }
        Change::Flip(index, bit) => {
            let at = at(index, input);
            if let Some(there) = input.get_mut(at) {
                *there ^= 1 << bit;
            }
        }
        Change::Insert(index, bytes) => {
            let at = at(index, input);
            input.splice(at..at, bytes.iter().copied());
        }
        Change::Remove(from, to) => {
            let (from, to) = (at(from, input), at(to, input));
            input.drain(from.min(to)..from.max(to));
        }
        Change::Splice(index, of, from) => {
            let at = at(index, input);
            let other = of.get(corpus);
            let piece = &other[from.index(other.len() + 1)..];
            input.splice(at..at, piece.iter().copied());
        }
        Change::Repeat(index, times) => {
            let at = at(index, input);
            let piece = input[at..].to_vec();
            for _ in 1..*times {
                input.extend_from_slice(&piece);
            }
        }
    }
}

#[test]
fn no_bytes_upset_the_parsers() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "{name} has no corpus");
        for input in &corpus {
            target(input);
        }
        let mut runner = TestRunner::new_with_rng(
            Config {
                cases: CASES,
                failure_persistence: None,
                ..Config::default()
            },
            // Deterministic inputs; `make fuzz` covers others.
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let inputs = (any::<Index>(), vec(change(), 1..=CHANGES));
        runner
            .run(&inputs, |(of, changes)| {
                let mut input = of.get(&corpus).clone();
                for change in &changes {
                    apply(change, &mut input, &corpus);
                    input.truncate(MAX_INPUT_BYTES);
                }
                target(&input);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
