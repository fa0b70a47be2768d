//! Real sockets on loopback: what a shard may rely on.
#![expect(clippy::unwrap_used, reason = "a test stops where its set-up fails")]

use std::net::{IpAddr, SocketAddr, UdpSocket as Plain};
use std::time::Duration;

use tandem_net::{Cause, Net, NetOptions, UdpOptions, UdpSocket};
use tandem_sip::{Hop, ListenerId, Outbox, Transport};

const LISTENER: ListenerId = ListenerId(7);
const PATIENCE: Option<Duration> = Some(Duration::from_secs(5));

fn net_on(address: &str, options: NetOptions) -> (Net, SocketAddr) {
    let socket = UdpSocket::bind(address.parse().unwrap(), &UdpOptions::default()).unwrap();
    let local = socket.local_address();
    let mut net = Net::new(options).unwrap();
    net.add_udp(LISTENER, socket).unwrap();
    (net, local)
}

fn plain(address: &str) -> Plain {
    let socket = Plain::bind(address).unwrap();
    socket.set_read_timeout(PATIENCE).unwrap();
    socket
}

/// Waits until `count` datagrams have come; gives their bytes.
fn collect(net: &mut Net, count: usize) -> Vec<(Hop, Vec<u8>)> {
    let mut all = vec![];
    while all.len() < count {
        assert!(net.wait(PATIENCE).unwrap() > 0, "{} of {count} came", all.len());
        all.extend(net.batch().map(|datagram| (datagram.hop, datagram.bytes.to_vec())));
    }
    all
}

#[test]
fn more_datagrams_than_a_batch_holds_come_whole_and_in_order() {
    let (mut net, local) = net_on("127.0.0.1:0", NetOptions { batch: 4, ..NetOptions::default() });
    let peer = plain("127.0.0.1:0");
    for number in 0..11_u8 {
        peer.send_to(&[number; 600], local).unwrap();
    }
    let all = collect(&mut net, 11);
    for (number, (hop, bytes)) in (0..11).zip(all) {
        assert_eq!(hop, Hop::udp(LISTENER, peer.local_addr().unwrap()));
        assert_eq!(bytes, [number; 600]);
    }
    assert_eq!((net.counts().received, net.counts().received_bytes), (11, 6600));
}

#[test]
fn a_flush_sends_each_message_to_its_own_peer_in_order() {
    let (mut net, local) = net_on("127.0.0.1:0", NetOptions { batch: 4, ..NetOptions::default() });
    let peers = [plain("127.0.0.1:0"), plain("127.0.0.1:0")];
    let mut out = Outbox::new();
    for number in 0..10_u8 {
        let peer = peers[usize::from(number) % 2].local_addr().unwrap();
        out.send(Hop::udp(LISTENER, peer), &[number; 1200]);
    }
    net.flush(&mut out);
    assert!(out.is_empty());
    for number in 0..10_u8 {
        let mut bytes = [0; 2000];
        let (length, from) = peers[usize::from(number) % 2].recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], from), (&[number; 1200][..], local));
    }
    assert_eq!((net.counts().sent, net.counts().sent_bytes), (10, 12_000));
}

/// Sixty messages of one size to each of two peers go as trains: none is lost, and each peer gets its own in order.
#[test]
fn trains_arrive_as_the_messages_they_were_made_of() {
    for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
        let (mut net, local) = net_on(address, NetOptions { batch: 256, ..NetOptions::default() });
        let near = if local.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let peer = plain(near);
        let (mut other, other_address) = net_on(near, NetOptions { batch: 2, ..NetOptions::default() });
        let mut out = Outbox::new();
        for number in 0..60_u8 {
            out.send(Hop::udp(LISTENER, peer.local_addr().unwrap()), &[number; 600]);
            out.send(Hop::udp(LISTENER, other_address), &[number; 400]);
        }
        out.send(Hop::udp(LISTENER, other_address), &[60; 399]);
        net.flush(&mut out);
        let counts = net.counts();
        assert_eq!((counts.sent, counts.sent_bytes), (121, 60 * 1000 + 399));
        assert_eq!((counts.joined, counts.trains_refused, counts.send_calls), (121, 0, 1));
        for number in 0..60_u8 {
            let mut bytes = [0; 1000];
            let (length, _) = peer.recv_from(&mut bytes).unwrap();
            assert_eq!(bytes[..length], [number; 600]);
        }
        let got: Vec<_> =
            collect(&mut other, 61).into_iter().map(|(hop, bytes)| (hop.peer.port(), bytes)).collect();
        for (number, (port, bytes)) in (0..=60).zip(&got) {
            let length = if number == 60 { 399 } else { 400 };
            assert_eq!((*port, bytes), (local.port(), &vec![number; length]));
        }
        assert_eq!((other.counts().received, other.counts().received_bytes), (61, 60 * 400 + 399));
        assert_eq!(other.counts().receive_calls, 1, "the kernel handed the train over whole");
    }
}

#[test]
fn overlong_datagrams_of_a_train_are_cut_and_counted_each() {
    let (mut net, local) =
        net_on("127.0.0.1:0", NetOptions { datagram_bytes_max: 100, ..NetOptions::default() });
    let (mut peer, _) = net_on("127.0.0.1:0", NetOptions::default());
    let mut out = Outbox::new();
    for length in [101, 101, 100] {
        out.send(Hop::udp(LISTENER, local), &vec![1; length]);
    }
    peer.flush(&mut out);
    assert_eq!(peer.counts().joined, 3);
    assert_eq!(net.wait(PATIENCE).unwrap(), 3);
    let seen: Vec<_> = net.batch().map(|datagram| (datagram.bytes.len(), datagram.overlong)).collect();
    assert_eq!(seen, [(100, true), (100, true), (100, false)]);
    assert_eq!(net.counts().overlong, 2);
}

/// A train would go to one of the sockets, whatever the Call-IDs in it; where it is cut before, each datagram is seen.
#[test]
fn a_socket_that_shares_its_address_gets_datagrams_one_by_one() {
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let local = socket.local_address();
    let mut net = Net::new(NetOptions { batch: 1, ..NetOptions::default() }).unwrap();
    net.add_udp(LISTENER, socket).unwrap();
    let (mut peer, _) = net_on("127.0.0.1:0", NetOptions::default());
    let mut out = Outbox::new();
    (0..3).for_each(|_| out.send(Hop::udp(LISTENER, local), &[1; 100]));
    peer.flush(&mut out);
    assert_eq!(peer.counts().joined, 3);
    assert_eq!(collect(&mut net, 3).len(), 3);
    assert_eq!(net.counts().receive_calls, 3);
}

#[test]
fn an_overlong_datagram_is_flagged_and_counted_and_the_next_one_is_whole() {
    let (mut net, local) =
        net_on("127.0.0.1:0", NetOptions { datagram_bytes_max: 100, ..NetOptions::default() });
    let peer = plain("127.0.0.1:0");
    peer.send_to(&[1; 101], local).unwrap();
    peer.send_to(&[2; 100], local).unwrap();
    let mut seen = vec![];
    while seen.len() < 2 {
        assert!(net.wait(PATIENCE).unwrap() > 0);
        seen.extend(net.batch().map(|datagram| (datagram.bytes.len(), datagram.overlong)));
    }
    assert_eq!(seen, [(100, true), (100, false)]);
    assert_eq!(net.counts().overlong, 1);
}

/// RFC 3261 §18.4. The next message to somebody else goes out all the same.
#[test]
fn a_port_that_nobody_listens_on_is_reported_with_the_message_it_was_about() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut net, _) = net_on(address, NetOptions::default());
        let gone = plain(address).local_addr().unwrap();
        let peer = plain(address);
        let mut out = Outbox::new();
        out.send(Hop::udp(LISTENER, gone), b"OPTIONS sip:gone");
        net.flush(&mut out);
        out.send(Hop::udp(LISTENER, peer.local_addr().unwrap()), b"hello");
        net.flush(&mut out);
        let mut bytes = [0; 100];
        assert_eq!(peer.recv_from(&mut bytes).unwrap().0, 5);
        if net.errors().next().is_none() {
            net.wait(PATIENCE).unwrap();
        }
        let errors: Vec<_> = net.errors().collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].hop, Hop::udp(LISTENER, gone));
        assert_eq!(errors[0].cause, Cause::PortUnreachable);
        assert_eq!(errors[0].message, b"OPTIONS sip:gone");
        assert_eq!((net.counts().icmp_errors, net.counts().send_errors), (1, 0));
    }
}

#[test]
fn a_message_for_no_listener_or_too_long_for_udp_fails_and_the_others_go() {
    let (mut net, _) = net_on("127.0.0.1:0", NetOptions::default());
    let peer = plain("127.0.0.1:0");
    let to = peer.local_addr().unwrap();
    let mut out = Outbox::new();
    out.send(Hop::udp(ListenerId(1), to), b"nobody");
    out.send(Hop { transport: Transport::Tcp, ..Hop::udp(LISTENER, to) }, b"stream");
    out.send(Hop::udp(LISTENER, to), &[0; 65_520]);
    out.send(Hop::udp(LISTENER, to), b"goes");
    net.flush(&mut out);
    let mut bytes = [0; 100];
    assert_eq!(peer.recv_from(&mut bytes).unwrap().0, 4);
    let causes: Vec<_> = net.errors().map(|error| error.cause).collect();
    assert_eq!(causes, [Cause::TooLong, Cause::NoListener, Cause::NoListener]);
    net.clear_errors();
    assert_eq!(net.errors().count(), 0);
    assert_eq!((net.counts().sent, net.counts().send_errors), (1, 3));
}

#[test]
fn ipv6_datagrams_go_both_ways() {
    let (mut net, local) = net_on("[::1]:0", NetOptions::default());
    let peer = plain("[::1]:0");
    peer.send_to(b"ping", local).unwrap();
    let (hop, bytes) = collect(&mut net, 1).remove(0);
    assert_eq!((hop.peer, &*bytes), (peer.local_addr().unwrap(), &b"ping"[..]));
    let mut out = Outbox::new();
    out.send(hop, b"pong");
    net.flush(&mut out);
    let mut bytes = [0; 100];
    assert_eq!(peer.recv_from(&mut bytes).unwrap(), (4, local));
}

/// RFC 3261 §18.2.2. Without the remembered address the kernel would answer from 127.0.0.1.
#[test]
fn an_answer_from_a_wildcard_socket_leaves_from_the_address_that_was_asked() {
    let (mut net, local) = net_on("0.0.0.0:0", NetOptions::default());
    for asked in ["127.0.0.2", "127.0.0.3"] {
        let peer = plain("127.0.0.1:0");
        let asked = SocketAddr::new(asked.parse().unwrap(), local.port());
        peer.send_to(b"ping", asked).unwrap();
        assert!(net.wait(PATIENCE).unwrap() > 0);
        let datagram = net.batch().next().unwrap();
        assert_eq!(datagram.local(), Some(asked.ip()));
        let mut out = Outbox::new();
        out.send(datagram.hop, b"pong");
        net.flush(&mut out);
        let mut bytes = [0; 100];
        assert_eq!(peer.recv_from(&mut bytes).unwrap(), (4, asked));
    }
    let (mut net, local) = net_on("[::]:0", NetOptions::default());
    let peer = plain("[::1]:0");
    peer.send_to(b"ping", SocketAddr::new(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), local.port())).unwrap();
    assert!(net.wait(PATIENCE).unwrap() > 0);
    assert_eq!(net.batch().next().unwrap().local(), Some("::1".parse().unwrap()));
}

#[test]
fn a_wake_ends_the_sleep_whether_it_comes_before_or_during_it() {
    let (mut net, _) = net_on("127.0.0.1:0", NetOptions::default());
    let waker = net.waker();
    waker.wake();
    assert_eq!(net.wait(None).unwrap(), 0);
    assert!(net.was_woken());
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        waker.wake();
    });
    assert_eq!(net.wait(None).unwrap(), 0);
    assert!(net.was_woken());
    thread.join().unwrap();
    assert_eq!(net.wait(Some(Duration::from_millis(1))).unwrap(), 0);
    assert!(!net.was_woken());
}

#[test]
fn what_the_kernel_drops_for_want_of_room_is_counted() {
    let options = UdpOptions { receive_buffer_bytes: 8192, ..UdpOptions::default() };
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let local = socket.local_address();
    let mut net = Net::new(NetOptions::default()).unwrap();
    net.add_udp(LISTENER, socket).unwrap();
    let peer = plain("127.0.0.1:0");
    let mut sent = 0;
    for _ in 0..100 {
        peer.send_to(&[0; 1000], local).unwrap();
        sent += 1;
    }
    while net.wait(Some(Duration::from_millis(20))).unwrap() > 0 {}
    // The kernel tells of its losses with the next datagram that it accepts.
    peer.send_to(&[0; 1000], local).unwrap();
    sent += 1;
    assert_eq!(net.wait(PATIENCE).unwrap(), 1);
    let counts = net.counts();
    assert!(counts.receive_overflows > 0);
    assert_eq!(counts.received + counts.receive_overflows, sent);
}

/// One of 16 turns with datagrams tries it; two datagrams or more make it go on, and eight times fewer end it.
#[test]
fn gathering_goes_on_while_it_pays_and_no_longer() {
    let gather = Duration::from_millis(1);
    let (mut net, local) = net_on("127.0.0.1:0", NetOptions { gather, ..NetOptions::default() });
    let peer = plain("127.0.0.1:0");
    let turn = |net: &mut Net, datagrams: usize| {
        (0..datagrams).for_each(|_| assert_eq!(peer.send_to(b"x", local).unwrap(), 1));
        assert_eq!(net.wait(PATIENCE).unwrap(), datagrams);
        net.counts().gathers
    };
    let rare: Vec<_> = (0..40).map(|_| turn(&mut net, 1)).collect();
    assert_eq!((rare[15], rare[16], rare[31], rare[32], rare[39]), (0, 1, 1, 2, 2));
    let dense: Vec<_> = (0..40).map(|_| turn(&mut net, 2)).collect();
    assert_eq!((dense[7], dense[8], dense[9], dense[39]), (2, 3, 4, 34));
    let rare: Vec<_> = (0..20).map(|_| turn(&mut net, 1)).collect();
    assert_eq!((rare[0], rare[7], rare[8], rare[19]), (35, 42, 42, 42));
}
