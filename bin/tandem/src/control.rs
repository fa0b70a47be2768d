//! The control socket: one JSON object a line, request then answer, over a Unix socket that only the node's own user
//! may open.

pub(crate) mod client;
pub(crate) mod protocol;
pub(crate) mod server;

#[cfg(test)]
mod tests;
