//! From a plan to running shards.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use rtrb::RingBuffer;
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use tandem_base::Instant;
use tandem_net::{Net, NetOptions, SteerError, Steering, UdpOptions, UdpSocket, Waker};
use tandem_sip::{ListenerId, Outbox};

use crate::control::{Commands, Events, Exit, GO_ON, StopFlag, Threads};
use crate::counters::{Counters, Snapshot};
use crate::hand_over::mesh;
use crate::shard::Shard;
use crate::{Clock, Machine};

/// A UDP address to listen on; every shard gets a socket of its own there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Its number in hops.
    pub id: ListenerId,
    /// The address; port 0 lets the kernel choose one for all shards.
    pub address: SocketAddr,
    /// How its sockets are set up; `reuse_port` is set where there are several shards.
    pub options: UdpOptions,
}

/// What to start.
#[derive(Clone)]
pub struct Plan {
    /// Begins the names of the threads; the shard's number follows. The kernel shows 15 bytes.
    pub name: String,
    /// How many shards, at least 1.
    pub shards: usize,
    /// The processors to pin them to, in order; a shard past the end of the list is not pinned.
    pub cores: Vec<usize>,
    /// Where to listen.
    pub listeners: Vec<Listener>,
    /// Sizes of each shard's net.
    pub net: NetOptions,
    /// Messages in the ring between two shards; more are dropped and counted.
    pub hand_over_max: usize,
    /// Bytes of those messages; at least one message of the longest kind should fit.
    pub hand_over_bytes_max: usize,
    /// Commands that wait for one shard.
    pub commands_max: usize,
    /// Events of one shard that wait for the control thread.
    pub events_max: usize,
    /// The secret that decides which shard owns a Call-ID; random bytes, new at each start.
    pub steering_key: [u8; 16],
    /// Lets the kernel give each datagram to the shard that owns it, where it can.
    pub steer_in_kernel: bool,
    /// The clock that all shards read.
    pub clock: Clock,
    /// Called by a shard, at most once a turn, after it has queued events, and when it ends. Must not block.
    pub on_event: Arc<dyn Fn() + Send + Sync>,
}

impl Plan {
    /// One unpinned shard without listeners, and queues for a busy one, which lets datagrams gather for 750 µs: at
    /// 24,000 messages a second that halved its processor time.
    #[must_use]
    pub fn new(clock: Clock, steering_key: [u8; 16]) -> Self {
        Self {
            name: "shard".to_owned(),
            shards: 1,
            cores: vec![],
            listeners: vec![],
            net: NetOptions { gather: Duration::from_micros(750), ..NetOptions::default() },
            hand_over_max: 4096,
            hand_over_bytes_max: 2 * 1024 * 1024,
            commands_max: 4096,
            events_max: 16_384,
            steering_key,
            steer_in_kernel: true,
            clock,
            on_event: Arc::new(|| {}),
        }
    }
}

impl core::fmt::Debug for Plan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Plan")
            .field("shards", &self.shards)
            .field("cores", &self.cores)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

/// Why nothing was started.
#[derive(Debug)]
pub enum StartError {
    /// An address could not be bound.
    Bind(SocketAddr, io::Error),
    /// A shard's epoll instance or socket watch could not be made.
    Net(io::Error),
    /// A thread could not be made.
    Spawn(io::Error),
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Net(error) => write!(f, "cannot watch sockets: {error}"),
            Self::Spawn(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl core::error::Error for StartError {}

/// Running shards and the ends of their queues.
pub struct Running<M: Machine> {
    /// The way in.
    pub commands: Commands<M::Command>,
    /// The way out.
    pub events: Events<M::Event>,
    /// What they count.
    pub counters: Counters,
    /// How they end.
    pub threads: Threads,
    /// Where they listen, with the ports that the kernel chose.
    pub addresses: Vec<(ListenerId, SocketAddr)>,
    /// Who brings messages to their owners; worth a line in the log.
    pub steered: Steered,
}

impl<M: Machine> core::fmt::Debug for Running<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Running")
            .field("addresses", &self.addresses)
            .field("counters", &self.counters)
            .finish()
    }
}

/// Who brings messages to the shards that own them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Steered {
    /// There is one shard, which owns all.
    Alone,
    /// The kernel, but for what it cannot find.
    ByKernel,
    /// The shards, as [`Plan::steer_in_kernel`] says.
    ByHandOver,
    /// The shards, because the kernel does not.
    ByHandOverFor(SteerError),
}

/// Binds the listeners and starts one thread per shard with the machine that `make` gives for its number.
///
/// # Errors
///
/// When an address cannot be bound (also if another process listens there, however it was opened), or the process has
/// run out of descriptors or threads. Nothing runs then.
pub fn start<M: Machine>(plan: &Plan, mut make: impl FnMut(usize) -> M) -> Result<Running<M>, StartError> {
    let shards = plan.shards.max(1);
    let mut nets = Vec::with_capacity(shards);
    for _ in 0..shards {
        nets.push(Net::new(plan.net).map_err(StartError::Net)?);
    }
    let mut addresses = vec![];
    let steering = u32::try_from(shards).ok().filter(|shards| *shards > 1);
    let steering = steering.map(|shards| Steering::new(plan.steering_key, shards));
    let mut steered = Steered::Alone;
    for listener in &plan.listeners {
        let sockets = bind(listener, shards)?;
        if let Some(steering) = &steering {
            steered = steer(plan, &sockets, steering);
        }
        addresses.extend(sockets.first().map(|socket| (listener.id, socket.local_address())));
        for (net, socket) in nets.iter_mut().zip(sockets) {
            net.add_udp(listener.id, socket).map_err(StartError::Net)?;
        }
    }

    let wakers: Vec<Waker> = nets.iter().map(Net::waker).collect();
    let counters = Counters::new(shards);
    let stop = StopFlag::new(GO_ON.into());
    let mut commands = vec![];
    let mut events = vec![];
    let mut threads = Threads { handles: vec![], stop: Arc::clone(&stop), wakers: wakers.clone() };
    let rings = mesh(&wakers, plan.hand_over_max, plan.hand_over_bytes_max);
    for (number, ((net, hand_over), waker)) in nets.into_iter().zip(rings).zip(&wakers).enumerate() {
        let (command_in, command_out) = RingBuffer::new(plan.commands_max);
        let (event_in, event_out) = RingBuffer::new(plan.events_max);
        commands.push((Mutex::new(command_in), waker.clone()));
        events.push(event_out);
        let shard = Shard {
            number,
            clock: plan.clock,
            now: Instant::ZERO,
            net,
            machine: make(number),
            out: Outbox::new(),
            steering,
            hand_over,
            commands: command_out,
            events: event_in,
            stuck: None,
            on_event: Arc::clone(&plan.on_event),
            stop: Arc::clone(&stop),
            stop_at: None,
            totals: Snapshot::default(),
            counters: counters.clone(),
        };
        match spawn(shard, format!("{}-{number}", plan.name), plan.cores.get(number).copied()) {
            Ok(handle) => threads.handles.push(handle),
            Err(error) => {
                threads.stop(Duration::ZERO);
                drop(threads.join());
                return Err(StartError::Spawn(error));
            }
        }
    }
    let events = Events { queues: events, wakers, next: 0 };
    Ok(Running { commands: Commands(commands.into()), events, counters, threads, addresses, steered })
}

/// Binds one socket per shard to the listener's address.
fn bind(listener: &Listener, shards: usize) -> Result<Vec<UdpSocket>, StartError> {
    let mut address = listener.address;
    let mut options = UdpOptions { reuse_port: false, ..listener.options };
    let fail = |error| StartError::Bind(listener.address, error);
    // Sockets that share an address would share it with another process of the same user too, which then takes half
    // of the calls. So the first one comes alone, and fails if anybody is there.
    let alone = UdpSocket::bind(address, &options).map_err(fail)?;
    if shards == 1 {
        return Ok(vec![alone]);
    }
    address = alone.local_address();
    drop(alone);
    options.reuse_port = true;
    (0..shards).map(|_| UdpSocket::bind(address, &options).map_err(fail)).collect()
}

/// Lets the kernel steer, if the plan wants it and the kernel can.
fn steer(plan: &Plan, sockets: &[UdpSocket], steering: &Steering) -> Steered {
    if !plan.steer_in_kernel {
        return Steered::ByHandOver;
    }
    let sockets: Vec<&UdpSocket> = sockets.iter().collect();
    tandem_net::steer_in_kernel(&sockets, steering)
        .map_or_else(Steered::ByHandOverFor, |()| Steered::ByKernel)
}

/// Runs the shard on a thread of its own, which ends with an [`Exit`] whatever the machine does.
fn spawn<M: Machine>(mut shard: Shard<M>, name: String, core: Option<usize>) -> io::Result<JoinHandle<Exit>> {
    Builder::new().name(name).spawn(move || {
        if let Some(core) = core {
            let mut set = CpuSet::new();
            set.set(core);
            // A processor that is not there leaves the thread unpinned, which only costs speed.
            let _ = sched_setaffinity(None, &set);
        }
        let (counters, number) = (shard.counters.clone(), shard.number);
        let thread = u64::try_from(gettid().as_raw_nonzero().get()).unwrap_or_default();
        let set_thread = |thread| {
            if let Some(cells) = counters.cells(number) {
                cells.set_thread(thread);
            }
        };
        set_thread(thread);
        let on_event = Arc::clone(&shard.on_event);
        // The shard is dropped inside, whether it panics or not: its sockets close, its rings count as abandoned, and
        // nothing reads it afterwards.
        let exit = catch_unwind(AssertUnwindSafe(move || shard.run().unwrap_or_else(Exit::Failed)));
        set_thread(0);
        let exit = exit.unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            Exit::Panicked(text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default())
        });
        on_event();
        exit
    })
}
