//! Both ends against each other in virtual time, with a network between them that may do harm.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use proptest::prelude::*;
use tandem_base::Instant;
use tandem_sip::{ListenerId, Outbox};

use crate::drive::{CALLEE, CALLER};
use crate::load::{Hold, Load, Retransmit, Workload};
use crate::uac::Uac;
use crate::uas::{Answering, Uas};
use crate::{Ramp, Users};

fn addr(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn load(workload: Workload) -> Load {
    let users = Users::parse("u00..u19", "").unwrap();
    Load {
        domain: "example.org".into(),
        calls_max: 1000,
        seed: 7,
        run: 9,
        caller_addr: addr(1),
        callee_addr: addr(2),
        ..Load::new(workload, addr(2), users, 200.0, Duration::from_secs(2))
    }
}

/// Both ends, a virtual clock, and every datagram that passed.
struct World {
    uac: Uac,
    uas: Uas,
    wire: Vec<(u64, ListenerId, Vec<u8>)>,
}

/// What the network does with a datagram: the bytes that arrive, if any.
type Network<'a> = &'a mut dyn FnMut(ListenerId, &[u8]) -> Option<Vec<u8>>;

impl World {
    fn new(load: Load) -> Self {
        Self::ringing(load, Duration::ZERO)
    }

    fn ringing(load: Load, ring: Duration) -> Self {
        let answering = Answering {
            addr: addr(2),
            handler: 3,
            ringing: true,
            ring,
            retransmit: load.retransmit,
            calls_max: 1000,
            seed: 1,
        };
        let begins = !load.register_first;
        let mut uac = Uac::new(Arc::new(load), CALLER, 0);
        if begins {
            uac.begin(Instant::from_secs(1));
        }
        Self { uac, uas: Uas::new(answering, CALLEE), wire: Vec::new() }
    }

    fn run(&mut self, network: Network<'_>) {
        let mut now = Instant::from_secs(1);
        let mut out = Outbox::new();
        for _ in 0..200_000 {
            self.uac.tick(now, &mut out);
            self.uas.tick(now, &mut out);
            while !out.is_empty() {
                let sent: Vec<_> = out.iter().map(|(hop, bytes)| (hop.listener, bytes.to_vec())).collect();
                out.clear();
                for (from, bytes) in sent {
                    self.wire.push((now.as_nanos(), from, bytes.clone()));
                    let Some(bytes) = network(from, &bytes) else { continue };
                    if from == CALLER {
                        self.uas.receive(now, addr(1), &bytes, &mut out);
                        self.uas.tick(now, &mut out);
                    } else {
                        self.uac.receive(now, addr(2), &bytes, &mut out);
                    }
                }
            }
            if self.uac.is_done() {
                return;
            }
            if self.uac.is_registering() {
                continue;
            }
            if self.uac.is_ready() {
                self.uac.begin(now);
            }
            match [self.uac.next(), self.uas.next()].into_iter().flatten().min() {
                Some(next) => now = next.max(now),
                None => return,
            }
        }
        panic!("the load did not end");
    }
}

#[test]
fn every_call_over_a_perfect_network_succeeds_and_both_ends_count_the_same() {
    let mut world = World::new(load(Workload::Proxy200));
    world.run(&mut |_, bytes| Some(bytes.to_vec()));
    let (caller, callee) = (&world.uac.counts, &world.uas.counts);
    assert!(caller.intended > 300);
    assert_eq!([caller.succeeded, caller.answered, caller.ended], [caller.intended; 3]);
    assert_eq!([callee.invites, callee.acks, callee.byes], [caller.intended; 3]);
    assert_eq!(world.uac.unexpected.total() + world.uas.unexpected.total(), 0);
    let invite =
        world.wire.iter().map(|(_, _, bytes)| bytes).find(|bytes| bytes.starts_with(b"INVITE")).unwrap();
    assert_eq!(invite.len(), 600);
}

/// One datagram in ten is lost, so that every message of a cancelled call is lost in some call.
#[test]
fn a_cancelled_call_ends_with_487_at_both_ends_or_goes_on_if_the_200_was_faster_whatever_is_lost() {
    let load = Load {
        cancel: 0.5,
        within: Duration::from_secs(60),
        retransmit: Retransmit::Rfc3261,
        ..load(Workload::Proxy200)
    };
    let mut world = World::ringing(load, Duration::from_millis(125));
    let mut count = 0_u32;
    world.run(&mut |_, bytes| {
        count += 1;
        (!count.is_multiple_of(10)).then(|| bytes.to_vec())
    });
    let (caller, callee) = (&world.uac.counts, &world.uas.counts);
    assert!(caller.cancelled > 50 && caller.cancels > caller.cancelled, "{caller:?}");
    assert_eq!(caller.cancelled + caller.answered, caller.intended, "{caller:?}");
    assert_eq!(
        (caller.succeeded, callee.cancelled),
        (caller.intended, caller.cancelled),
        "{:?}",
        world.uac.unexpected
    );
}

#[test]
fn a_seed_repeats_a_run_to_the_byte_and_another_does_not() {
    let wire = |seed| {
        let mut load = load(Workload::Proxy200);
        load.seed = seed;
        load.hold = Hold::Exponential(1.0);
        let mut world = World::new(load);
        world.run(&mut |_, bytes| Some(bytes.to_vec()));
        world.wire
    };
    assert!(wire(1) == wire(1));
    assert!(wire(1) != wire(2));
}

/// A third of all datagrams is lost. RFC 3261 timers bring most through; whatever fails is counted, nothing is left open.
#[test]
fn under_loss_repetitions_bring_calls_through_and_no_call_is_left_over() {
    for retransmit in [Retransmit::None, Retransmit::Sipstone, Retransmit::Rfc3261] {
        let mut load = load(Workload::Proxy200);
        load.retransmit = retransmit;
        let mut world = World::new(load);
        let mut count = 0;
        world.run(&mut |_, bytes| {
            count += 1;
            (count % 3 != 0).then(|| bytes.to_vec())
        });
        let c = &world.uac.counts;
        assert_eq!(c.succeeded + c.failed, c.started, "{retransmit:?}");
        assert_eq!(world.uac.attempts(), 0);
        let share = c.succeeded as f64 / c.started as f64;
        match retransmit {
            Retransmit::None => assert_eq!(c.retransmissions, 0),
            Retransmit::Sipstone | Retransmit::Rfc3261 => assert!(share > 0.5, "{share}"),
        }
    }
}

/// SIPstone gives up at the limit, RFC 3261 after 64·T1.
#[test]
fn an_answer_that_never_comes_is_no_success() {
    for retransmit in [Retransmit::None, Retransmit::Sipstone, Retransmit::Rfc3261] {
        let load = Load { retransmit, ..load(Workload::Proxy200) };
        let mut world = World::new(load);
        world.run(&mut |from, bytes| {
            (from == CALLER || !bytes.starts_with(b"SIP/2.0 200")).then(|| bytes.to_vec())
        });
        let c = &world.uac.counts;
        assert_eq!((c.succeeded, c.timed_out, world.uac.attempts()), (0, c.intended, 0), "{retransmit:?}");
    }
}

#[test]
fn by_rfc_3261_an_answer_after_the_limit_is_waited_for_and_late() {
    let load = Load { retransmit: Retransmit::Rfc3261, ..load(Workload::Proxy200) };
    let mut world = World::ringing(load, Duration::from_secs(3));
    world.run(&mut |_, bytes| Some(bytes.to_vec()));
    let c = &world.uac.counts;
    assert_eq!([c.late, c.failed, c.answered], [c.intended; 3]);
    assert_eq!((c.succeeded, c.timed_out), (0, 0));
}

/// RFC 3261 §13.2.2.4. The first ACK of every call is lost.
#[test]
fn a_200_that_comes_again_is_acknowledged_again() {
    let mut world = World::new(Load { hold: Hold::Constant(1.0), ..load(Workload::Proxy200) });
    let mut lost = std::collections::BTreeSet::new();
    world.run(&mut |_, bytes| {
        (!bytes.starts_with(b"ACK") || !lost.insert(call_id(bytes))).then(|| bytes.to_vec())
    });
    let (caller, callee) = (&world.uac.counts, &world.uas.counts);
    assert_eq!((callee.acks, callee.unacknowledged), (caller.intended, 0), "{callee:?}");
}

fn call_id(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    text.lines().find(|line| line.starts_with("Call-ID")).unwrap_or_default().to_owned()
}

/// No first answer to a BYE arrives: its repetition is answered half a second after the BYE was due, and that is its time.
#[test]
fn latency_counts_from_when_a_request_was_due_and_not_from_its_repetition() {
    let mut world = World::new(load(Workload::Proxy200));
    let mut lost = std::collections::BTreeSet::new();
    world.run(&mut |from, bytes| {
        let answers_bye = from == CALLEE && String::from_utf8_lossy(bytes).contains(" BYE\r\n");
        let is_first = answers_bye && lost.insert(call_id(bytes));
        (!is_first).then(|| bytes.to_vec())
    });
    let c = &world.uac.counts;
    assert_eq!([c.succeeded, c.ended], [c.intended; 2]);
    let bye = world.uac.times.bye.at_us(0.0);
    assert!((450_000.0..550_000.0).contains(&bye), "{bye}");
}

#[test]
fn a_refusal_is_acknowledged_and_counted_by_kind_with_a_sample() {
    let mut world = World::new(load(Workload::Proxy200));
    world.run(&mut |from, bytes| {
        let text = String::from_utf8_lossy(bytes);
        if from == CALLEE && text.contains("INVITE") {
            return text
                .starts_with("SIP/2.0 200")
                .then(|| text.replacen("200 OK", "486 Busy Here", 1).into_bytes());
        }
        Some(bytes.to_vec())
    });
    let c = &world.uac.counts;
    assert_eq!((c.refused, c.succeeded), (c.started, 0));
    let busy = &world.uac.unexpected.0["486 to INVITE"];
    assert_eq!(busy.count, c.started);
    assert!(busy.sample.starts_with("SIP/2.0 486 Busy Here"));
    let acks = world.wire.iter().filter(|(_, _, bytes)| bytes.starts_with(b"ACK sip:u")).count();
    assert!(acks as u64 >= c.started);
}

#[test]
fn a_request_for_another_handlers_call_is_counted_as_strayed() {
    let mut world = World::new(load(Workload::Proxy200));
    world.run(&mut |from, bytes| {
        let text = String::from_utf8_lossy(bytes);
        let strays = from == CALLER && text.starts_with("BYE");
        Some(if strays {
            text.replacen("tag=stn0003", "tag=stn0004", 1).into_bytes()
        } else {
            bytes.to_vec()
        })
    });
    let strayed = world.uas.counts.strayed;
    assert!(strayed >= world.uac.counts.byes && strayed > 0);
}

#[test]
fn every_single_workload_is_answered_and_measured() {
    for workload in
        [Workload::Register, Workload::Options, Workload::Message, Workload::Subscribe, Workload::Publish]
    {
        let mut world = World::new(load(workload));
        world.run(&mut |_, bytes| Some(bytes.to_vec()));
        let c = &world.uac.counts;
        assert_eq!((c.succeeded, c.single_answers), (c.intended, c.intended), "{workload:?}");
        assert_eq!(world.uac.times.single[&workload].count(), c.intended);
    }
}

/// What earlier runs left would take calls to ends that are gone: 20 users, each cleared and then registered.
#[test]
fn users_are_cleared_and_registered_before_the_first_call() {
    let mut load = load(Workload::Proxy200);
    load.register_first = true;
    let mut world = World::new(load);
    world.run(&mut |_, bytes| Some(bytes.to_vec()));
    let texts = world.wire.iter().map(|(_, _, bytes)| String::from_utf8_lossy(bytes));
    let sent: Vec<_> =
        texts.filter(|text| text.starts_with("REGISTER") || text.starts_with("INVITE")).collect();
    let registers = sent.iter().take_while(|text| text.starts_with("REGISTER")).count();
    let clears = sent.iter().filter(|text| text.contains("Contact: *\r\nExpires: 0\r\n")).count();
    assert_eq!((registers, clears, world.uac.setup_failed), (40, 20, 0));
    assert_eq!(world.uac.counts.succeeded, world.uac.counts.intended);
}

/// What a datagram may turn into on its way.
#[derive(Clone, Debug)]
enum Harm {
    Flip(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Replace(Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    let piece = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"Via: x\r\n".to_vec()),
        Just(b"Record-Route: <,\"<>\r\n".to_vec()),
        Just(b"Contact: \r\nTo: \r\n".to_vec()),
        Just(b"SIP/2.0 ".to_vec()),
        Just(b";tag=stn00030000".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, bit)| Harm::Flip(at, bit)),
        any::<usize>().prop_map(Harm::Cut),
        (any::<usize>(), piece).prop_map(|(at, piece)| Harm::Insert(at, piece)),
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(Harm::Replace),
    ]
}

impl Harm {
    fn done_to(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let at = |place: usize| place % bytes.len().max(1);
        match self {
            Self::Flip(place, with) => {
                let place = at(*place);
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= with;
                }
            }
            Self::Cut(place) => bytes.truncate(at(*place)),
            Self::Insert(place, piece) => {
                let place = at(*place);
                bytes.splice(place..place, piece.iter().copied());
            }
            Self::Replace(with) => bytes.clone_from(with),
        }
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// CVE-2026-0710 is a crash of a load tool on a crafted answer.
    #[test]
    fn no_malformed_message_crashes_an_end_or_leaves_a_call_over(harms in proptest::collection::vec(harm(), 1..20)) {
        let mut load = load(Workload::Proxy200);
        load.ramp = Ramp::flat(40.0);
        let mut world = World::new(load);
        let mut turn = 0;
        world.run(&mut |_, bytes| {
            turn += 1;
            let harm = &harms[turn % harms.len()];
            Some(if turn % 2 == 0 { harm.done_to(bytes) } else { bytes.to_vec() })
        });
        let c = &world.uac.counts;
        prop_assert_eq!(c.succeeded + c.failed, c.started);
    }
}
