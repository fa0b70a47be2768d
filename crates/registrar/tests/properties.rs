//! Laws of registering that hold for any requests in any order.

#![expect(clippy::indexing_slicing, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;
use tandem_base::Instant;
use tandem_registrar::{ContactWish, Contacts, Outcome, Policy, Record, Register, register};

const CONTACTS: [&str; 5] = ["sip:a@h", "sip:b@h", "sip:b@H", "sips:a@h", "sip:c@h;transport=tcp"];
const CALL_IDS: [&str; 2] = ["one@h", "two@h"];

/// A request as proptest makes it: Call-ID, CSeq, and contacts with q and expires.
type Ask = (usize, u32, Vec<(usize, Option<u16>, Option<u64>)>);

fn ask() -> impl Strategy<Value = Ask> {
    let expires = proptest::option::of(prop_oneof![Just(0_u64), Just(30), 60..5000_u64]);
    let contact = (0..CONTACTS.len(), proptest::option::of(0..=1000_u16), expires);
    (0..CALL_IDS.len(), 1..6_u32, proptest::collection::vec(contact, 0..4))
}

fn request((call_id, cseq, contacts): &Ask) -> Register<'static> {
    let wish = |&(contact, q, expires): &(usize, Option<u16>, Option<u64>)| ContactWish {
        uri: CONTACTS[contact].as_bytes(),
        q,
        expires: expires.map(Duration::from_secs),
        instance: b"",
        reg_id: 0,
    };
    let contacts = match contacts.as_slice() {
        [] => Contacts::Fetch,
        some => Contacts::Each(some.iter().map(wish).collect()),
    };
    Register {
        call_id: CALL_IDS[*call_id].as_bytes(),
        cseq: *cseq,
        expires: None,
        contacts,
        path: Vec::new(),
        supports_path: false,
        user_agent: b"",
        received: None,
    }
}

/// Runs the requests one second apart; `each` sees old record, request, outcome.
fn run(
    asks: &[Ask],
    mut each: impl FnMut(Instant, Option<&Record>, &Ask, Option<&Outcome>),
) -> Option<Record> {
    let policy = Policy { contacts_max: 3, ..Policy::default() };
    let mut record: Option<Record> = None;
    for (second, ask) in (0_u64..).zip(asks) {
        let now = Instant::from_secs(second);
        let outcome = register(now, &policy, b"bob@h", record.as_ref(), &request(ask)).ok();
        each(now, record.as_ref(), ask, outcome.as_ref());
        if let Some(Outcome::Changed(new)) = outcome {
            record = new;
        }
    }
    record
}

proptest! {
    /// A retransmission whose transaction is forgotten must neither change the store nor be refused, unless a
    /// contact stands twice in it with different wishes.
    #[test]
    fn the_same_request_again_changes_nothing(asks in proptest::collection::vec(ask(), 1..12)) {
        let policy = Policy { contacts_max: 3, ..Policy::default() };
        run(&asks, |now, old, ask, outcome| {
            let Some(outcome) = outcome else { return };
            let mut contacts: Vec<_> = ask.2.iter().map(|wish| CONTACTS[wish.0].to_ascii_lowercase()).collect();
            contacts.sort();
            if contacts.windows(2).any(|pair| pair[0] == pair[1]) {
                return;
            }
            let again = register(now, &policy, b"bob@h", outcome.record(old), &request(ask));
            assert!(matches!(again, Ok(Outcome::Unchanged)), "{again:?} after {outcome:?}");
        });
    }

    /// What the 200 promises is in the record, no more than the bound, and no contact twice.
    #[test]
    fn a_record_never_holds_more_than_the_bound_or_a_contact_twice(
        asks in proptest::collection::vec(ask(), 1..12),
    ) {
        run(&asks, |_, old, _, outcome| {
            if let Some(record) = outcome.and_then(|outcome| outcome.record(old)) {
                assert!((1..=3).contains(&record.len()));
                let mut seen: Vec<_> = record.iter().map(|b| b.contact.to_ascii_lowercase()).collect();
                seen.sort();
                seen.dedup();
                assert_eq!(seen.len(), record.len());
                assert!(record.iter().map(|b| b.q).is_sorted_by(|a, b| a >= b));
            }
        });
    }

    /// Of two requests of one Call-ID for one contact, the one with the higher CSeq wins in either order.
    #[test]
    fn the_higher_cseq_wins_in_either_order(low in 1..100_u32, more in 1..100_u32, q: [bool; 2]) {
        let ask = |cseq, q| (0, cseq, vec![(0, Some(if q { 1000 } else { 500 }), Some(100))]);
        let (first, second) = (ask(low, q[0]), ask(low + more, q[1]));
        let last = |asks: &[Ask]| run(asks, |_, _, _, _| ()).map(|r| r.iter().map(|b| (b.cseq, b.q)).collect::<Vec<_>>());
        let want = Some(vec![(low + more, if q[1] { 1000 } else { 500 })]);
        prop_assert_eq!(last(&[first.clone(), second.clone()]), want.clone());
        prop_assert_eq!(last(&[second, first]), want);
    }

    /// After the longest time granted nothing is left.
    #[test]
    fn every_binding_ends(asks in proptest::collection::vec(ask(), 1..12)) {
        let end = Instant::from_secs(12) + Policy::default().expires_max;
        if let Some(record) = run(&asks, |_, _, _, _| ()) {
            prop_assert_eq!(record.live(end).count(), 0);
        }
    }
}
