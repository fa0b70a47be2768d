//! CJSQ: call join shortest queue (Jiang et al. 2009, §III): fewest calls.

use super::Policy;
use super::fewest::Fewest;
use crate::PoolSettings;

pub(super) fn make(_: &PoolSettings) -> Box<dyn Policy> {
    Fewest::boxed(|load| load.calls)
}
