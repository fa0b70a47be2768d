//! The registrar and the location service: RFC 3261 §10.
