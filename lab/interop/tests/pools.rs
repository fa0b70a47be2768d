//! Pools of real servers behind a balancer: SIPp, Kamailio, Tandem. Every message of a call reaches the server that has
//! the call, whoever is killed.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::process::Signal;
use tandem_interop::{Balancer, Kamailio, Lab, Port, Running, Setup, Sipp, Started, Subject, tandem_binary};

/// No probes: SIPp counts what it did not expect.
const UNPROBED: &str = "probe_interval = \"0s\"";
/// So that few calls reach all servers too.
const IN_TURN: &str = "probe_interval = \"0s\"\npolicy = \"round-robin\"";

fn callees(lab: &Lab, scenario: &'static str, count: usize) -> Vec<Started> {
    let like = SocketAddr::from(([127, 0, 0, 1], 0));
    (0..count).map(|_| Sipp::callee(lab, scenario, like).calls(0).start()).collect()
}

fn addresses(callees: &[Started]) -> Vec<SocketAddr> {
    callees.iter().map(Started::addr).collect()
}

fn caller<'a>(lab: &'a Lab, scenario: &'static str, to: &Balancer) -> Sipp<'a> {
    let sipp =
        Sipp::new(lab, scenario, to.addr().ip()).to(to.addr()).user("alice", "wonderland").unchallenged();
    sipp.key("domain", "pool.invalid").key("peer", "bob")
}

/// Methods by call, of one server; as often as each came.
fn calls(callee: &Started) -> BTreeMap<String, BTreeMap<String, u32>> {
    let mut calls = BTreeMap::<_, BTreeMap<_, u32>>::new();
    for (id, request) in callee.received() {
        let method = request.split(' ').next().unwrap_or_default().to_owned();
        *calls.entry(id).or_default().entry(method).or_default() += 1;
    }
    calls
}

/// Each call is on one server alone, all of it: so many calls, on all servers, each with these methods.
fn each_is_on_one_server(callees: &[Started], count: usize, methods: &[(&str, u32)]) {
    let mut seen = BTreeSet::new();
    for callee in callees {
        let calls = calls(callee);
        assert!(!calls.is_empty(), "a server without a call");
        for (id, got) in calls {
            for (method, least) in methods {
                assert!(got.get(*method).is_some_and(|n| n >= least), "{id}: {got:?}");
            }
            assert!(seen.insert(id.clone()), "{id} is on two servers");
        }
    }
    assert_eq!(seen.len(), count);
}

#[test]
fn every_message_of_a_call_with_a_reinvite_reaches_the_same_of_four_servers() {
    let lab = Lab::new("pool-reinvite");
    let callees = callees(&lab, "answer_reinvite", 4);
    let balancer = Balancer::start(&lab, UNPROBED, &addresses(&callees));
    caller(&lab, "call_reinvite", &balancer).calls(40).run();
    each_is_on_one_server(&callees, 40, &[("INVITE", 2), ("ACK", 2), ("BYE", 1)]);
}

#[test]
fn a_cancel_and_the_ack_of_its_487_reach_the_server_that_rings() {
    let lab = Lab::new("pool-cancel");
    let mut callees = callees(&lab, "ring", 4);
    let balancer = Balancer::start(&lab, IN_TURN, &addresses(&callees));
    caller(&lab, "call_cancel", &balancer).calls(20).run();
    for callee in &mut callees {
        // The caller is done when it has sent the last ACK.
        callee.wait_messages("an ACK for each 487", |log| {
            log.matches("\nACK ").count() >= log.matches("\nCANCEL ").count()
        });
    }
    each_is_on_one_server(&callees, 20, &[("INVITE", 1), ("CANCEL", 1), ("ACK", 1)]);
}

/// Its table is empty then: what it goes by is the token in the Route of what comes.
#[test]
fn calls_that_are_up_reach_their_servers_by_a_balancer_that_was_killed_and_started_again() {
    let lab = Lab::new("pool-killed-balancer");
    let mut callees = callees(&lab, "answer_reinvite", 4);
    let mut balancer = Balancer::start(&lab, IN_TURN, &addresses(&callees));
    let caller = caller(&lab, "call_reinvite", &balancer).calls(12).pausing(Duration::from_secs(5));
    let mut caller = caller.start();
    caller.wait_messages("all calls are up", |log| log.matches("\nACK ").count() >= 12);
    for callee in &mut callees {
        callee.wait_messages("its calls are up", |log| {
            let answered = log.matches("\nSIP/2.0 200 ").count();
            answered > 0 && log.matches("\nACK ").count() >= answered
        });
    }
    balancer.kill_and_start();
    caller.expect_success();
    each_is_on_one_server(&callees, 12, &[("INVITE", 2), ("ACK", 2), ("BYE", 1)]);
    balancer.wait_metric("tandem_balancer_requests_total", "followed_by_token", |count| count >= 12);
}

/// Two stages: the balancer finds the server by the user's hash, the server knows where the user is. Whoever forwards a
/// call stands in the Via of all its messages.
fn at_home(
    lab: &Lab,
    balancer: &Balancer,
    servers: &[SocketAddr],
    domain: &str,
    users: &[(&str, &str)],
    open: bool,
) {
    let sipp = |scenario, user: &str, password: &str| {
        let sipp = Sipp::new(lab, scenario, balancer.addr().ip()).to(balancer.addr()).user(user, password);
        let sipp = sipp.key("domain", domain);
        if open { sipp.unchallenged() } else { sipp }
    };
    let mut homes = BTreeSet::new();
    for (place, (user, password)) in users.iter().enumerate() {
        let phone = Sipp::callee(lab, "answer_reinvite", balancer.addr()).calls(3);
        sipp("register", user, password).key("contact", &phone.contact(user)).key("expires", "600").run();
        let mut phone = phone.start();
        let (caller, password) = users[(place + 1) % users.len()];
        sipp("call_reinvite", caller, password).key("peer", user).calls(3).run();
        phone.expect_success();
        for (id, request) in phone.received() {
            let by = |server: &&SocketAddr| request.contains(&format!("UDP {server};"));
            let forwarders: Vec<_> = servers.iter().filter(by).collect();
            assert_eq!(forwarders.len(), 1, "{id}:\n{request}");
            homes.insert(((*user).to_owned(), *forwarders[0]));
        }
    }
    assert_eq!(homes.len(), users.len(), "each user has one home: {homes:?}");
    let homes: BTreeSet<_> = homes.into_iter().map(|(_, home)| home).collect();
    assert!(homes.len() > 1, "all users have the same home");
}

#[test]
fn users_of_three_kamailios_are_registered_and_called_at_their_home() {
    let lab = Lab::new("pool-kamailio");
    let servers: Vec<_> =
        (0..3).map(|n| Kamailio::registrar(&lab, &format!("kamailio-{n}"), "pool.invalid")).collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.addr).collect();
    let balancer = Balancer::start(&lab, "policy = \"user\"", &addresses);
    let users = ["u1", "u2", "u3", "u4", "u5", "u6"].map(|user| (user, ""));
    at_home(&lab, &balancer, &addresses, "pool.invalid", &users, true);
}

/// With digest: the second request, with credentials, must reach the node whose nonce it answers.
#[test]
fn users_of_three_tandem_nodes_are_registered_and_called_at_their_home_with_digest() {
    let lab = Lab::new("pool-tandem");
    let nodes: Vec<_> =
        (0..3).map(|n| Subject::named(&lab, &format!("node-{n}"), &Setup::default())).collect();
    let addresses: Vec<_> = nodes.iter().map(Subject::addr).collect();
    let balancer = Balancer::start(&lab, "policy = \"user\"", &addresses);
    let users = ["alice", "bob", "carol", "dave"].map(|user| (user, nodes[0].password(user)));
    at_home(&lab, &balancer, &addresses, nodes[0].domain(), &users, false);
}

fn uas(lab: &Lab, name: &str, addr: SocketAddr, handler: u16) -> Running {
    Running::start(lab.dir(), name, &tandem_binary().display().to_string(), |command| {
        command.args(["stone", "uas", "--callee", &addr.to_string(), "--ring", "50ms", "--json", "--quiet"]);
        command.args(["--retransmit", "rfc3261", "--handler", &handler.to_string()]);
    })
}

/// A figure of a report of `tandem stone`.
fn figure(report: &str, part: &str, name: &str) -> u64 {
    let part = report.split(&format!("\"{part}\":")).nth(1).unwrap_or_default();
    let value = part.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
    let digits: String =
        value.chars().skip_while(|c| c.is_whitespace()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no {name} in {part}:\n{report}"))
}

/// Only the calls that it had are lost; new ones go elsewhere, and come back to it when it does.
#[test]
fn a_server_that_is_killed_and_started_again_costs_its_own_calls_and_no_others() {
    let lab = Lab::new("pool-killed-server");
    let ports = [Port::free(), Port::free(), Port::free()];
    let addresses = ports.each_ref().map(Port::v4);
    let mut servers: Vec<_> =
        (0..).zip(addresses).map(|(n, addr)| uas(&lab, &format!("uas-{n}"), addr, n)).collect();
    // Probes bring it up, calls alone take it down: so some are sent to it and on.
    let pool = "policy = \"round-robin\"\nprobe_interval = \"500ms\"\nprobe_timeout = \"400ms\"\nfall = 100\nslow_start = \"0s\"";
    let mut balancer = Balancer::start(&lab, pool, &addresses);
    let state = |n: u8, state: &str| format!("\"d{n}\",state=\"{state}\"");
    for n in 0..3 {
        balancer.wait_metric("tandem_pool_destination_state", &state(n, "active"), |is| is == 1);
    }
    let mut caller = Running::start(lab.dir(), "caller", &tandem_binary().display().to_string(), |command| {
        command.args([
            "stone",
            "uac",
            "--target",
            &balancer.addr().to_string(),
            "--rate",
            "20",
            "--for",
            "12s",
        ]);
        command.args(["--hold", "3", "--within", "10s", "--lateness-max", "30s"]);
        command.args(["--no-register", "--json", "--quiet"]);
    });
    balancer.wait_metric("tandem_pool_calls", "destination=\"d1\"", |calls| calls > 0);
    servers[1].signal(Signal::KILL);
    balancer.wait_metric("tandem_pool_destination_state", &state(1, "down"), |is| is == 1);
    servers[1] = uas(&lab, "uas-1-again", addresses[1], 101);
    balancer.wait_metric("tandem_pool_destination_state", &state(1, "active"), |is| is == 1);
    caller.wait_exit(Duration::from_secs(100));
    servers.iter_mut().for_each(Running::interrupt);

    let logs: Vec<_> = servers.iter().map(Running::log).collect();
    let report = caller.log();
    // A call that began at the dead server went on: nobody was refused for it.
    assert!(!report.contains(" to INVITE\": {"), "{report}");
    for place in [0, 2] {
        assert_eq!(figure(&logs[place], "callee", "strayed"), 0, "a call of another came to server {place}");
    }
    assert!(figure(&logs[1], "callee", "invites") > 0, "no call came back to it");
    let answered_elsewhere: u64 = logs.iter().map(|log| figure(log, "callee", "invites")).sum();
    let [begun, failed] = ["started", "failed"].map(|name| figure(&report, "counts", name));
    assert!(
        failed <= begun - answered_elsewhere.min(begun),
        "{failed} of {begun} failed, {answered_elsewhere} went elsewhere:\n{report}"
    );
}
