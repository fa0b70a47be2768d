//! The thread-per-core loop that drives a machine.
