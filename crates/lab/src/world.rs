//! A run in virtual time: callers, the balancers that ship, servers, and a heap of what is to come.
//!
//! Callers and balancers are next to each other; servers are [`Model::one_way`] away. Balancers take no time: what they
//! cost is measured elsewhere (docs/PERFORMANCE.md). Callers repeat requests by timers A and E (RFC 3261 §17.1.1.2,
//! §17.1.2.2) and give up after [`Model::give_up`]. Left out: loss on the wire, the servers' repetition of a 200 that is not
//! acknowledged (nothing is lost but what finds a server's queue full), and the cost of an ACK, which is counted with
//! its INVITE.
//!
//! [`Model::one_way`]: crate::model::Model::one_way
//! [`Model::give_up`]: crate::model::Model::give_up

use core::cmp::Reverse;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use tandem_balance::Mistake;
use tandem_base::{Instant, Rng};
use tandem_sip::{HeaderName, Hop, Index, Limits, ListenerId, Message, Method, Outbox, Reply};

use crate::calls::{Call, Calls, Stage};
use crate::figures::{Answer, Figures, Judged};
use crate::model::{Callees, Profile, Run};
use crate::server::{Job, Machine};
use crate::subject::{Subject, balancers, server_address, server_at};
use crate::text;

/// The first requests there are: of calls, and outside them.
const FIRSTS: [Method; 4] = [Method::Invite, Method::Message, Method::Publish, Method::Subscribe];
/// Instead of a balancer's number: straight from caller to server.
const PAST: u16 = u16::MAX;
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);

#[derive(Debug)]
enum What {
    NewCall,
    NewSingle,
    Arrived {
        server: u16,
        front: u16,
        bytes: Box<[u8]>,
    },
    Done {
        server: u16,
    },
    Stall {
        server: u16,
    },
    Answered {
        server: u16,
        front: u16,
        bytes: Box<[u8]>,
    },
    HangUp {
        call: u64,
    },
    /// Repeat the request if it is still the one that began then.
    Repeat {
        call: u64,
        began: Instant,
    },
    Wake {
        front: u16,
    },
}

#[derive(Debug)]
struct Event {
    at: Instant,
    sequence: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

struct Front<S> {
    subject: S,
    wake: Option<Instant>,
}

struct World<'a, S> {
    run: &'a Run,
    now: Instant,
    events: BinaryHeap<Reverse<Event>>,
    sequence: u64,
    fronts: Vec<Front<S>>,
    servers: Vec<Machine>,
    calls: Calls,
    figures: Figures,
    arrivals: Rng,
    habits: Rng,
    singles: usize,
    /// Judged requests without an answer.
    open: u64,
    inbox: VecDeque<Box<[u8]>>,
    out: Outbox,
    text: Vec<u8>,
    limits: Limits,
}

/// Does a run.
///
/// # Errors
///
/// [`Mistake`] of an experiment: a pool that the balancer would not take.
pub fn simulate(run: &Run) -> Result<Figures, Mistake> {
    let mut rng = Rng::from_seed(run.seed);
    // Streams of their own, so that every policy meets the same arrivals, habits and stalls.
    let (arrivals, habits) = (rng.fork(), rng.fork());
    let servers = run.servers.iter().map(|server| Machine::new(server.speed, rng.fork())).collect();
    let fronts = balancers(run, &mut rng)?.into_iter().map(|subject| Front { subject, wake: None }).collect();
    let mut world = World {
        run,
        now: Instant::from_secs(1),
        events: BinaryHeap::new(),
        sequence: 0,
        fronts,
        servers,
        calls: Calls::default(),
        figures: Figures::default(),
        arrivals,
        habits,
        singles: 0,
        open: 0,
        inbox: VecDeque::new(),
        out: Outbox::new(),
        text: Vec::new(),
        limits: Limits::default(),
    };
    world.go();
    Ok(world.figures)
}

impl<S: Subject> World<'_, S> {
    fn go(&mut self) {
        let Profile { ramp, warm_up, judged, singles, .. } = self.run.profile;
        let judged_from = self.now + ramp + warm_up;
        let judged_to = judged_from + judged;
        let first = self.next_call(self.now);
        self.schedule(first, What::NewCall);
        if singles > 0.0 {
            self.schedule(self.now, What::NewSingle);
        }
        if let Some(stalls) = self.run.model.stalls {
            for number in 0..self.servers.len() {
                let Some(server) = self.servers.get_mut(number) else { continue };
                let at = self.now + server.gap(&stalls).mul_f64(self.habits.f64());
                let server = u16::try_from(number).unwrap_or(u16::MAX);
                self.schedule(at, What::Stall { server });
            }
        }
        while let Some(Reverse(event)) = self.events.pop() {
            self.now = event.at;
            // The load goes on until the last judged request is answered or given up.
            if self.now >= judged_to && self.open == 0 {
                break;
            }
            let is_judged = self.now >= judged_from && self.now < judged_to;
            self.happen(event.what, is_judged);
            while let Some(bytes) = self.inbox.pop_front() {
                self.hear(&bytes, is_judged);
            }
            if self.run.failures_max.is_some_and(|max| self.figures.requests().1 > max) {
                self.figures.is_cut_short = true;
                break;
            }
        }
        self.figures.servers = self.servers.iter().map(|server| server.figures).collect();
        self.figures.invite_to_bye = self.fronts.first().map_or(0.0, |front| front.subject.invite_to_bye());
        self.figures.wrong = self.fronts.iter().map(|front| front.subject.wrong()).sum();
        self.figures.invite_times.sort();
        self.figures.bye_times.sort();
        self.figures.single_times.sort();
    }

    fn schedule(&mut self, at: Instant, what: What) {
        self.sequence += 1;
        self.events.push(Reverse(Event { at, sequence: self.sequence, what }));
    }

    /// The next arrival after `from`: thinned where the rate still grows.
    fn next_call(&mut self, from: Instant) -> Instant {
        let Profile { rate, ramp, .. } = self.run.profile;
        let mut at = from;
        loop {
            at += Duration::from_secs_f64(self.arrivals.exp(1.0 / rate));
            let grown = (at - Instant::from_secs(1)).as_secs_f64() / ramp.as_secs_f64().max(1e-9);
            if grown >= 1.0 || self.arrivals.chance(grown) {
                return at;
            }
        }
    }

    fn happen(&mut self, what: What, is_judged: bool) {
        match what {
            What::NewCall => {
                self.begin(0, is_judged);
                let at = self.next_call(self.now);
                self.schedule(at, What::NewCall);
            }
            What::NewSingle => {
                self.singles = self.singles % (FIRSTS.len() - 1) + 1;
                self.begin(self.singles, is_judged);
                let gap = self.arrivals.exp(1.0 / self.run.profile.singles);
                self.schedule(self.now + Duration::from_secs_f64(gap), What::NewSingle);
            }
            What::Arrived { server, front, bytes } => self.arrive(server, front, bytes, is_judged),
            What::Done { server } => self.done(server),
            What::Stall { server } => {
                if let (Some(stalls), Some(machine)) =
                    (self.run.model.stalls, self.servers.get_mut(usize::from(server)))
                {
                    let next = machine.stall(self.now, &stalls);
                    self.schedule(next, What::Stall { server });
                }
            }
            What::Answered { front: PAST, bytes, .. } => self.inbox.push_back(bytes),
            What::Answered { server, front, bytes } => {
                self.input(front, server_address(server), &bytes);
            }
            What::HangUp { call } => self.hang_up(call, is_judged),
            What::Repeat { call, began } => self.repeat(call, began),
            What::Wake { front } => self.wake(front),
        }
    }

    // ---- callers

    fn begin(&mut self, first: usize, is_judged: bool) {
        let front = self.habits.index(self.run.balancers);
        let user = match &self.run.profile.callees {
            Callees::Service => 0,
            Callees::Users(users) => self.habits.index(users.len()),
        };
        let leaks = self.run.controls.leak > 0.0 && self.habits.chance(self.run.controls.leak);
        let number = self.calls.push(Call {
            leaks,
            stage: Stage::Asking,
            first: u8::try_from(first).unwrap_or(0),
            front: u16::try_from(front).unwrap_or(0),
            user: u32::try_from(user).unwrap_or(0),
            began: self.now,
            interval: T1,
            is_heard: false,
            is_judged,
            ahead: None,
            home: None,
            is_served: false,
            is_bye_served: false,
            dialog: Box::default(),
        });
        if is_judged {
            self.judged(first, |judged| judged.asked += 1);
            self.open += 1;
        }
        self.send_first(number);
        self.schedule(self.now + T1, What::Repeat { call: number, began: self.now });
    }

    fn judged(&mut self, first: usize, change: impl FnOnce(&mut Judged)) {
        change(if first == 0 { &mut self.figures.invites } else { &mut self.figures.singles });
    }

    fn send_first(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(number) else { return };
        let (front, first) = (call.front, usize::from(call.first));
        let user = match &self.run.profile.callees {
            Callees::Service => "service",
            Callees::Users(users) => {
                usize::try_from(call.user).ok().and_then(|at| users.get(at)).map_or("service", String::as_str)
            }
        };
        let method = FIRSTS.get(first).map_or("INVITE", |method| method.as_str());
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        text::write_first(method, number, user, front + 1, &mut text);
        self.input(front, client_address(number), &text);
        self.text = text;
    }

    fn send_next(&mut self, number: u64, method: &str, cseq: u32) {
        let Some(call) = self.calls.get_mut(number) else { return };
        let front = call.front;
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        text::write_next(method, number, cseq, &call.dialog, &mut text);
        self.input(front, client_address(number), &text);
        self.text = text;
    }

    fn send_bye(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(number) else { return };
        let Some(home) = call.home.filter(|_| call.leaks) else {
            return self.send_next(number, "BYE", 2);
        };
        let mut bytes = Vec::new();
        text::write_next("BYE", number, 2, &call.dialog, &mut bytes);
        let at = self.now + self.run.model.one_way;
        self.schedule(at, What::Arrived { server: home, front: PAST, bytes: bytes.into() });
    }

    fn hang_up(&mut self, number: u64, is_judged: bool) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(number).filter(|call| call.stage == Stage::Talking) else {
            return;
        };
        (call.stage, call.began, call.interval, call.is_judged) = (Stage::Leaving, now, T1, is_judged);
        if is_judged {
            self.figures.byes.asked += 1;
            self.open += 1;
        }
        self.send_bye(number);
        self.schedule(now + T1, What::Repeat { call: number, began: now });
    }

    fn repeat(&mut self, number: u64, began: Instant) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(number).filter(|call| call.began == began) else { return };
        let is_asking = match call.stage {
            Stage::Asking => true,
            Stage::Leaving => false,
            Stage::Talking | Stage::Over => return,
        };
        if now - began >= self.run.model.give_up {
            return self.fail(number);
        }
        let is_invite = is_asking && call.first == 0;
        let is_silent = !(is_invite && call.is_heard);
        call.interval = if is_invite { call.interval * 2 } else { (call.interval * 2).min(T2) };
        let next = (now + call.interval).min(began + self.run.model.give_up);
        if is_silent {
            self.figures.repeated += 1;
            if is_asking { self.send_first(number) } else { self.send_bye(number) }
        }
        self.schedule(next, What::Repeat { call: number, began });
    }

    fn fail(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(number) else { return };
        let (stage, first) = (call.stage, usize::from(call.first));
        let was_judged = call.is_judged;
        (call.stage, call.dialog) = (Stage::Over, Box::default());
        if !was_judged {
            return;
        }
        self.open -= 1;
        match stage {
            Stage::Leaving => self.figures.byes.failed += 1,
            Stage::Asking | Stage::Talking | Stage::Over => self.judged(first, |judged| judged.failed += 1),
        }
    }

    /// A caller hears a response.
    fn hear(&mut self, bytes: &[u8], is_judged_now: bool) {
        let mut index = Index::new();
        let Ok(message) = Message::parse(bytes, &mut index, &self.limits) else { return };
        let Some(number) = text::number_of(message.call_id()) else { return };
        let (method, status, now) = (message.cseq().method, message.status(), self.now);
        let Some(call) = self.calls.get_mut(number) else { return };
        if status < 200 {
            call.is_heard = true;
            return;
        }
        let is_success = status < 300;
        match (call.stage, method) {
            (Stage::Asking, Method::Invite) if is_success => {
                (call.stage, call.dialog) = (Stage::Talking, text::dialog_of(&message));
                self.answered(number);
                self.send_next(number, "ACK", 1);
                let talk = self.draw_hold();
                if talk.is_zero() {
                    self.hang_up(number, is_judged_now);
                } else {
                    self.schedule(now + talk, What::HangUp { call: number });
                }
            }
            (Stage::Talking | Stage::Leaving, Method::Invite) if is_success => {
                self.send_next(number, "ACK", 1);
            }
            (Stage::Asking, Method::Invite) => {
                self.fail(number);
                self.send_ack_to_refusal(number);
            }
            (Stage::Asking, _) | (Stage::Leaving, Method::Bye) if is_success => {
                self.answered(number);
                if let Some(call) = self.calls.get_mut(number) {
                    (call.stage, call.dialog) = (Stage::Over, Box::default());
                }
            }
            (Stage::Asking, _) | (Stage::Leaving, Method::Bye) => self.fail(number),
            (Stage::Talking | Stage::Leaving | Stage::Over, _) => {}
        }
    }

    fn send_ack_to_refusal(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(number) else { return };
        let front = call.front;
        let mut text = core::mem::take(&mut self.text);
        text.clear();
        text::write_first("ACK", number, "service", front + 1, &mut text);
        self.input(front, client_address(number), &text);
        self.text = text;
    }

    /// Notes how long the request took whose final answer came.
    fn answered(&mut self, number: u64) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(number) else { return };
        if !core::mem::replace(&mut call.is_judged, false) {
            return;
        }
        let (took, first, stage) = (now - call.began, usize::from(call.first), call.stage);
        let ahead = call.ahead.unwrap_or(0);
        self.open -= 1;
        if stage == Stage::Leaving {
            self.figures.byes.answered += 1;
            self.figures.bye_times.add(took);
            return;
        }
        self.judged(first, |judged| judged.answered += 1);
        if first == 0 {
            self.figures.invite_times.add(took);
            let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
            self.figures.answers.push(Answer { ahead, micros });
        } else {
            self.figures.single_times.add(took);
        }
    }

    fn draw_hold(&mut self) -> Duration {
        let hold = self.run.profile.hold;
        if hold.mean.is_zero() {
            return Duration::ZERO;
        }
        // Box and Muller's transform of two uniform numbers into a normal one; negative ones are drawn again.
        loop {
            let radius = (-2.0 * (1.0 - self.habits.f64()).ln()).sqrt();
            let normal = radius * (core::f64::consts::TAU * self.habits.f64()).cos();
            let secs = hold.mean.as_secs_f64() + normal * hold.deviation.as_secs_f64();
            if secs > 0.0 {
                return Duration::from_secs_f64(secs);
            }
        }
    }

    // ---- balancers

    fn input(&mut self, front: u16, from: SocketAddr, bytes: &[u8]) {
        let Some(at) = self.fronts.get_mut(usize::from(front)) else { return };
        self.out.clear();
        at.subject.handle_input(self.now, Hop::udp(ListenerId(0), from), bytes, &mut self.out);
        self.dispatch(front);
    }

    fn wake(&mut self, front: u16) {
        let Some(at) = self.fronts.get_mut(usize::from(front)) else { return };
        at.wake = None;
        self.out.clear();
        at.subject.handle_timeout(self.now, &mut self.out);
        self.dispatch(front);
    }

    /// Sends what a balancer wrote, and remembers when it wants to be woken.
    fn dispatch(&mut self, front: u16) {
        let out = core::mem::take(&mut self.out);
        for (hop, bytes) in out.iter() {
            match server_at(hop.peer) {
                Some(server) => {
                    let at = self.now + self.run.model.one_way;
                    self.schedule(at, What::Arrived { server, front, bytes: bytes.into() });
                }
                None => self.inbox.push_back(bytes.into()),
            }
        }
        self.out = out;
        let Some(at) = self.fronts.get_mut(usize::from(front)) else { return };
        if let Some(wish) = at.subject.poll_timeout() {
            // A deadline that has passed is asked for a moment later, so that the clock goes on.
            let wish = wish.max(self.now + Duration::from_micros(1));
            if at.wake.is_none_or(|wake| wish < wake) {
                at.wake = Some(wish);
                self.schedule(wish, What::Wake { front });
            }
        }
    }

    // ---- servers

    fn arrive(&mut self, server: u16, front: u16, bytes: Box<[u8]>, is_judged: bool) {
        let mut index = Index::new();
        let Ok(message) = Message::parse(&bytes, &mut index, &self.limits) else { return };
        let method = message.method();
        let Some(call) = text::number_of(message.call_id()) else { return };
        if method == Method::Ack {
            return;
        }
        let Some(machine) = self.servers.get_mut(usize::from(server)) else { return };
        let ahead = u32::try_from(machine.ahead()).unwrap_or(u32::MAX);
        machine.figures.requests += u64::from(is_judged);
        if let Some(known) = self.calls.get_mut(call).filter(|known| known.ahead.is_none()) {
            known.ahead = Some(ahead);
            machine.figures.calls += u64::from(is_judged && method == Method::Invite);
        }
        let job = Job { front, call, method, bytes };
        if method == Method::Bye && self.run.controls.has_instant_byes {
            return self.answer(server, &job);
        }
        machine.put(job, self.run.model.queue_max);
        self.work(server);
    }

    /// Begins with what waits, if nothing is worked on.
    fn work(&mut self, server: u16) {
        let Some(machine) = self.servers.get_mut(usize::from(server)) else { return };
        let Some(job) = machine.may_begin() else { return };
        let is_repeated = self
            .calls
            .get_mut(job.call)
            .is_none_or(|call| if job.method == Method::Bye { call.is_bye_served } else { call.is_served });
        if let Some(at) = machine.begin(self.now, &self.run.model.costs, is_repeated) {
            self.schedule(at, What::Done { server });
        }
    }

    fn done(&mut self, server: u16) {
        let Some(machine) = self.servers.get_mut(usize::from(server)) else { return };
        match machine.done(self.now) {
            Err(later) => self.schedule(later, What::Done { server }),
            Ok(job) => {
                if let Some(job) = job {
                    self.answer(server, &job);
                }
                self.work(server);
            }
        }
    }

    /// Answers a request: 100, 180 and 200 to an INVITE at once, as A15 has it.
    fn answer(&mut self, server: u16, job: &Job) {
        let mut index = Index::new();
        let Ok(message) = Message::parse(&job.bytes, &mut index, &self.limits) else { return };
        let is_ours = match self.calls.get_mut(job.call) {
            Some(call) => {
                if job.method == Method::Bye {
                    call.is_bye_served = true;
                } else {
                    call.is_served = true;
                }
                *call.home.get_or_insert(server) == server
            }
            None => true,
        };
        if !is_ours {
            self.figures.strayed += 1;
        }
        let address = server_address(server);
        let mut headers = Vec::new();
        if job.method == Method::Invite {
            for field in message.fields(HeaderName::RecordRoute) {
                headers.extend_from_slice(b"Record-Route: ");
                headers.extend_from_slice(field.value);
                headers.extend_from_slice(b"\r\n");
            }
            headers.extend_from_slice(format!("Contact: <sip:{address}>\r\n").as_bytes());
        }
        let tag = format!("s{server}c{}", job.call);
        let statuses: &[u16] = match (is_ours, job.method) {
            (false, _) => &[481],
            (true, Method::Invite) => &[100, 180, 200],
            (true, _) => &[200],
        };
        for &status in statuses {
            let reply = Reply {
                status,
                reason: None,
                source: None,
                to_tag: (status > 100).then_some(tag.as_bytes()),
                headers: if status == 200 { &headers } else { b"" },
                body: b"",
            };
            let mut bytes = Vec::with_capacity(512);
            reply.write(&message, &mut bytes);
            let at = self.now + self.run.model.one_way;
            self.schedule(at, What::Answered { server, front: job.front, bytes: bytes.into() });
        }
    }
}

/// The address that the caller of this number sends from.
fn client_address(number: u64) -> SocketAddr {
    let host = u8::try_from(text::Name::of(number).client + 11).unwrap_or(11);
    SocketAddr::from(([10, 1, 0, host], 5060))
}
