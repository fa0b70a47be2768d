//! Anything in any order: no panic (every call also checks the tables), and all tables drain.

use core::time::Duration;

use proptest::prelude::*;
use tandem_base::Instant;
use tandem_sip::{Index, Limits, Message, Method, Outbox};

use crate::bench::{Bench, USER, answer, peer, request};
use crate::{Arrival, ClientId, Config, Event, ServerId};

#[derive(Clone, Debug)]
enum Step {
    /// A request with one of a few branches, from one of two addresses.
    Request {
        method: usize,
        branch: u8,
        foreign: bool,
    },
    Respond {
        which: usize,
        status: u16,
    },
    Abandon {
        which: usize,
    },
    Call {
        method: usize,
    },
    /// A response to one of the requests sent so far, CANCELs and ACKs among them.
    Answer {
        which: usize,
        status: u16,
        method: Option<usize>,
    },
    Cancel {
        which: usize,
    },
    Fail {
        which: usize,
    },
    /// One octet of a sent message changed, and taken for a received one.
    Mutated {
        which: usize,
        at: usize,
        octet: u8,
    },
    Wait {
        ms: u64,
    },
}

const METHODS: [&str; 5] = ["INVITE", "ACK", "CANCEL", "OPTIONS", "FETCH"];
const CALLS: [Method; 3] = [Method::Invite, Method::Options, Method::Bye];

fn step() -> impl Strategy<Value = Step> {
    let status = prop::sample::select(vec![100, 180, 183, 200, 202, 300, 404, 486, 487, 503, 699]);
    prop_oneof![
        4 => (0..METHODS.len(), 0..6_u8, any::<bool>())
            .prop_map(|(method, branch, foreign)| Step::Request { method, branch, foreign }),
        3 => (any::<usize>(), status.clone()).prop_map(|(which, status)| Step::Respond { which, status }),
        1 => any::<usize>().prop_map(|which| Step::Abandon { which }),
        2 => (0..CALLS.len()).prop_map(|method| Step::Call { method }),
        4 => (any::<usize>(), status, prop::option::weighted(0.2, 0..METHODS.len()))
            .prop_map(|(which, status, method)| Step::Answer { which, status, method }),
        2 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        1 => any::<usize>().prop_map(|which| Step::Fail { which }),
        2 => (any::<usize>(), any::<usize>(), any::<u8>())
            .prop_map(|(which, at, octet)| Step::Mutated { which, at, octet }),
        3 => prop_oneof![0..50_u64, 400..600_u64, 3_000..40_000_u64].prop_map(|ms| Step::Wait { ms }),
    ]
}

struct Run {
    bench: Bench,
    servers: Vec<(ServerId, String)>,
    clients: Vec<ClientId>,
    opened: usize,
}

impl Run {
    fn new(reliable: bool) -> Self {
        let hop = if reliable { Bench::tcp().hop } else { peer("192.0.2.1:5060") };
        let config = Config { servers_max: 5, clients_max: 6, ..Config::default() };
        Self { bench: Bench::with(config, hop), servers: Vec::new(), clients: Vec::new(), opened: 0 }
    }

    fn take(&mut self, step: Step) {
        let bench = &mut self.bench;
        match step {
            Step::Request { method, branch, foreign } => {
                // Odd branches are those of RFC 2543.
                let branch = format!("{}{branch}", if branch % 2 == 0 { "z9hG4bK" } else { "" });
                let text = request(METHODS[method], &branch);
                let hop = if foreign { peer("198.51.100.1:5060") } else { bench.hop };
                let arrival = bench.receive_from(&text, hop);
                let (Arrival::New(key) | Arrival::Cancel { key, .. }) = arrival else { return };
                if key.method() == Method::Ack {
                    return;
                }
                let opened = crate::bench::read(&text, |message| {
                    bench.turn(|layer, now, _| layer.open_server(now, key, message, hop, USER))
                });
                if let Ok(server) = opened {
                    self.servers.push((server, text));
                    self.opened += 1;
                }
            }
            Step::Respond { which, status } => {
                let Some((server, text)) = self.servers.get(which % self.servers.len().max(1)) else {
                    return;
                };
                bench.respond(*server, text, status);
            }
            Step::Abandon { which } => {
                let Some((server, _)) = self.servers.get(which % self.servers.len().max(1)) else { return };
                bench.turn(|layer, now, _| layer.abandon_server(now, *server));
            }
            Step::Call { method } => {
                if let Ok(client) = bench.try_call(CALLS[method]) {
                    self.clients.push(client);
                    self.opened += 1;
                }
            }
            Step::Answer { which, status, method } => {
                let Some(sent) = bench.sent.get(which % bench.sent.len().max(1)) else { return };
                if sent.text.starts_with("SIP/") {
                    return;
                }
                let mut response = answer(&sent.text, status);
                if let Some(method) = method {
                    let start = response.find("986759 ").unwrap() + 7;
                    let end = start + response[start..].find('\r').unwrap();
                    response.replace_range(start..end, METHODS[method]);
                }
                bench.receive_response(&response);
            }
            Step::Cancel { which } => {
                let Some(&client) = self.clients.get(which % self.clients.len().max(1)) else { return };
                bench.turn(|layer, now, out| layer.cancel(now, client, out));
            }
            Step::Fail { which } => {
                let Some(sent) = bench.sent.get(which % bench.sent.len().max(1)) else { return };
                let text = sent.text.clone();
                bench.turn(|layer, now, _| layer.transport_error(now, text.as_bytes()));
            }
            Step::Mutated { which, at, octet } => {
                let Some(sent) = bench.sent.get(which % bench.sent.len().max(1)) else { return };
                let mut bytes = sent.text.clone().into_bytes();
                let at = at % bytes.len();
                bytes[at] = octet;
                self.receive_bytes(&bytes);
            }
            Step::Wait { ms } => {
                let until = self.bench.now_ms() + ms;
                self.bench.run_until_ms(until);
            }
        }
    }

    /// Takes what a peer may send: neither is it checked before, nor does the TU open anything for it.
    fn receive_bytes(&mut self, bytes: &[u8]) {
        let (bench, mut index, mut out) = (&mut self.bench, Index::new(), Outbox::new());
        bench.layer.transport_error(bench.now, bytes);
        let Ok(message) = Message::parse(bytes, &mut index, &Limits::default()) else { return };
        if message.is_request() {
            bench.layer.receive_request(bench.now, &message, bench.hop, &mut out);
        }
        bench.layer.receive_response(bench.now, &message, &mut out);
        bench.turn(|_, _, _| ());
    }
}

proptest! {
    /// 64·T1 = 32 s ends what has an answer; the TU answers the rest at the start, and cancels what rings. An INVITE
    /// that is cancelled unanswered dies by B or by the guard, 32 s either way; what came last waits for at most
    /// another 32 s (D, J, L, M).
    #[test]
    fn everything_drains_and_every_transaction_says_goodbye_once(
        reliable: bool,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut run = Run::new(reliable);
        for step in steps {
            run.take(step);
            let len = run.bench.layer.len();
            prop_assert!(len.invite_server + len.non_invite_server <= 5);
            prop_assert!(len.invite_client + len.non_invite_client <= 6);
        }
        for (server, text) in run.servers.clone() {
            run.bench.respond(server, &text, 500);
        }
        for client in run.clients.clone() {
            run.bench.turn(|layer, now, out| layer.cancel(now, client, out));
        }
        let start = run.bench.now;
        run.bench.run_to_end();
        let spent: Duration = run.bench.now.saturating_since(start);
        prop_assert!(spent <= Duration::from_secs(64), "{:?}", spent);
        prop_assert!(run.bench.layer.is_empty(), "{:?}", run.bench.layer.len());
        prop_assert_eq!(run.bench.layer.poll_timeout(), None::<Instant>);
        let mut goodbyes = Vec::new();
        for event in run.bench.events() {
            if let Event::ServerTerminated { server, .. } = event {
                goodbyes.push(server.to_bits() << 1);
            }
            if let Event::ClientTerminated { client, .. } = event {
                goodbyes.push(client.to_bits() << 1 | 1);
            }
        }
        prop_assert_eq!(goodbyes.len(), run.opened);
        goodbyes.sort_unstable();
        goodbyes.dedup();
        prop_assert_eq!(goodbyes.len(), run.opened);
        let counters = run.bench.layer.counters();
        prop_assert_eq!(counters.opened, counters.finished);
    }

    #[test]
    fn no_octets_a_peer_sends_are_too_much(bytes: Vec<u8>, tail: Vec<u8>) {
        let mut run = Run::new(false);
        run.take(Step::Call { method: 0 });
        run.receive_bytes(&bytes);
        let mut request = request("INVITE", "z9hG4bK1").into_bytes();
        request.truncate(tail.len() * 7);
        request.extend_from_slice(&tail);
        run.receive_bytes(&request);
    }
}
