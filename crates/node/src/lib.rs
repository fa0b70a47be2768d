//! The daemon as a machine: what ships is what the simulator runs.
