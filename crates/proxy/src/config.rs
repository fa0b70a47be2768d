//! What an operator may choose about forwarding.

use core::time::Duration;

/// How several targets of one request are tried (RFC 3261 §16.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fork {
    /// Targets of equal q at once, groups in descending q.
    #[default]
    Parallel,
    /// One after the other in descending q.
    Serial,
}

/// The proxy's settings; `docs/CONFIG.md` has the reason of each default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How forks run.
    pub fork: Fork,
    /// Whether dialogs are kept on our path by Record-Route (§16.6 step 4).
    pub record_route: bool,
    /// Whether the contacts of a 3xx become targets (§16.7 step 4).
    pub recurse_redirects: bool,
    /// Timer C: how long an INVITE may ring without a word, above three minutes (§16.6 step 11).
    pub timer_c: Duration,
    /// How long the cookie in our Record-Route vouches for a dialog, to the hour: its requests are challenged like any
    /// other afterwards.
    pub dialog_lifetime: Duration,
    /// Max-Forwards of a request that has none (§16.6 step 3).
    pub max_forwards: u8,
    /// Max-Breadth of a request that has none, and the cap on what one brings (RFC 5393 §5.3.3).
    pub max_breadth: u32,
    /// Branches of one request, all forks and recursions together.
    pub branches_max: usize,
    /// Response contexts in memory.
    pub contexts_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fork: Fork::default(),
            record_route: true,
            recurse_redirects: false,
            timer_c: Duration::from_secs(185),
            dialog_lifetime: Duration::from_secs(24 * 3600),
            max_forwards: 70,
            max_breadth: 60,
            branches_max: 64,
            contexts_max: 1 << 20,
        }
    }
}
