//! The load tool: offered load, both ends, and the bare forwarder.
