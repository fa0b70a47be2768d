//! The call table against figure 4 of Jiang et al., and against every ending that the figure forgets.

use core::time::Duration;
use std::collections::BTreeMap;

use proptest::prelude::*;
use tandem_base::{HashKey, Rng};

use super::*;
use crate::{Slot, Work};

/// Books that remember: what is on each place now.
#[derive(Default)]
struct Books {
    calls: BTreeMap<Place, i64>,
    requests: BTreeMap<Place, i64>,
    work: BTreeMap<Place, i64>,
    took: Vec<(Method, Duration)>,
    unanswered: usize,
}

impl Ledger for Books {
    fn call_began(&mut self, place: Place) {
        *self.calls.entry(place).or_default() += 1;
    }
    fn call_ended(&mut self, place: Place) {
        *self.calls.entry(place).or_default() -= 1;
    }
    fn request_began(&mut self, place: Place, method: Method) -> Work {
        let work = Work(if method == Method::Invite { 1750 } else { 1000 });
        *self.requests.entry(place).or_default() += 1;
        *self.work.entry(place).or_default() += i64::from(work.0);
        work
    }
    fn request_ended(&mut self, place: Place, method: Method, work: Work, took: Option<Duration>) {
        *self.requests.entry(place).or_default() -= 1;
        *self.work.entry(place).or_default() -= i64::from(work.0);
        self.took.extend(took.map(|took| (method, took)));
    }
    fn unanswered(&mut self, _: Place) {
        self.unanswered += 1;
    }
}

impl Books {
    fn weight(&self, place: Place) -> (i64, i64, i64) {
        let of = |map: &BTreeMap<Place, i64>| map.get(&place).copied().unwrap_or_default();
        (of(&self.calls), of(&self.requests), of(&self.work))
    }

    fn booked(&self, place: Place) -> Weight {
        let (calls, requests, work) = self.weight(place);
        let number = |n: i64| u64::try_from(n).expect("booked below zero");
        Weight { calls: number(calls), requests: number(requests), work: number(work) }
    }
}

const HERE: Place = Place { pool: 0, slot: Slot(3) };
const THERE: Place = Place { pool: 0, slot: Slot(4) };

struct Bench {
    calls: Calls,
    books: Books,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let calls = Calls::new(HashKey::from_rng(&mut Rng::from_seed(1)), 1_000, Times::default());
        Self { calls, books: Books::default(), now: Instant::from_secs(100) }
    }

    fn invite(&mut self, call_id: &str) -> Key {
        let hash = self.calls.hash(call_id.as_bytes());
        let first = first(Method::Invite, 1, HERE);
        self.calls.begin(self.now, hash, &first, &mut self.books).unwrap()
    }

    fn asks(&mut self, key: Key, method: Method, cseq: u32) {
        let asked = Asked { method, cseq, inward: true, in_dialog: true };
        self.calls.request(self.now, key, &asked, &mut self.books);
    }

    fn answers(&mut self, key: Key, method: Method, cseq: u32, status: u16) {
        let answered = Answered { method, cseq, status, inward: true };
        self.calls.response(self.now, key, &answered, &mut self.books);
    }

    fn wait(&mut self, secs: u64) {
        for _ in 0..secs {
            self.now += Duration::from_secs(1);
            self.calls.handle_timeout(self.now, &mut self.books);
        }
    }

    fn state(&self, key: Key) -> Option<State> {
        self.calls.get(key).map(Call::state)
    }

    /// An INVITE that was accepted and acknowledged.
    fn up(&mut self) -> Key {
        let key = self.invite("a");
        self.answers(key, Method::Invite, 1, 200);
        self.asks(key, Method::Ack, 1);
        key
    }

    /// Ended in this way, counted once, nothing booked; and some time later nothing is left at all.
    fn is_over(&mut self, key: Key, ending: Ending) {
        assert!(self.state(key).is_some_and(State::is_expired), "{:?}", self.state(key));
        assert_eq!(self.books.weight(HERE), (0, 0, 0));
        let mut expected = [0; Ending::ALL.len()];
        expected[ending as usize] = 1;
        assert_eq!(self.calls.endings(), &expected);
        assert_eq!((self.calls.calls(), self.calls.expired()), (0, 1));
        self.wait(40);
        assert!(self.calls.is_empty() && self.calls.poll_timeout().is_none());
        assert_eq!(self.calls.find(self.calls.hash(b"a")), None);
    }
}

fn first(method: Method, cseq: u32, place: Place) -> First {
    First { place, method, cseq, caller: 7, ahead: 2, cause: Cause::Policy, stays: true }
}

/// Jiang et al., figure 4, line by line, with w_inv = 1.75 and w_bye = 1: the counter goes up by the INVITE's weight,
/// down at its 200, up by the BYE's at the BYE, down at its 200, and the entry moves to the expired table.
#[test]
fn a_call_passes_the_states_of_figure_4_and_books_what_figure_4_books() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Inv), (1, 1, 1750)));
    bench.now += Duration::from_millis(20);
    for status in [100, 180, 200] {
        bench.answers(key, Method::Invite, 1, status);
    }
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Inv200), (1, 0, 0)));
    bench.asks(key, Method::Ack, 1);
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Ack), (1, 0, 0)));
    bench.wait(60);
    bench.asks(key, Method::Bye, 2);
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Bye), (1, 1, 1000)));
    bench.now += Duration::from_millis(3);
    bench.answers(key, Method::Bye, 2, 200);
    assert_eq!(bench.state(key), Some(State::Bye200));
    let took = [(Method::Invite, Duration::from_millis(20)), (Method::Bye, Duration::from_millis(3))];
    assert_eq!(bench.books.took, took);
    bench.is_over(key, Ending::Bye);
}

#[test]
fn a_refused_call_ends_and_its_second_try_with_credentials_finds_it() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.answers(key, Method::Invite, 1, 407);
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Failed), (0, 0, 0)));
    let again = Asked { method: Method::Invite, cseq: 2, inward: true, in_dialog: false };
    assert!(bench.calls.is_another_try(key, &again));
    assert!(!bench.calls.is_another_try(key, &Asked { cseq: 1, ..again }), "a retransmission begins nothing");
    bench.calls.restart(bench.now, key, &first(Method::Invite, 2, HERE), &mut bench.books);
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Inv), (1, 1, 1750)));
    bench.answers(key, Method::Invite, 1, 407); // a late repetition says nothing of the second try
    assert_eq!(bench.state(key), Some(State::Inv));
    bench.answers(key, Method::Invite, 2, 486);
    assert_eq!(bench.calls.endings()[Ending::Refused as usize], 2);
    bench.wait(40);
    assert!(bench.calls.is_empty());
}

#[test]
fn a_busy_callee_ends_the_call() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.answers(key, Method::Invite, 1, 486);
    bench.is_over(key, Ending::Refused);
}

#[test]
fn a_redirected_call_ends() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.answers(key, Method::Invite, 1, 302);
    bench.is_over(key, Ending::Refused);
}

#[test]
fn a_cancelled_call_ends_with_its_487() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.answers(key, Method::Invite, 1, 180);
    bench.asks(key, Method::Cancel, 1);
    assert_eq!(bench.state(key), Some(State::Inv));
    bench.answers(key, Method::Invite, 1, 487);
    bench.is_over(key, Ending::Cancelled);
}

/// Without the CANCEL the ringing lasts 190 s; after it the 487 has 40 s.
#[test]
fn a_cancelled_call_ends_without_its_487() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.answers(key, Method::Invite, 1, 180);
    bench.asks(key, Method::Cancel, 1);
    bench.wait(30);
    bench.asks(key, Method::Cancel, 1); // a repetition gives no more time
    bench.answers(key, Method::Invite, 1, 180);
    bench.wait(11);
    bench.is_over(key, Ending::Cancelled);
}

#[test]
fn an_invite_without_any_answer_ends_the_call_and_speaks_against_its_destination() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.wait(39);
    assert_eq!(bench.state(key), Some(State::Inv));
    bench.wait(2);
    assert_eq!(bench.books.unanswered, 1);
    bench.is_over(key, Ending::NoAnswer);
}

/// Every provisional response gives it another 190 s (RFC 3261 §16.6 step 11).
#[test]
fn a_call_that_rings_for_ever_ends() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    for _ in 0..3 {
        bench.answers(key, Method::Invite, 1, 180);
        bench.wait(180);
        assert_eq!(bench.state(key), Some(State::Inv));
    }
    bench.wait(20);
    assert_eq!(bench.books.unanswered, 0);
    bench.is_over(key, Ending::NoAnswer);
}

#[test]
fn a_call_whose_ack_never_comes_ends() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.answers(key, Method::Invite, 1, 200);
    bench.wait(41);
    bench.is_over(key, Ending::NoAck);
}

#[test]
fn a_call_whose_bye_is_never_answered_ends() {
    let mut bench = Bench::new();
    let key = bench.up();
    bench.asks(key, Method::Bye, 2);
    bench.wait(41);
    bench.is_over(key, Ending::LostBye);
}

#[test]
fn a_call_whose_bye_never_comes_ends() {
    let mut bench = Bench::new();
    let key = bench.up();
    bench.wait(12 * 3600 + 1);
    bench.is_over(key, Ending::TooLong);
}

/// A session refresh is a sign of life.
#[test]
fn a_refreshed_call_lasts_longer() {
    let mut bench = Bench::new();
    let key = bench.up();
    bench.wait(11 * 3600);
    bench.asks(key, Method::Update, 2);
    bench.answers(key, Method::Update, 2, 200);
    bench.wait(2 * 3600);
    assert_eq!(bench.state(key), Some(State::Ack));
}

#[test]
fn a_bye_of_the_callee_ends_the_call_and_weighs_nothing_on_its_destination() {
    let mut bench = Bench::new();
    let key = bench.up();
    let asked = Asked { method: Method::Bye, cseq: 9, inward: false, in_dialog: true };
    bench.calls.request(bench.now, key, &asked, &mut bench.books);
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Bye), (1, 0, 0)));
    let answered = Answered { method: Method::Bye, cseq: 9, status: 200, inward: false };
    bench.calls.response(bench.now, key, &answered, &mut bench.books);
    bench.is_over(key, Ending::Bye);
}

#[test]
fn a_challenged_bye_ends_the_call_at_its_second_answer() {
    let mut bench = Bench::new();
    let key = bench.up();
    bench.asks(key, Method::Bye, 2);
    bench.answers(key, Method::Bye, 2, 401);
    assert_eq!(bench.state(key), Some(State::Bye));
    bench.asks(key, Method::Bye, 3);
    assert_eq!(bench.books.weight(HERE), (1, 1, 1000));
    bench.answers(key, Method::Bye, 3, 200);
    bench.is_over(key, Ending::Bye);
}

#[test]
fn a_bye_that_is_told_481_ends_the_call() {
    let mut bench = Bench::new();
    let key = bench.up();
    bench.asks(key, Method::Bye, 2);
    bench.answers(key, Method::Bye, 2, 481);
    bench.is_over(key, Ending::Bye);
}

#[test]
fn a_call_that_its_destination_forgot_ends_with_the_481() {
    let mut bench = Bench::new();
    let key = bench.up();
    bench.asks(key, Method::Invite, 2);
    bench.answers(key, Method::Invite, 2, 481);
    bench.is_over(key, Ending::Unknown);
}

#[test]
fn the_calls_of_a_removed_destination_end_and_the_others_go_on() {
    let mut bench = Bench::new();
    let key = bench.up();
    let other = bench.calls.hash(b"other");
    let other =
        bench.calls.begin(bench.now, other, &first(Method::Invite, 1, THERE), &mut bench.books).unwrap();
    bench.calls.remove_place(HERE);
    bench.calls.handle_timeout(bench.now, &mut bench.books);
    assert!(!bench.calls.is_removing());
    assert_eq!((bench.state(key), bench.state(other)), (None, Some(State::Inv)));
    assert_eq!((bench.books.weight(HERE), bench.books.weight(THERE)), ((0, 0, 0), (1, 1, 1750)));
    assert_eq!(bench.calls.endings()[Ending::Removed as usize], 1);
}

/// A server that died while it rang answers none of these calls, and must not seem busy when it is back.
#[test]
fn what_rings_at_a_destination_that_went_down_weighs_nothing_and_may_still_be_answered() {
    let mut bench = Bench::new();
    let (ringing, silent) = (bench.invite("ringing"), bench.invite("silent"));
    bench.answers(ringing, Method::Invite, 1, 180);
    assert_eq!(bench.books.weight(HERE), (2, 2, 3500));
    bench.calls.place_fell(THERE);
    bench.calls.handle_timeout(bench.now, &mut bench.books);
    assert_eq!(bench.books.weight(HERE), (2, 2, 3500), "another destination fell");
    bench.calls.place_fell(HERE);
    bench.calls.handle_timeout(bench.now, &mut bench.books);
    assert_eq!(bench.books.weight(HERE), (2, 1, 1750), "what was not answered at all still weighs");
    bench.asks(ringing, Method::Invite, 1);
    assert_eq!(bench.books.weight(HERE), (2, 1, 1750), "a repetition opens nothing");
    bench.answers(ringing, Method::Invite, 1, 200);
    assert_eq!((bench.state(ringing), bench.state(silent)), (Some(State::Inv200), Some(State::Inv)));
    assert_eq!(bench.books.weight(HERE), (2, 1, 1750));
}

/// 5,000 calls of one destination are ended over two turns, so that no turn takes long.
#[test]
fn a_removed_destination_with_many_calls_stalls_nothing() {
    let mut bench = Bench::new();
    bench.calls = Calls::new(HashKey::from_rng(&mut Rng::from_seed(1)), 10_000, Times::default());
    for n in 0..5_000_u32 {
        bench.invite(&n.to_string());
    }
    bench.calls.remove_place(HERE);
    bench.calls.handle_timeout(bench.now, &mut bench.books);
    assert_eq!((bench.calls.is_removing(), bench.calls.len()), (true, 904));
    bench.calls.handle_timeout(bench.now, &mut bench.books);
    assert!(!bench.calls.is_removing() && bench.calls.is_empty());
    assert_eq!(bench.books.weight(HERE), (0, 0, 0));
}

#[test]
fn a_request_outside_calls_weighs_as_a_request_until_its_answer_and_is_no_call() {
    let mut bench = Bench::new();
    let hash = bench.calls.hash(b"a");
    let key = bench.calls.begin(bench.now, hash, &first(Method::Message, 5, HERE), &mut bench.books).unwrap();
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Request), (0, 1, 1000)));
    bench.answers(key, Method::Message, 5, 202);
    assert_eq!((bench.state(key), bench.books.weight(HERE)), (Some(State::Answered), (0, 0, 0)));
    let next = Asked { method: Method::Message, cseq: 6, inward: true, in_dialog: false };
    assert!(bench.calls.is_free(key, &next) && !bench.calls.is_free(key, &Asked { cseq: 5, ..next }));
    bench.calls.restart(bench.now, key, &first(Method::Message, 6, THERE), &mut bench.books);
    assert_eq!((bench.books.weight(HERE), bench.books.weight(THERE)), ((0, 0, 0), (0, 1, 1000)));
    bench.answers(key, Method::Message, 6, 401);
    assert!(
        !bench.calls.is_free(key, &Asked { cseq: 7, ..next }),
        "the nonce is known only where it was made"
    );
    bench.wait(40);
    assert!(bench.calls.is_empty() && bench.books.weight(THERE) == (0, 0, 0));
}

#[test]
fn a_request_outside_calls_that_is_never_answered_weighs_nothing_in_the_end() {
    let mut bench = Bench::new();
    let hash = bench.calls.hash(b"a");
    bench.calls.begin(bench.now, hash, &first(Method::Options, 1, HERE), &mut bench.books).unwrap();
    bench.wait(80);
    assert!(bench.calls.is_empty());
    assert_eq!((bench.books.weight(HERE), bench.books.unanswered), ((0, 0, 0), 1));
}

#[test]
fn a_call_that_fails_over_takes_its_weight_along() {
    let mut bench = Bench::new();
    let key = bench.invite("a");
    bench.calls.move_to(bench.now, key, THERE, &mut bench.books);
    assert_eq!((bench.books.weight(HERE), bench.books.weight(THERE)), ((0, 0, 0), (1, 1, 1750)));
    bench.answers(key, Method::Invite, 1, 503);
    assert_eq!(bench.books.weight(THERE), (0, 0, 0));
}

#[test]
fn a_full_table_refuses_and_keeps_what_it_has() {
    let mut bench = Bench::new();
    for n in 0..1_000_u32 {
        bench.invite(&n.to_string());
    }
    let hash = bench.calls.hash(b"one more");
    let refused = bench.calls.begin(bench.now, hash, &first(Method::Invite, 1, HERE), &mut bench.books);
    assert_eq!(refused, Err(Full));
    assert_eq!(bench.books.weight(HERE).0, 1_000);
}

#[test]
fn the_audit_finds_what_was_booked_beside_the_table() {
    let mut bench = Bench::new();
    for n in 0..100_u32 {
        bench.invite(&n.to_string());
    }
    let books = &bench.books;
    assert!(!bench.calls.audit(60, |place| Some(books.booked(place))));
    // In mid-pass calls before and behind the front change.
    let keys: Vec<Key> = bench.calls.iter().map(|(key, _)| key).collect();
    for key in keys {
        bench.answers(key, Method::Invite, 1, if key.slot() % 2 == 0 { 200 } else { 486 });
    }
    bench.invite("late");
    let books = &bench.books;
    assert!(bench.calls.audit(60, |place| Some(books.booked(place))));
    assert_eq!((bench.calls.audits(), bench.calls.audit_difference()), (1, 0));
    bench.books.call_began(HERE);
    let books = &bench.books;
    assert!(bench.calls.audit(1_000, |place| Some(books.booked(place))));
    assert_eq!(bench.calls.audit_difference(), 1);
}

/// At most 400 octets a held call, indices and timer included; here without the allocator's own.
#[test]
fn an_entry_is_small() {
    assert!(size_of::<Call>() <= 136, "{}", size_of::<Call>());
}

#[derive(Clone, Debug)]
enum Step {
    Begin(u8, bool, u32),
    Ask(u8, u8, u32, bool, bool),
    Answer(u8, u8, u32, u16, bool),
    Move(u8),
    Remove,
    Wait(u32),
    Audit,
}

const METHODS: [Method; 7] = [
    Method::Invite,
    Method::Ack,
    Method::Bye,
    Method::Cancel,
    Method::Prack,
    Method::Update,
    Method::Message,
];

fn step() -> impl Strategy<Value = Step> {
    let status = prop::sample::select(vec![100, 180, 200, 202, 302, 401, 407, 481, 486, 487, 503, 603]);
    let call = || 0..6_u8;
    let method = || 0..7_u8;
    let cseq = || 0..5_u32;
    prop_oneof![
        3 => (call(), any::<bool>(), cseq()).prop_map(|(c, invite, n)| Step::Begin(c, invite, n)),
        6 => (call(), method(), cseq(), any::<bool>(), any::<bool>())
            .prop_map(|(c, m, n, inward, dialog)| Step::Ask(c, m, n, inward, dialog)),
        6 => (call(), method(), cseq(), status, any::<bool>())
            .prop_map(|(c, m, n, s, inward)| Step::Answer(c, m, n, s, inward)),
        1 => call().prop_map(Step::Move),
        1 => Just(Step::Remove),
        2 => (0..50_000_u32).prop_map(Step::Wait),
        2 => Just(Step::Audit),
    ]
}

proptest! {
    /// Messages of six calls in any order, lost, doubled and late: what is booked equals what the entries weigh after
    /// every step, and when nothing comes any more the table drains to nothing.
    #[test]
    fn in_any_order_load_equals_the_table_and_drains_to_zero(steps in prop::collection::vec(step(), 1..200)) {
        let mut bench = Bench::new();
        for step in steps {
            let hash = |calls: &Calls, call: u8| calls.hash(&[call]);
            match step {
                Step::Begin(call, invite, cseq) => {
                    let hash = hash(&bench.calls, call);
                    let method = if invite { Method::Invite } else { Method::Message };
                    let first = first(method, cseq, Place { pool: 0, slot: Slot(u16::from(call % 3)) });
                    match bench.calls.find(hash) {
                        Some(key) => {
                            let asked = Asked { method, cseq, inward: true, in_dialog: false };
                            if bench.calls.is_free(key, &asked) || bench.calls.is_another_try(key, &asked) {
                                bench.calls.restart(bench.now, key, &first, &mut bench.books);
                            }
                        }
                        None => {
                            bench.calls.begin(bench.now, hash, &first, &mut bench.books).unwrap();
                        }
                    }
                }
                Step::Ask(call, method, cseq, inward, in_dialog) => {
                    let asked = Asked { method: METHODS[usize::from(method)], cseq, inward, in_dialog };
                    if let Some(key) = bench.calls.find(hash(&bench.calls, call)) {
                        bench.calls.request(bench.now, key, &asked, &mut bench.books);
                    }
                }
                Step::Answer(call, method, cseq, status, inward) => {
                    let answered = Answered { method: METHODS[usize::from(method)], cseq, status, inward };
                    if let Some(key) = bench.calls.find(hash(&bench.calls, call)) {
                        bench.calls.response(bench.now, key, &answered, &mut bench.books);
                    }
                }
                Step::Move(call) => {
                    let found = bench.calls.find(hash(&bench.calls, call));
                    let is_inv = |key: &Key| bench.state(*key) == Some(State::Inv);
                    if let Some(key) = found.filter(is_inv) {
                        bench.calls.move_to(bench.now, key, THERE, &mut bench.books);
                    }
                }
                Step::Remove => bench.calls.remove_place(THERE),
                Step::Wait(ms) => {
                    bench.now += Duration::from_millis(u64::from(ms));
                    bench.calls.handle_timeout(bench.now, &mut bench.books);
                }
                Step::Audit => {
                    let books = &bench.books;
                    bench.calls.audit(2, |place| Some(books.booked(place)));
                }
            }
            let mut sums: BTreeMap<Place, Weight> = BTreeMap::new();
            let (mut calls, mut expired) = (0, 0);
            for (_, call) in bench.calls.iter() {
                let sum = sums.entry(call.place()).or_default();
                *sum = sum.plus(Weight::of(call));
                calls += usize::from(call.state().is_call());
                expired += usize::from(call.state().is_expired());
            }
            for slot in 0..5 {
                let place = Place { pool: 0, slot: Slot(slot) };
                prop_assert_eq!(sums.get(&place).copied().unwrap_or_default(), bench.books.booked(place));
            }
            prop_assert_eq!((calls, expired), (bench.calls.calls(), bench.calls.expired()));
            prop_assert_eq!(bench.calls.audit_difference(), 0);
        }
        for _ in 0..3 {
            bench.now += Duration::from_secs(13 * 3600);
            bench.calls.handle_timeout(bench.now, &mut bench.books);
            bench.calls.handle_timeout(bench.now, &mut bench.books);
        }
        prop_assert!(bench.calls.is_empty(), "{:?}", bench.calls);
        prop_assert!(bench.books.calls.values().all(|&n| n == 0) && bench.books.work.values().all(|&n| n == 0));
    }
}
