//! The laboratory: the papers' experiments, run on what ships, with each claim checked.
//!
//! `tandem lab balancer` puts the balancer that ships ([`tandem_balance::Balancer`]) on a virtual clock, in front of
//! modelled servers ([`model`]) and behind callers that speak SIP as text ([`world`]). An experiment asks one question
//! and answers with claims, tables and plots ([`finding`]); a claim that does not hold is printed as such.
//!
//! Left out: what the balancer itself costs (docs/PERFORMANCE.md), and loss on the wire.

pub mod bench;
mod calls;
pub mod cli;
mod clock;
pub mod experiments;
pub mod figures;
pub mod finding;
pub mod model;
pub mod page;
pub mod peak;
pub mod plot;
mod real;
mod server;
mod subject;
mod text;
pub mod world;
