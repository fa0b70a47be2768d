//! `frame`: see ../README.md.

#![no_main]

#[path = "../../crates/sip/tests/exercise/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::frame(bytes));
