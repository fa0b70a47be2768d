//! A balancer's probes that the network gives back.

use core::time::Duration;
use std::sync::Arc;

use crate::common::{BOB, Bench, Sent, config};
use tandem_balance as balance;
use tandem_base::{HashKey, Instant};
use tandem_node::{Command, Event, Node};
use tandem_sip::{Hop, ListenerId};

const INTERVAL: u64 = 60;

/// A balancer of two shards, of which the bench is the first; a probe goes out each minute and has half of it.
fn balancer() -> (Bench, Node) {
    let health = balance::HealthSettings {
        interval: Some(Duration::from_secs(INTERVAL)),
        timeout: Duration::from_secs(INTERVAL / 2),
        fall: 2,
        ..balance::HealthSettings::default()
    };
    let bob = balance::Destination::new("bob", Hop::udp(ListenerId(0), BOB.parse().unwrap()));
    let policy = balance::PolicySettings::new("tlwl");
    let settings = balance::PoolSettings::new("main", policy, health, vec![bob]).unwrap();
    let pool = balance::PoolConfig::new(Arc::new(settings), Arc::new(balance::Board::new(8, 2)));
    let mut config = config(&["localhost"]);
    config.balance = Some(Arc::new(balance::Config::new(vec![pool])));
    let bench = Bench::with(config.clone());
    let other = Node::new(Arc::new(config), Arc::clone(&bench.shared), &HashKey::from_bytes([7; 16]), 2);
    (bench, other.on_shard(1))
}

fn standing(bench: &Bench) -> (balance::State, balance::Reason, u32) {
    let pool = bench.node.balancer().unwrap().pool("main").unwrap();
    let view = pool.view(bench.now).next().unwrap();
    (view.state, view.reason, view.changes)
}

/// The next probe, before its timeout.
fn probe(bench: &mut Bench) -> String {
    for _ in 0..=2 * INTERVAL {
        if let Some((to, text)) = bench.pass(1).pop() {
            assert!(to == BOB && text.starts_with("OPTIONS "), "{to} {text}");
            return text;
        }
    }
    panic!("no probe");
}

fn give_back(node: &mut Node, now: Instant, probe: &str) {
    let mut out = tandem_sip::Outbox::new();
    node.handle_command(now, &Command::Undeliverable { message: probe.as_bytes().into() }, &mut out);
    assert!(out.iter().next().is_none());
}

#[test]
fn a_probe_that_came_back_has_failed_at_once_on_whichever_shard_it_arrived() {
    let (mut bench, mut other) = balancer();
    let now = bench.now;
    let first = probe(&mut bench);
    // Made up by somebody who did not see it: nothing happens.
    let (head, tail) = first.split_once("branch=z9hG4bKhp").unwrap();
    let forged = format!("{head}branch=z9hG4bKhp{}{}", "0".repeat(32), &tail[32..]);
    let gives_back = |bench: &mut Bench, text: &str| {
        let now = bench.now;
        give_back(&mut bench.node, now, text);
    };
    gives_back(&mut bench, &forged);
    gives_back(&mut bench, &first);
    gives_back(&mut bench, &first);
    assert_eq!(standing(&bench).0, balance::State::Active, "one failure, told twice, is one");

    let second = probe(&mut bench);
    give_back(&mut other, bench.now, &second);
    assert_eq!(standing(&bench).0, balance::State::Active, "another shard does not watch");
    let Some(Event::Probed(answer)) = other.poll_event() else { panic!("it tells the one that does") };
    let sent: Vec<Sent> = bench.command(&Command::Probed(answer));
    assert!(sent.is_empty());
    let down = (balance::State::Down, balance::Reason::Unreachable, 1);
    assert_eq!(standing(&bench), down, "before any timeout, {:?} after the start", bench.now - now);
    // The timeouts of both have nothing to add.
    bench.pass(INTERVAL / 2);
    assert_eq!(standing(&bench), down);
}
