//! One load over several processes or hosts, as in SIPstone: a controller, loaders that call, handlers that answer.
//!
//! They speak JSON, one object a line, over TCP. The controller tells each its part; handlers register their users and
//! say so; loaders begin together; each sends its report, latencies whole, and the controller judges the sum.
//! Left out: authentication between them. The controller listens on loopback unless the plan says otherwise.

mod controller;
mod helper;
mod wire;

pub use controller::control;
pub use helper::{Part, help};
pub use wire::Role;
