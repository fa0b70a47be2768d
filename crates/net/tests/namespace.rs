//! What needs a network of its own: a loopback with the MTU of an Ethernet and no other route.
//!
//! Each test runs itself again inside a fresh user and network namespace, where nobody else is.
#![expect(clippy::unwrap_used, reason = "a test stops where its set-up fails")]

use std::net::UdpSocket as Plain;
use std::process::Command;
use std::time::Duration;

use tandem_net::{Cause, Net, NetOptions, UdpOptions, UdpSocket};
use tandem_sip::{Hop, ListenerId, Outbox};

const INSIDE: &str = "TANDEM_TEST_INSIDE";

/// Whether this is the run inside. Else makes that run, and it must succeed.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let script = "ip link set lo mtu 1500 && ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "inside the namespace:\n{said}");
    assert!(said.contains("1 passed"), "no test of that name ran inside:\n{said}");
    false
}

/// The path takes 1,472 bytes; a SIP message that cannot go by a stream must arrive all the same (RFC 3261 §18.1.1).
#[test]
fn a_message_above_the_path_mtu_arrives_in_fragments_between_others() {
    if !inside("a_message_above_the_path_mtu_arrives_in_fragments_between_others") {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let socket = UdpSocket::bind(address.parse().unwrap(), &UdpOptions::default()).unwrap();
        let mut net = Net::new(NetOptions::default()).unwrap();
        net.add_udp(ListenerId(0), socket).unwrap();
        let peer = Plain::bind(address).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let hop = Hop::udp(ListenerId(0), peer.local_addr().unwrap());
        let mut out = Outbox::new();
        for length in [100, 1472, 1473, 9000, 200] {
            out.send(hop, &vec![b'x'; length]);
        }
        net.flush(&mut out);
        let mut bytes = vec![0; 65_536];
        for length in [100, 1472, 1473, 9000, 200] {
            assert_eq!(peer.recv_from(&mut bytes).unwrap().0, length);
        }
        assert_eq!(net.errors().count(), 0);
        assert_eq!((net.counts().sent, net.counts().sent_bytes), (5, 12_245));
    }
}

/// The kernel refuses a train whose messages the path does not take: they go one by one, in fragments, in order.
#[test]
fn a_train_above_the_path_mtu_is_taken_apart() {
    if !inside("a_train_above_the_path_mtu_is_taken_apart") {
        return;
    }
    let mtu = Command::new("ip").args(["link", "set", "lo", "mtu", "1000"]).status().unwrap();
    assert!(mtu.success());
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let mut net = Net::new(NetOptions::default()).unwrap();
    net.add_udp(ListenerId(0), socket).unwrap();
    let peer = Plain::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let hop = Hop::udp(ListenerId(0), peer.local_addr().unwrap());
    for trains in 1..3 {
        let lengths = [300, 300, 1200, 1200, 1200, 300, 300];
        let mut out = Outbox::new();
        for (number, length) in (0..).zip(lengths) {
            out.send(hop, &vec![number; length]);
        }
        net.flush(&mut out);
        let mut bytes = vec![0; 65_536];
        for (number, length) in (0..).zip(lengths) {
            assert_eq!(peer.recv_from(&mut bytes).unwrap().0, length);
            assert_eq!(bytes[0], number);
        }
        assert_eq!(net.errors().count(), 0);
        let counts = net.counts();
        // The first train is as before; a refusal is that path's, and the next flush tries again.
        assert_eq!((counts.sent, counts.joined, counts.trains_refused), (7 * trains, 2 * trains, trains));
    }
}

#[test]
fn a_peer_without_a_route_fails_at_once_and_the_next_one_is_served() {
    if !inside("a_peer_without_a_route_fails_at_once_and_the_next_one_is_served") {
        return;
    }
    let socket = UdpSocket::bind("0.0.0.0:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let mut net = Net::new(NetOptions::default()).unwrap();
    net.add_udp(ListenerId(0), socket).unwrap();
    let peer = Plain::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let gone = Hop::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap());
    let mut out = Outbox::new();
    out.send(gone, b"INVITE sip:a@192.0.2.1 SIP/2.0");
    out.send(Hop::udp(ListenerId(0), peer.local_addr().unwrap()), b"hello");
    net.flush(&mut out);
    let errors: Vec<_> = net.errors().map(|error| (error.hop, error.cause, error.message)).collect();
    assert_eq!(errors, [(gone, Cause::Unreachable, &b"INVITE sip:a@192.0.2.1 SIP/2.0"[..])]);
    assert_eq!(peer.recv_from(&mut [0; 100]).unwrap().0, 5);
}

#[test]
fn an_address_that_may_move_here_can_be_bound_before_it_does() {
    if !inside("an_address_that_may_move_here_can_be_bound_before_it_does") {
        return;
    }
    for address in ["192.0.2.7:5060", "[2001:db8::7]:5060"] {
        let address = address.parse().unwrap();
        let refused = UdpSocket::bind(address, &UdpOptions::default()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::AddrNotAvailable);
        let free = UdpOptions { free_bind: true, ..UdpOptions::default() };
        assert_eq!(UdpSocket::bind(address, &free).unwrap().local_address(), address);
    }
}

/// More sources than sockets are kept, of both families: each message leaves under its own.
#[test]
fn a_message_leaves_under_the_address_of_another() {
    if !inside("a_message_leaves_under_the_address_of_another") {
        return;
    }
    tandem_net::may_send_as_others().unwrap();
    for (own, others) in [("127.0.0.1", "192.0.2.7"), ("[::1]", "[2001:db8::7]")] {
        let listener = UdpSocket::bind(format!("{own}:0").parse().unwrap(), &UdpOptions::default()).unwrap();
        let mut net = Net::new(NetOptions::default()).unwrap();
        net.add_udp(ListenerId(0), listener).unwrap();
        let peer = Plain::bind(format!("{own}:0")).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let hop = Hop::udp(ListenerId(0), peer.local_addr().unwrap());
        let mut out = Outbox::new();
        for port in (5000..5600).chain(5000..5002) {
            let source = format!("{others}:{port}").parse().unwrap();
            out.write_as(source, hop, |bytes| bytes.extend_from_slice(b"as another"));
            net.flush(&mut out);
            assert!(out.is_empty());
            assert_eq!(peer.recv_from(&mut [0; 100]).unwrap(), (10, source));
        }
        assert_eq!((net.counts().sent, net.counts().send_errors), (602, 0));
    }
}
