//! Ways out of the path (CHECKLIST L11, L15).

use tandem_base::Instant;
use tandem_sip::{HeaderName, Outbox};

use super::bench::*;
use crate::calls::{Ending, State};
use crate::{Config, Path};

fn bench(path: Path) -> Bench {
    let mut config = Config::new(vec![pool_config("media", "round-robin", 4)]);
    config.pools[0].path = path;
    Bench::of(config)
}

#[test]
fn record_route_leaves_later_messages_to_the_destination_and_the_load_with_them() {
    let mut bench = bench(Path::RecordRoute);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    assert_eq!(invite.values(HeaderName::RecordRoute), Vec::<String>::new());
    assert_eq!(invite.values(HeaderName::Via).len(), 2);
    bench.pass(&invite.to, &invite.answer(200, ""));
    assert_eq!(bench.balancer.whereabouts(b"c1").unwrap().2.state(), State::Away);
    assert!(bench.booked().iter().all(|&booked| booked == (0, 0)));
    assert_eq!(bench.balancer.calls().endings()[Ending::Away as usize], 1);
    // What comes by us nevertheless still finds its destination.
    assert_eq!(bench.pass(CALLER, &request("ACK", "c1", 1, "ack", "in-dialog")).to, invite.to);
}

#[test]
fn transparent_sends_what_came_under_the_callers_address_and_keeps_the_call_together() {
    let mut bench = bench(Path::Transparent);
    let mut pass = |text: &str| {
        let mut out = Outbox::new();
        bench.balancer.handle_input(Instant::from_secs(1), hop(CALLER), text.as_bytes(), &mut out);
        assert_eq!(out.len(), 0, "nothing leaves under our own address");
        let all: Vec<_> = out.iter_as().collect();
        assert_eq!((all.len(), all[0].0), (1, hop(CALLER).peer));
        (all[0].1.peer, String::from_utf8(all[0].2.to_vec()).unwrap())
    };
    let sent = request("INVITE", "c1", 1, "inv", "");
    let via = |text: &str| text.lines().filter(|line| line.starts_with("Via:")).map(str::to_owned).collect();
    let vias: Vec<String> = via(&sent);
    let (to, invite) = pass(&sent);
    assert_eq!((via(&invite), invite.contains("Record-Route")), (vias, false));
    for method in ["INVITE", "CANCEL", "ACK"] {
        assert_eq!(pass(&request(method, "c1", 1, "inv", "")).0, to);
    }
    assert_eq!(pass(&request("BYE", "c1", 2, "bye", "in-dialog")).0, to);
}

/// A destination answers past us, or, where it keeps to the source address, by us: the caller gets its own Via back.
#[test]
fn no_via_keeps_us_out_of_the_answers_and_sends_those_on_that_come_all_the_same() {
    let mut bench = bench(Path::NoVia);
    let invite = bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", ""));
    let vias = invite.values(HeaderName::Via);
    assert_eq!(vias.len(), 1);
    assert!(vias[0].contains(";received=198.51.100.7") && vias[0].contains(";rport=5070"), "{vias:?}");
    assert!(invite.values(HeaderName::RecordRoute).is_empty());
    assert!(bench.booked().iter().all(|&booked| booked == (0, 0)));
    // RFC 3261 §18.2.1: it notes where the packet came from, which is us.
    let ok = bench.pass(&invite.to, &invite.answer(200, ""));
    assert_eq!(ok.to, CALLER);
    let via = ok.values(HeaderName::Via).remove(0);
    assert_eq!(via, format!("SIP/2.0/UDP {CALLER};branch=z9hG4bKinv;received=198.51.100.7;rport=5070"));
    let forged = invite.answer(200, "").replace("branch=z9hG4bKinv", "branch=z9hG4bKother");
    assert!(bench.receive(&invite.to, &forged).is_empty());
    // The same destination for what comes by us all the same.
    assert_eq!(bench.pass(CALLER, &request("INVITE", "c1", 1, "inv", "")).to, invite.to);
    assert_eq!(bench.pass(CALLER, &request("BYE", "c1", 2, "bye", "in-dialog")).to, invite.to);
}

#[test]
fn redirect_sends_the_caller_itself_and_says_the_same_again_to_a_repetition() {
    let mut bench = bench(Path::Redirect);
    let text = request("INVITE", "c1", 1, "inv", "");
    let answer = bench.pass(CALLER, &text);
    assert!(answer.start().starts_with("SIP/2.0 302") && answer.to == CALLER);
    let contact = answer.values(HeaderName::Contact).remove(0);
    assert!(contact.starts_with("<sip:bob@203.0.113."), "{contact}");
    assert_eq!(bench.pass(CALLER, &text), answer);
    assert!(bench.receive(CALLER, &request("ACK", "c1", 1, "inv", "in-dialog")).is_empty());
    let other = bench.pass(CALLER, &request("INVITE", "c2", 1, "inv2", ""));
    assert_ne!(other.values(HeaderName::Contact)[0], contact);
}

/// Our own address stands for the pool: the destination is told its own.
#[test]
fn a_request_uri_that_names_us_names_the_destination_behind_us() {
    let mut bench = bench(Path::Via);
    let text = request("INVITE", "c1", 1, "inv", "")
        .replace("sip:bob@example.com SIP", &format!("sip:bob@{US};user=phone SIP"));
    let invite = bench.pass(CALLER, &text);
    assert_eq!(invite.start(), format!("INVITE sip:bob@{};user=phone SIP/2.0", invite.to));
}

#[test]
fn requests_go_to_the_pool_that_has_their_host_and_the_rest_to_the_one_that_has_none() {
    let mut config =
        Config::new(vec![pool_config("a", "round-robin", 2), pool_config("b", "round-robin", 2)]);
    config.pools[0].hosts = vec![(*b"example.com").into()];
    let mut bench = Bench::of(config);
    bench.pass(CALLER, &request("INVITE", "c1", 1, "i1", ""));
    let text =
        request("INVITE", "c2", 1, "i2", "").replace("sip:bob@example.com SIP", "sip:bob@example.net SIP");
    bench.pass(CALLER, &text);
    let pool = |bench: &Bench, call: &str| bench.balancer.whereabouts(call.as_bytes()).unwrap().0.to_owned();
    assert_eq!((pool(&bench, "c1"), pool(&bench, "c2")), ("a".to_owned(), "b".to_owned()));
}
