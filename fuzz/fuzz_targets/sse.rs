//! The client's parser of server-sent events: see `rejoin_tests::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_tests::fuzzing::sse(data));
