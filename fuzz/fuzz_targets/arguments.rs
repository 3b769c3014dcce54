//! Tool arguments of a model: see `rejoin_tests::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_tests::fuzzing::arguments(data));
