//! Shards with real sockets on loopback.
#![expect(clippy::unwrap_used, reason = "a test stops where its set-up fails")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tandem_base::Instant;
use tandem_net::{Cause, TransportError, UdpOptions};
use tandem_shard::{Clock, Exit, Listener, Machine, Plan, Refused, Running, Steered, start};
use tandem_sip::{Hop, ListenerId, Outbox};

const PATIENCE: Duration = Duration::from_secs(10);

/// What the machine tells the test.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    Got(Vec<u8>),
    Failed(SocketAddr, Cause),
    Timeout,
    Command(u32),
    Draining,
}

/// Answers each message with its shard's number and the message, and tells of everything.
struct Echo {
    shard: usize,
    deadline: Option<Instant>,
    told: std::collections::VecDeque<Told>,
    drained: bool,
}

impl Echo {
    fn new(shard: usize) -> Self {
        Self { shard, deadline: None, told: [].into(), drained: true }
    }
}

enum Order {
    Say(u32),
    SendTo(SocketAddr),
    WakeAt(Duration),
    StayBusy,
    Sleep(Duration),
    Panic,
}

impl Machine for Echo {
    type Command = Order;
    type Event = Told;

    fn handle_input(&mut self, _: Instant, hop: Hop, message: &[u8], out: &mut Outbox) {
        out.write(hop, |bytes| {
            bytes.push(u8::try_from(self.shard).unwrap());
            bytes.extend_from_slice(message);
        });
        self.told.push_back(Told::Got(message.to_vec()));
    }
    fn handle_transport_error(&mut self, _: Instant, error: TransportError<'_>, _: &mut Outbox) {
        self.told.push_back(Told::Failed(error.hop.peer, error.cause));
    }
    fn handle_timeout(&mut self, now: Instant, _: &mut Outbox) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.told.push_back(Told::Timeout);
        }
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
    fn handle_command(&mut self, now: Instant, order: Order, out: &mut Outbox) {
        match order {
            Order::Say(number) => self.told.push_back(Told::Command(number)),
            Order::SendTo(peer) => out.send(Hop::udp(ListenerId(0), peer), b"anybody there?"),
            Order::WakeAt(after) => self.deadline = Some(now + after),
            Order::StayBusy => self.drained = false,
            Order::Sleep(time) => std::thread::sleep(time),
            Order::Panic => panic!("as ordered"),
        }
    }
    fn poll_event(&mut self) -> Option<Told> {
        self.told.pop_front()
    }
    fn handle_drain(&mut self, _: Instant, _: &mut Outbox) {
        self.told.push_back(Told::Draining);
    }
    fn is_drained(&self) -> bool {
        self.drained
    }
}

/// Rings when a shard has events.
type Bell = Arc<(Mutex<bool>, Condvar)>;

struct Bench {
    running: Running<Echo>,
    bell: Bell,
}

impl Bench {
    fn new(shards: usize, change: impl FnOnce(&mut Plan)) -> Self {
        let bell = Bell::default();
        let ring = Arc::clone(&bell);
        let mut plan = Plan::new(Clock::new(), [9; 16]);
        plan.shards = shards;
        plan.steer_in_kernel = false;
        plan.listeners.push(Listener {
            id: ListenerId(0),
            address: "127.0.0.1:0".parse().unwrap(),
            options: UdpOptions::default(),
        });
        plan.on_event = Arc::new(move || {
            *ring.0.lock().unwrap() = true;
            ring.1.notify_all();
        });
        change(&mut plan);
        Self { running: start(&plan, Echo::new).unwrap(), bell }
    }

    fn address(&self) -> SocketAddr {
        self.running.addresses.first().unwrap().1
    }

    fn order(&self, shard: usize, order: Order) {
        assert!(self.running.commands.send(shard, order).is_ok());
    }

    fn next_event(&mut self) -> (usize, Told) {
        loop {
            if let Some(event) = self.running.events.poll() {
                return event;
            }
            let rung = self.bell.0.lock().unwrap();
            let (mut rung, wait) = self.bell.1.wait_timeout_while(rung, PATIENCE, |rung| !*rung).unwrap();
            assert!(!wait.timed_out(), "no event came");
            *rung = false;
        }
    }

    fn stop(self, grace: Duration) -> Vec<Exit> {
        self.running.threads.stop(grace);
        self.running.threads.join()
    }

    fn sum(&self, field: impl Fn(&tandem_shard::Snapshot) -> u64) -> u64 {
        (0..self.running.counters.shards()).map(|n| field(&self.running.counters.snapshot(n).unwrap())).sum()
    }
}

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn message(call: usize) -> Vec<u8> {
    format!("OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP c\r\nCall-ID: call-{call}@c\r\n\r\n").into_bytes()
}

#[test]
fn one_shard_answers_what_it_receives_and_ends_when_told() {
    let bench = Bench::new(1, |_| {});
    let peer = peer();
    let mut bytes = [0; 2000];
    for call in 0..100 {
        peer.send_to(&message(call), bench.address()).unwrap();
        let (length, from) = peer.recv_from(&mut bytes).unwrap();
        assert_eq!((bytes[0], &bytes[1..length], from), (0, &*message(call), bench.address()));
    }
    assert!(matches!(bench.stop(PATIENCE)[..], [Exit::Drained]));
}

/// S3, S12: whatever port a message of the call comes from, one shard sees them all, and it is the one that the
/// Call-ID's hash names. The kernel spreads by source port here, so about three quarters are handed over.
#[test]
fn all_messages_of_a_call_id_meet_in_one_shard_without_the_kernels_help() {
    let bench = Bench::new(4, |_| {});
    let steering = tandem_net::Steering::new([9; 16], 4);
    let peers: Vec<_> = (0..3).map(|_| peer()).collect();
    let mut bytes = [0; 2000];
    let mut seen = [0; 4];
    for call in 0..400 {
        for peer in &peers {
            peer.send_to(&message(call), bench.address()).unwrap();
            let (length, from) = peer.recv_from(&mut bytes).unwrap();
            assert_eq!((&bytes[1..length], from), (&*message(call), bench.address()));
            assert_eq!(u32::from(bytes[0]), steering.owner(&message(call)).unwrap());
            seen[usize::from(bytes[0])] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 150), "{seen:?}");
    let peer = &peers[0];
    peer.send_to(b"\r\n\r\n", bench.address()).unwrap();
    assert_eq!(peer.recv_from(&mut bytes).unwrap().0, 5, "without Call-ID, whoever receives it answers");
    let exits = bench.running.counters.clone();
    let bench_exits = bench.stop(PATIENCE);
    assert!(bench_exits.iter().all(|exit| matches!(exit, Exit::Drained)), "{bench_exits:?}");
    let total = |field: fn(&tandem_shard::Snapshot) -> u64| {
        (0..4).map(|shard| field(&exits.snapshot(shard).unwrap())).sum::<u64>()
    };
    assert_eq!(total(|shard| shard.received), 1201);
    assert!(total(|shard| shard.handed_over) > 100);
    assert_eq!(total(|shard| shard.handed_over), total(|shard| shard.taken_over));
}

/// The owner receives every message of its own in the first place. Without `CAP_BPF` or clang the start says so.
#[test]
fn with_the_kernels_help_nothing_is_handed_over() {
    let bench = Bench::new(4, |plan| plan.steer_in_kernel = true);
    let steering = tandem_net::Steering::new([9; 16], 4);
    let peers: Vec<_> = (0..3).map(|_| peer()).collect();
    let mut bytes = [0; 2000];
    for call in 0..100 {
        for peer in &peers {
            peer.send_to(&message(call), bench.address()).unwrap();
            peer.recv_from(&mut bytes).unwrap();
            assert_eq!(u32::from(bytes[0]), steering.owner(&message(call)).unwrap());
        }
    }
    let steered = bench.running.steered.clone();
    let counters = bench.running.counters.clone();
    drop(bench.stop(PATIENCE));
    let handed_over: u64 = (0..4).map(|shard| counters.snapshot(shard).unwrap().handed_over).sum();
    match steered {
        Steered::ByKernel => assert_eq!(handed_over, 0),
        Steered::ByHandOverFor(_) => assert!(handed_over > 50),
        Steered::Alone | Steered::ByHandOver => panic!("{steered:?}"),
    }
}

/// Shard 1 owns nothing it can receive directly here: all comes through a ring of 4 while it is kept from looking.
#[test]
fn a_full_ring_drops_and_counts_and_nobody_waits() {
    let mut bench = Bench::new(2, |plan| plan.hand_over_max = 4);
    let steering = tandem_net::Steering::new([9; 16], 2);
    let peer = peer();
    // Which shard the kernel gives this peer's datagrams to: the one that answers a message without Call-ID.
    peer.send_to(b"\r\n\r\n", bench.address()).unwrap();
    let mut bytes = [0; 2000];
    peer.recv_from(&mut bytes).unwrap();
    let (receives, owns) = (usize::from(bytes[0]), 1 - usize::from(bytes[0]));
    assert_eq!(bench.next_event(), (receives, Told::Got(b"\r\n\r\n".to_vec())));
    let foreign = (0..).find(|call| steering.owner(&message(*call)).unwrap() as usize == owns).unwrap();
    let native = (0..).find(|call| steering.owner(&message(*call)).unwrap() as usize == receives).unwrap();

    bench.order(owns, Order::Sleep(Duration::from_millis(300)));
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..10 {
        peer.send_to(&message(foreign), bench.address()).unwrap();
    }
    peer.send_to(&message(native), bench.address()).unwrap();
    peer.recv_from(&mut bytes).unwrap();
    assert_eq!(usize::from(bytes[0]), receives, "the receiving shard goes on while the other one is stuck");
    for _ in 0..4 {
        peer.recv_from(&mut bytes).unwrap();
        assert_eq!(usize::from(bytes[0]), owns);
    }
    let counters = bench.running.counters.clone();
    drop(bench.stop(PATIENCE));
    assert_eq!(counters.snapshot(receives).unwrap().handed_over, 4);
    assert_eq!(counters.snapshot(receives).unwrap().dropped_hand_over_full, 6);
    assert_eq!(counters.snapshot(owns).unwrap().taken_over, 4);
}

#[test]
fn an_overlong_datagram_is_dropped_and_counted() {
    let bench = Bench::new(1, |plan| plan.net.datagram_bytes_max = 1000);
    let peer = peer();
    peer.send_to(&[b'x'; 1001], bench.address()).unwrap();
    peer.send_to(&message(1), bench.address()).unwrap();
    let mut bytes = [0; 2000];
    assert_eq!(peer.recv_from(&mut bytes).unwrap().0, 1 + message(1).len());
    let counters = bench.running.counters.clone();
    drop(bench.stop(PATIENCE));
    assert_eq!(counters.snapshot(0).unwrap().dropped_overlong, 1);
}

#[test]
fn an_unreachable_port_reaches_the_machine_as_a_transport_error() {
    let mut bench = Bench::new(1, |_| {});
    let gone = peer().local_addr().unwrap();
    bench.order(0, Order::SendTo(gone));
    assert_eq!(bench.next_event(), (0, Told::Failed(gone, Cause::PortUnreachable)));
}

#[test]
fn commands_and_timers_reach_a_sleeping_machine() {
    let mut bench = Bench::new(2, |_| {});
    for number in 0..1000 {
        let shard = usize::try_from(number).unwrap() % 2;
        bench.order(shard, Order::Say(number));
        assert_eq!(bench.next_event(), (shard, Told::Command(number)));
    }
    bench.order(1, Order::WakeAt(Duration::from_millis(20)));
    assert_eq!(bench.next_event(), (1, Told::Timeout));
}

/// More commands wait than a turn takes, and one wake-up brings them all.
#[test]
fn a_full_command_queue_gives_the_command_back() {
    let mut bench = Bench::new(1, |plan| plan.commands_max = 200);
    bench.order(0, Order::Sleep(Duration::from_millis(300)));
    std::thread::sleep(Duration::from_millis(50));
    let taken = (0..300).filter(|number| bench.running.commands.send(0, Order::Say(*number)).is_ok()).count();
    assert_eq!(taken, 200);
    assert!(matches!(bench.running.commands.send(0, Order::Say(999)), Err(Refused::Full(Order::Say(999)))));
    assert!(matches!(bench.running.commands.send(1, Order::Say(999)), Err(Refused::Gone(Order::Say(999)))));
    for number in 0..200 {
        assert_eq!(bench.next_event(), (0, Told::Command(number)));
    }
}

#[test]
fn events_that_find_the_queue_full_come_later_and_in_order() {
    let mut bench = Bench::new(1, |plan| plan.events_max = 4);
    let peer = peer();
    let mut bytes = [0; 2000];
    for call in 0..50 {
        peer.send_to(&message(call), bench.address()).unwrap();
        peer.recv_from(&mut bytes).unwrap();
    }
    assert!(bench.sum(|shard| shard.events_stuck) > 0);
    for call in 0..50 {
        assert_eq!(bench.next_event(), (0, Told::Got(message(call))));
    }
}

#[test]
fn a_drain_waits_for_calls_in_progress_until_the_grace_is_over() {
    let mut bench = Bench::new(2, |_| {});
    bench.order(1, Order::StayBusy);
    bench.order(1, Order::Say(1));
    assert_eq!(bench.next_event(), (1, Told::Command(1)));
    bench.running.threads.stop(Duration::from_millis(200));
    let told = [bench.next_event().1, bench.next_event().1];
    assert_eq!(told, [Told::Draining, Told::Draining]);
    assert!(matches!(bench.running.threads.join()[..], [Exit::Drained, Exit::GraceOver]));
}

#[test]
fn a_panic_ends_its_shard_with_the_message_and_the_others_go_on() {
    let mut bench = Bench::new(2, |_| {});
    bench.order(0, Order::Panic);
    while !bench.running.threads.any_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(bench.running.commands.send(0, Order::Say(1)), Err(Refused::Gone(_))));
    bench.order(1, Order::Say(2));
    assert_eq!(bench.next_event(), (1, Told::Command(2)));
    // Its socket is closed, so the kernel gives everything to the shard that is left; calls of the dead one are lost.
    let peer = peer();
    for call in 0..100 {
        peer.send_to(&message(call), bench.address()).unwrap();
    }
    while bench.sum(|shard| shard.received) < 100 {
        std::thread::sleep(Duration::from_millis(5));
    }
    bench.order(1, Order::Say(3));
    let mut got = 0;
    while bench.next_event() != (1, Told::Command(3)) {
        got += 1;
    }
    let counters = bench.running.counters.clone();
    let exits = bench.stop(PATIENCE);
    assert!(matches!(&exits[..], [Exit::Panicked(text), Exit::Drained] if text == "as ordered"), "{exits:?}");
    let left = counters.snapshot(1).unwrap();
    assert_eq!(left.dropped_hand_over_gone, 100 - got);
    assert_eq!(left.received, 100);
}

#[test]
fn a_second_server_on_the_same_address_is_refused() {
    let bench = Bench::new(2, |_| {});
    let address = bench.address();
    let mut plan = Plan::new(Clock::new(), [0; 16]);
    plan.shards = 2;
    plan.listeners.push(Listener { id: ListenerId(0), address, options: UdpOptions::default() });
    let error = start(&plan, Echo::new).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
}
