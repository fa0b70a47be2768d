//! From TOML text to a checked configuration.
