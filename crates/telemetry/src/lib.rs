//! Counters, log and the admin endpoint.
