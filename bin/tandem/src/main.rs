//! Keeps phone calls up: a SIP cluster in one binary.

fn main() {}
