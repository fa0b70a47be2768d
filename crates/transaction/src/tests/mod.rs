//! The layer as its users and peers see it, on a virtual clock.

mod any_order;
mod cancel;
mod clients;
mod matching;
mod memory;
mod servers;
