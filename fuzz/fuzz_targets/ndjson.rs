//! Lines of a graph import: see `rejoin_tests::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_tests::fuzzing::ndjson(data));
