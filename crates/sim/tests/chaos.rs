//! Anything at any time: random nodes, telephones and actions; the checkers alone say what must hold.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use tandem_node::{Challenge, Config, Durability, Mode, Network};
use tandem_proxy::Fork;
use tandem_sim::{PhoneId, World, millis, secs, sweep};
use tandem_sip::Method;
use tandem_ua::{Answer, RequestId, Wish};

fn configure(world: &mut World) -> Config {
    let domains = tandem_node::Domains::new(&["x"]).expect("a domain");
    let mut config = Config::new(domains, tandem_node::Listeners::default());
    config.mode = [Mode::Stateful, Mode::Stateless, Mode::Auto][world.rng.index(3)];
    config.durability = [Durability::Memory, Durability::Async, Durability::Commit][world.rng.index(3)];
    config.auth.challenge = [Challenge::Outside, Challenge::Never][world.rng.index(2)];
    config.proxy.fork = [Fork::Parallel, Fork::Serial][world.rng.index(2)];
    config.proxy.recurse_redirects = world.rng.chance(0.3);
    // Above 64·T1: a branch that nobody answers is over by timer B before timer C fires (§16.6 step 11).
    config.proxy.timer_c = secs(35 + world.rng.below(30));
    config
}

fn answer(world: &mut World, contacts: &[String]) -> Answer {
    let status = [200, 200, 200, 200, 486, 480, 603, 302, 503][world.rng.index(9)];
    Answer {
        ring_after: Some(millis(world.rng.below(800))),
        after: Some(if world.rng.chance(0.85) { millis(world.rng.below(4000)) } else { secs(120) }),
        status,
        contacts: vec![contacts[world.rng.index(contacts.len())].clone()],
        hang_up_after: world.rng.chance(0.3).then(|| millis(world.rng.below(5000))),
        is_deaf_to_ack: world.rng.chance(0.03),
    }
}

fn act(world: &mut World, phones: &[PhoneId], calls: &mut Vec<(PhoneId, RequestId)>) {
    let phone = phones[world.rng.index(phones.len())];
    let other = phones[world.rng.index(phones.len())];
    let live: Vec<_> = world.ua(phone).live_dialogs().collect();
    let dialog = live.get(world.rng.index(live.len())).copied();
    let target = world.ua(other).settings().aor();
    let is_other = world.ua(phone).settings().aor() != target;
    let choice = world.rng.below(12);
    // A proxy without state chooses anew for a repeated INVITE, so that a binding taken away meanwhile ends the call
    // on one side only (RFC 3261 §16.11 wants no choice that changes with time).
    let is_stateful = (0..2).all(|node| world.config(world.node_id(node)).mode == Mode::Stateful);
    let wishes = [Wish::Bind(600), Wish::Fetch, Wish::Bind(0), Wish::UnbindAll];
    let wish = wishes[world.rng.index(if is_stateful { 4 } else { 2 })];
    match (choice, dialog) {
        (0..5, _) if is_other => calls.push((phone, world.call(phone, other))),
        (5, _) if !calls.is_empty() => {
            let (caller, call) = calls[world.rng.index(calls.len())];
            world.act(caller, |ua, now, out| ua.cancel(now, call, out));
        }
        (6..8, Some(dialog)) => {
            world.hang_up(phone, dialog);
        }
        (8, Some(dialog)) => {
            world.act(phone, |ua, now, out| ua.request_in(now, dialog, Method::Invite, out));
        }
        (9, Some(dialog)) => {
            world.act(phone, |ua, now, out| ua.request_in(now, dialog, Method::Info, out));
        }
        (10, _) => {
            world.act(phone, |ua, now, out| ua.request(now, Method::Message, &target, out));
        }
        (11, _) if !world.ua(phone).is_registering() => {
            world.act(phone, |ua, now, out| ua.register(now, wish, out));
        }
        _ => {}
    }
}

/// Two domains with one to three shards each, five to eight telephones on three or four addresses-of-record, thirty
/// actions; loss, delay, jitter and duplicates drawn from the seed.
#[test]
fn whatever_happens_the_checkers_hold() {
    sweep(0..1024, |seed| {
        let mut world = World::poor(seed);
        let trusted = Network { address: "10.0.0.0".parse().expect("an address"), prefix: 24 };
        let mut nodes = Vec::new();
        for domain in ["atlanta.example", "biloxi.example"] {
            let drawn = configure(&mut world);
            let shards = 1 + world.rng.index(3);
            nodes.push(world.node_of(domain, domain, shards, |config| {
                config.mode = drawn.mode;
                config.durability = drawn.durability;
                config.proxy = drawn.proxy;
                config.proxy.contexts_max = 4096;
                config.auth.challenge = drawn.auth.challenge;
                config.auth.trusted = vec![trusted];
            }));
        }
        let users = ["alice", "bob", "carol", "alice", "bob", "dave", "alice", "bob"];
        let count = 5 + world.rng.index(4);
        let phones: Vec<PhoneId> = (0..count).map(|n| world.phone(users[n], nodes[n % 3 / 2])).collect();
        let contacts: Vec<String> = phones.iter().map(|&p| world.ua(p).settings().contact()).collect();
        for &phone in &phones {
            let answer = answer(&mut world, &contacts);
            let q = ["", "0.3", "0.7"][world.rng.index(3)].to_owned();
            let (keeps, follows) = (world.rng.chance(0.5), world.rng.chance(0.3));
            world.set(phone, |settings| {
                settings.answer = answer;
                settings.q = q;
                settings.keeps_credentials = keeps;
                settings.follows_redirects = follows;
            });
        }
        world.register_all(&phones);
        let mut calls = Vec::new();
        for _ in 0..30 {
            act(&mut world, &phones, &mut calls);
            let gap = millis(world.rng.below(1500));
            world.run_for(gap);
        }
        world.run_for(secs(60));
        for (caller, call) in calls {
            world.act(caller, |ua, now, out| ua.cancel(now, call, out));
        }
        for &phone in &phones {
            let live: Vec<_> = world.ua(phone).live_dialogs().collect();
            for dialog in live {
                world.hang_up(phone, dialog);
                let gap = millis(world.rng.below(300));
                world.run_for(gap);
            }
        }
        world.finish();
    });
}
