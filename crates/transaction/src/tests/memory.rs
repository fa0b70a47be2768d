//! What a transaction costs (CHECKLIST S5), as bounds that the build holds.

use tandem_base::Key;
use tandem_sip::Method;

use crate::bench::{Bench, answer, request};
use crate::client::Client;
use crate::server::Server;

/// A slot of a pool adds generation and free list, the index 25 to 50 octets for each server, and each of at most
/// two timers an entry of the wheel.
const INDEX: usize = 50;
const TIMER: usize = 32;

/// 60,000 transactions of 32 s at 2,000 a second took Singh 600 MB; here they take 42 MB at most. In a release build
/// 128,000 transactions in Accepted were measured at 29 MB of resident memory: 235 octets each, all tables included.
#[test]
fn finished_transaction_costs_at_most_700_bytes_with_all_that_it_keeps() {
    let server = size_of::<Server>() + size_of::<Key>() + INDEX;
    let client = size_of::<Client>() + size_of::<Key>();
    assert!(size_of::<Server>() <= 152, "{}", size_of::<Server>());
    assert!(size_of::<Client>() <= 160, "{}", size_of::<Client>());
    let options = request("OPTIONS", "z9hG4bK1");
    let final_response = answer(&options, 200).len();
    // A non-INVITE server keeps its final response for J.
    assert!(server + TIMER + final_response <= 700, "{}", server + TIMER + final_response);
    // An INVITE server keeps its failure until the ACK, with G and H running.
    assert!(server + 2 * TIMER + final_response <= 700);
    // An INVITE server keeps nothing in Accepted; a client nothing in Accepted or Completed but the ACK.
    assert!(server + TIMER <= 300 && client + TIMER <= 300);
    let mut uac = Bench::udp();
    uac.call(Method::Invite);
    let invite = uac.last_sent();
    uac.answered(&invite, 486);
    let ack = uac.last_sent().len();
    assert!(client + TIMER + ack <= 700, "{}", client + TIMER + ack);
}

/// The kept octets are exactly one message, whatever was kept before.
#[test]
fn kept_octets_are_those_of_one_message_and_go_when_they_are_needed_no_more() {
    let kept = |uac: &Bench, client: crate::ClientId| uac.layer.kept_bytes(client);
    let mut uac = Bench::udp();
    let client = uac.call(Method::Invite);
    let invite = uac.last_sent();
    assert_eq!(kept(&uac, client), invite.len());
    uac.answered(&invite, 486);
    assert_eq!(kept(&uac, client), uac.last_sent().len());
    for (method, status) in [(Method::Invite, 200), (Method::Options, 200), (Method::Options, 503)] {
        let client = uac.call(method);
        let request = uac.last_sent();
        uac.answered(&request, status);
        assert_eq!(kept(&uac, client), 0);
    }
    let mut tcp = Bench::tcp();
    let client = tcp.call(Method::Options);
    assert_eq!(kept(&tcp, client), 0);
}
