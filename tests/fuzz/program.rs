//! One program for each of the targets, all from this file: a program knows its target by its name.

#![no_main]
#![allow(clippy::unwrap_used, reason = "what cannot be set up stops the program")]

mod targets;

libfuzzer_sys::fuzz_target!(
    init: {
        // A decoder's panic that we catch is no finding, and libFuzzer's own hook would end the program at it.
        drop(std::panic::take_hook());
    },
    |bytes: &[u8]| {
        let named = targets::TARGETS.iter().find(|target| target.name == env!("CARGO_BIN_NAME"));
        (named.unwrap().run)(bytes);
    }
);
