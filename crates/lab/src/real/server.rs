//! One modelled server as a process: a UDP port behind which a request takes as long as the model says.
//!
//! It waits instead of working, so that its capacity is the model's on any machine, also a busy one; it needs no
//! cgroup.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::ErrorKind;
use std::net::UdpSocket;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tandem_base::{HashKey, Instant, Map, Rng, map};
use tandem_sip::{HeaderName, Index, Limits, Message, Method, Reply};

use crate::clock::Clock;
use crate::model::{Costs, Stalls};
use crate::server::{Job, Machine};

/// Calls remembered, to tell a repeated request from a new one; then all are forgotten.
const CALLS_MAX: usize = 1_000_000;
const QUEUE_MAX: usize = 4096;
const LONGEST_DATAGRAM: usize = 65_535;

/// Options of `lab server`.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Where it listens.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// Calls a second that it carries.
    #[arg(long, default_value_t = 300.0)]
    pub capacity: f64,
    /// Mean time between its stalls of 0.6 to 1.2 s, in seconds; 0: it never stands still.
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub stall_every: f64,
    /// It ends by itself after so many seconds.
    #[arg(long = "for", value_name = "S", default_value_t = 600)]
    pub length: u64,
    /// Seed of service times and stalls.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Serves until its time is over.
///
/// # Errors
///
/// What the system says of the socket.
pub(crate) fn serve(args: &ServerArgs) -> std::io::Result<()> {
    let socket = UdpSocket::bind(args.listen)?;
    socket.set_nonblocking(true)?;
    let clock = Clock::start();
    let mut rng = Rng::from_seed(args.seed);
    let served = map(HashKey::from_rng(&mut rng));
    let costs = Costs { call: Duration::from_secs_f64(1.0 / args.capacity.max(0.1)), ..Costs::default() };
    let stalls = (args.stall_every > 0.0)
        .then(|| Stalls { every: Duration::from_secs_f64(args.stall_every), ..Stalls::default() });
    let mut machine = Machine::new(1.0, rng);
    let stall_at = stalls.map(|stalls| Instant::ZERO + machine.gap(&stalls));
    let mut server = Server { socket, costs, machine, served, peers: Vec::new(), done_at: None };
    server.run(&clock, Duration::from_secs(args.length), stalls.zip(stall_at))
}

struct Server {
    socket: UdpSocket,
    costs: Costs,
    machine: Machine,
    /// By a Call-ID's hash: whether its first request, and its BYE, were served.
    served: Map<u64, (bool, bool)>,
    /// Senders of jobs, by the number that a job has for its balancer.
    peers: Vec<SocketAddr>,
    done_at: Option<Instant>,
}

impl Server {
    fn run(
        &mut self,
        clock: &Clock,
        length: Duration,
        mut stalls: Option<(Stalls, Instant)>,
    ) -> std::io::Result<()> {
        let mut buffer = vec![0; LONGEST_DATAGRAM];
        loop {
            let now = Instant::ZERO + clock.elapsed();
            if now - Instant::ZERO >= length {
                return Ok(());
            }
            if let Some((stalls, at)) = stalls.as_mut().filter(|(_, at)| *at <= now) {
                *at = self.machine.stall(*at, stalls);
            }
            while let Some(at) = self.done_at.filter(|at| *at <= now) {
                self.done(at)?;
            }
            match self.socket.recv_from(&mut buffer) {
                Ok((length, peer)) => {
                    self.arrive(now, peer, buffer.get(..length).unwrap_or_default())?;
                    continue;
                }
                // A balancer that is gone says so by ICMP; the next one may come.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
                Err(error) => return Err(error),
            }
            let next = [self.done_at, stalls.map(|(_, at)| at)].into_iter().flatten().min();
            let wait = next.map_or(Duration::from_secs(1), |at| at.saturating_since(now));
            let wait = Timespec::try_from(wait.min(Duration::from_secs(1))).ok();
            poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], wait.as_ref())?;
        }
    }

    fn arrive(&mut self, now: Instant, peer: SocketAddr, bytes: &[u8]) -> std::io::Result<()> {
        let mut index = Index::new();
        let Ok(message) = Message::parse(bytes, &mut index, &Limits::default()) else { return Ok(()) };
        if !message.is_request() || message.method() == Method::Ack {
            return Ok(());
        }
        let front = self.peers.iter().position(|known| *known == peer).unwrap_or_else(|| {
            self.peers.push(peer);
            self.peers.len() - 1
        });
        let job = Job {
            front: u16::try_from(front).unwrap_or(u16::MAX),
            call: self.served.hasher().hash64(&[message.call_id()]),
            method: message.method(),
            bytes: bytes.into(),
        };
        if job.method == Method::Options {
            return self.answer(&job); // probes see a server that is alive, however long its queue
        }
        self.machine.put(job, QUEUE_MAX);
        self.work(now);
        Ok(())
    }

    fn work(&mut self, now: Instant) {
        let Some(job) = self.machine.may_begin() else { return };
        let (first, bye) = self.served.get(&job.call).copied().unwrap_or_default();
        let is_repeated = if job.method == Method::Bye { bye } else { first };
        self.done_at = self.machine.begin(now, &self.costs, is_repeated);
    }

    fn done(&mut self, at: Instant) -> std::io::Result<()> {
        match self.machine.done(at) {
            Err(later) => self.done_at = Some(later),
            Ok(job) => {
                self.done_at = None;
                if let Some(job) = job {
                    if self.served.len() >= CALLS_MAX {
                        self.served.clear();
                    }
                    let (first, bye) = self.served.entry(job.call).or_default();
                    *(if job.method == Method::Bye { bye } else { first }) = true;
                    self.answer(&job)?;
                }
                // The next one begins when this one was due, not when we woke up.
                self.work(at);
            }
        }
        Ok(())
    }

    fn answer(&self, job: &Job) -> std::io::Result<()> {
        let Some(&peer) = self.peers.get(usize::from(job.front)) else { return Ok(()) };
        let mut index = Index::new();
        let Ok(message) = Message::parse(&job.bytes, &mut index, &Limits::default()) else { return Ok(()) };
        let mut headers = Vec::new();
        if job.method == Method::Invite {
            for field in message.fields(HeaderName::RecordRoute) {
                headers.extend_from_slice(b"Record-Route: ");
                headers.extend_from_slice(field.value);
                headers.extend_from_slice(b"\r\n");
            }
            headers.extend_from_slice(format!("Contact: <sip:{}>\r\n", self.socket.local_addr()?).as_bytes());
        }
        let tag = format!("{:016x}", job.call);
        let statuses: &[u16] = if job.method == Method::Invite { &[100, 180, 200] } else { &[200] };
        let mut bytes = Vec::with_capacity(1024);
        for &status in statuses {
            bytes.clear();
            let reply = Reply {
                status,
                reason: None,
                source: Some(peer),
                to_tag: (status > 100).then_some(tag.as_bytes()),
                headers: if status == 200 { &headers } else { b"" },
                body: b"",
            };
            reply.write(&message, &mut bytes);
            match self.socket.send_to(&bytes, peer) {
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
