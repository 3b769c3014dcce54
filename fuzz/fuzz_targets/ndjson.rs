//! Lines of an import into the graph: see `rejoin_tests::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_tests::fuzzing::ndjson(data));
