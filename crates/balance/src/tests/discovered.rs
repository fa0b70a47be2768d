//! A pool whose destinations are found while it runs.

use core::time::Duration;
use std::sync::Arc;

use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{Hop, ListenerId, Method};

use crate::{
    Board, Choice, Destination, HealthSettings, Mistake, POLICIES, PolicySettings, Pool, PoolSettings,
};

const CHOICE: Choice<'_> =
    Choice { call_id: b"a@b", user: Some(b"alice"), method: Method::Invite, tried: &[] };

fn one() -> Destination {
    let peer = "192.0.2.1:5060".parse().unwrap();
    Destination::new("big.example.com-5060", Hop::udp(ListenerId(0), peer))
}

#[test]
fn a_pool_that_is_still_empty_refuses_with_a_time_to_retry_under_every_policy_and_fills_later() {
    for entry in POLICIES {
        let (policy, health) = (PolicySettings::new(entry.name), HealthSettings::default());
        let board = Arc::new(Board::new(4, 1));
        let empty = PoolSettings::discovered("p", policy.clone(), health.clone(), Vec::new()).unwrap();
        let key = HashKey::from_bytes([7; 16]);
        let mut pool = Pool::new(Arc::new(empty.clone()), Arc::clone(&board), 0, key, Rng::from_seed(1));
        let now = Instant::from_secs(1);
        let refused = pool.pick(now, &CHOICE).unwrap_err();
        assert!(refused.retry_after >= Duration::from_secs(1), "{}", entry.name);

        let filled = empty.next(policy.clone(), health.clone(), vec![one()], &board, now).unwrap();
        pool.reconfigure(now, Arc::new(filled.clone()));
        let slot = pool.pick(now, &CHOICE).unwrap();
        assert_eq!(pool.settings().destination(slot), Some(&one()), "{}", entry.name);

        let emptied = filled.next(policy.clone(), health.clone(), Vec::new(), &board, now).unwrap();
        pool.reconfigure(now, Arc::new(emptied.clone()));
        assert!(pool.pick(now, &CHOICE).is_err(), "{}", entry.name);
        // A pool that has to be whole again.
        let whole = emptied.may_be_empty(false).next(policy, health, Vec::new(), &board, now);
        assert_eq!(whole.unwrap_err(), Mistake::Empty);
    }
}
