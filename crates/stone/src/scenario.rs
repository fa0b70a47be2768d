//! SIPp's scenarios, the common subset: send, recv, pause, nop, labels, regular expressions, variables, user files.
//!
//! A scenario is read whole first, and whatever is not supported is named with its line before a packet leaves.
//! Left out: media (`pcap`, `rtp_stream`), `sendCmd`/`recvCmd`, `exec`, TCP and TLS, SIPp's interactive keys.

mod call;
mod model;
mod parse;
mod play;
mod run;
mod text;

pub use call::Setting;
pub use model::Scenario;
pub use parse::parse;
pub use play::{PlayLimits, Player, StepCounts};
pub use run::{Played, Script, play};
