//! Real calls, shown as they pass: two baresip register at a node and call each other, a line for each message.
//!
//! `make demo` runs it. The messages are those the phones themselves report.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use tandem_interop::{Baresip, Lab, Setup, Subject};

/// How long a phone rings, and how long people talk.
const MOMENT: Duration = Duration::from_millis(700);

fn main() {
    let lab = Lab::new("demo");
    let subject = Subject::start(&lab, &Setup::default());
    println!(
        "A node serves {} on {}. Two baresip register and call each other.\n",
        subject.domain(),
        subject.addr()
    );
    let phone = |user| Baresip::start(&lab, user, subject.password(user), subject.domain(), subject.addr());
    let (mut alice, mut bob) = (phone("alice"), phone("bob"));
    let mut ladder = Ladder { node: subject.addr(), alice: 0, bob: 0 };
    println!("  {:<31}{:<35}bob", "alice", "tandem");
    alice.wait_registered();
    bob.wait_registered();
    ladder.show("both register", &alice, &bob);

    alice.dial(&format!("sip:bob@{}", subject.domain()));
    bob.wait_event("CALL_INCOMING");
    sleep(MOMENT);
    ladder.show("alice calls bob, who rings", &alice, &bob);
    bob.accept_ringing();
    alice.wait_event("CALL_ESTABLISHED");
    sleep(MOMENT);
    ladder.show("bob answers; they talk", &alice, &bob);
    alice.hang_up();
    bob.wait_event("CALL_CLOSED");
    sleep(MOMENT);
    ladder.show("alice hangs up", &alice, &bob);

    bob.dial(&format!("sip:alice@{}", subject.domain()));
    alice.wait_event("CALL_INCOMING");
    sleep(MOMENT);
    ladder.show("bob calls back", &alice, &bob);
    bob.hang_up();
    alice.wait_event("CALL_CLOSED");
    sleep(MOMENT);
    ladder.show("and gives up before alice answers", &alice, &bob);
    println!("\nTwo calls. `make run` starts a node to call through yourself.");
}

/// A diagram of three lines that grows downwards.
struct Ladder {
    node: SocketAddr,
    /// How many messages of each phone were shown.
    alice: usize,
    bob: usize,
}

/// One message, as the phone saw it.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    /// From the phone to the node, or from the node to the phone.
    sent: bool,
    /// What stands on the arrow.
    label: String,
}

impl Ladder {
    /// Shows what has passed since the last time.
    fn show(&mut self, title: &str, alice: &Baresip, bob: &Baresip) {
        println!("\n  · {title}");
        let new = |phone: &Baresip, shown: &mut usize| {
            let mut all = messages(&phone.log(), phone.addr(), self.node);
            let new = all.split_off((*shown).min(all.len()));
            *shown += new.len();
            new
        };
        let (left, right) = (new(alice, &mut self.alice), new(bob, &mut self.bob));
        for (is_left, message) in merged(left, right) {
            println!("  {}", arrow(is_left, &message));
        }
    }
}

/// The messages in a log of baresip: `UDP A -> B`, then the message.
fn messages(log: &str, phone: SocketAddr, node: SocketAddr) -> Vec<Passed> {
    let (out, back) = (format!("UDP {phone} -> {node}"), format!("UDP {node} -> {phone}"));
    let mut lines = log.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let sent = line.ends_with(&out);
        if !sent && !line.ends_with(&back) {
            continue;
        }
        let first = lines.next().unwrap_or_default();
        let label = match first.strip_prefix("SIP/2.0 ") {
            Some(status) => status.to_owned(),
            None => first.split(' ').next().unwrap_or_default().to_owned(),
        };
        found.push(Passed { sent, label });
    }
    found
}

/// Both phones' messages in one order that can have been: what the node passed on comes after what it received.
fn merged(left: Vec<Passed>, right: Vec<Passed>) -> Vec<(bool, Passed)> {
    let mut sides = [(true, left), (false, right)];
    for (_, side) in &mut sides {
        side.reverse(); // so that the next one can be popped
    }
    let mut order = Vec::new();
    loop {
        let [(_, left), (_, right)] = &sides;
        let ready = |own: &[Passed], other: &[Passed]| {
            own.last().map(|next| next.sent || !other.iter().any(|o| o.sent && o.label == next.label))
        };
        // The node says 100 before it does anything else (RFC 3261 §16.2).
        let trying =
            |side: &[Passed]| side.last().is_some_and(|next| !next.sent && next.label.starts_with("100 "));
        let take_left = match (ready(left, right), ready(right, left)) {
            (None, None) => return order,
            (Some(_), Some(_)) if trying(left) != trying(right) => trying(left),
            (Some(true), _) | (Some(false), None) => true,
            (_, Some(true)) | (None, Some(false)) => false,
            (Some(false), Some(false)) => true,
        };
        let [left, right] = &mut sides;
        let (is_left, side) = if take_left { left } else { right };
        order.extend(side.pop().map(|message| (*is_left, message)));
    }
}

fn arrow(is_left: bool, message: &Passed) -> String {
    let to_the_right = is_left == message.sent;
    let label: String = message.label.chars().take(27).collect();
    let line = "─".repeat(29 - label.chars().count());
    let arrow = if to_the_right { format!("{label} {line}▶") } else { format!("◀{line} {label}") };
    if is_left { format!("│ {arrow} │{:33}│", "") } else { format!("│{:33}│ {arrow} │", "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(sent: bool, label: &str) -> Passed {
        Passed { sent, label: label.to_owned() }
    }

    #[test]
    fn what_the_node_passes_on_is_shown_after_what_it_received() {
        let alice = vec![passed(true, "INVITE"), passed(false, "100 Trying"), passed(false, "180 Ringing")];
        let bob = vec![passed(false, "INVITE"), passed(true, "180 Ringing")];
        let order: Vec<_> =
            merged(alice, bob).into_iter().map(|(left, m)| format!("{left} {}", m.label)).collect();
        assert_eq!(
            order,
            ["true INVITE", "true 100 Trying", "false INVITE", "false 180 Ringing", "true 180 Ringing"]
        );
    }

    #[test]
    fn messages_are_found_in_a_log() {
        let (phone, node) = (([127, 0, 0, 1], 7).into(), ([127, 0, 0, 1], 9).into());
        let log = "noise\n\u{1b}[36;1m#\nUDP 127.0.0.1:7 -> 127.0.0.1:9\nBYE sip:a SIP/2.0\nVia: x\n\
                   UDP 127.0.0.1:9 -> 127.0.0.1:7\nSIP/2.0 200 OK\n";
        assert_eq!(messages(log, phone, node), [passed(true, "BYE"), passed(false, "200 OK")]);
    }
}
