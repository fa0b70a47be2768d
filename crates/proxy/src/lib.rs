//! The proxy: RFC 3261 §16, validate, route, fork, answer.
