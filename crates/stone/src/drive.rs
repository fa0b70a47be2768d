//! One thread of a load: its ends, its sockets, and the turn that joins them.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc::Sender;

use tandem_base::Instant;
use tandem_net::{Cause, Counts, Net};
use tandem_sip::{ListenerId, Outbox};

use crate::clock;
use crate::error::StoneError;
use crate::times::Second;
use crate::uac::Uac;
use crate::uas::Uas;

/// The calling end's listener.
pub(crate) const CALLER: ListenerId = ListenerId(0);
/// The first answering end's listener; those of further ones follow.
pub(crate) const CALLEE: ListenerId = ListenerId(1);

/// How often a quiet thread looks up.
pub(crate) const IDLE: Duration = Duration::from_millis(50);
/// How long the answering end stays after the calling end is done, for ACKs on their way.
const AFTER: Duration = Duration::from_millis(200);

/// What the threads of a run share.
#[derive(Debug, Default)]
pub struct Control {
    /// Ends the run early: no more attempts.
    pub stop: AtomicBool,
    /// Threads that have registered their users.
    pub(crate) ready: AtomicUsize,
    /// When the load begins, in nanoseconds of [`clock::now`]; 0 while unknown.
    pub(crate) begin: AtomicU64,
    /// Threads whose calling end is done.
    pub(crate) done: AtomicUsize,
    /// Threads that have ended, for whatever reason.
    pub(crate) ended: AtomicUsize,
}

impl Control {
    /// Ready for another run; a wish to stop stays.
    pub(crate) fn reset(&self) {
        self.ready.store(0, Ordering::Release);
        self.begin.store(0, Ordering::Release);
        self.done.store(0, Ordering::Release);
        self.ended.store(0, Ordering::Release);
    }
}

/// The calling end, the answering ends, or both, on one thread.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) uac: Option<Uac>,
    /// In the order of their listeners.
    pub(crate) uas: Vec<Uas>,
    /// How late a busy thread may be, so that messages gather.
    pub(crate) gather: Duration,
}

/// One second of one thread.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Whole seconds since the load began.
    pub(crate) second: u64,
    pub(crate) happened: Second,
    pub(crate) open: u64,
    /// CPU time used in it, in microseconds.
    pub(crate) cpu_us: u64,
}

/// What is left when a thread is done.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ends: Ends,
    pub(crate) net: Counts,
    /// CPU time from the first to the last intended start.
    pub(crate) cpu: Duration,
    /// How long that was.
    pub(crate) on: Duration,
}

/// Runs one thread to its end. `threads` is how many of them begin together.
pub(crate) fn drive(
    mut ends: Ends,
    mut net: Net,
    control: &Control,
    threads: usize,
    samples: &Sender<Sample>,
) -> Result<Finished, StoneError> {
    let mut out = Outbox::new();
    let mut begun: Option<(Instant, Duration)> = None;
    let mut on: Option<(Duration, Duration)> = None;
    let mut announced = false;
    let mut done_at: Option<Instant> = None;
    let mut give_up_at: Option<Instant> = None;
    let mut series = Series::default();
    loop {
        let now = clock::now();
        if let Some(uac) = &mut ends.uac {
            if begun.is_none() && !uac.is_registering() {
                if uac.setup_failed > 0 {
                    control.stop.store(true, Ordering::Relaxed); // no load on users that are not there
                }
                if !announced {
                    announced = true;
                    control.ready.fetch_add(1, Ordering::AcqRel);
                }
                let begin = Instant::from_nanos(control.begin.load(Ordering::Acquire));
                if begin > Instant::ZERO && now >= begin {
                    uac.begin(begin);
                    begun = Some((begin, clock::thread_cpu()));
                    series.start(begin);
                }
            }
            if control.stop.load(Ordering::Relaxed) && !uac.is_draining() {
                uac.stop();
            }
            uac.tick(now, &mut out);
            if let Some((begin, cpu)) = begun {
                if on.is_none() && uac.is_draining() {
                    on = Some((clock::thread_cpu().saturating_sub(cpu), now - begin));
                    give_up_at = Some(now + uac.patience());
                }
                if done_at.is_none() && (uac.is_done() || give_up_at.is_some_and(|at| now >= at)) {
                    done_at = Some(now);
                    control.done.fetch_add(1, Ordering::AcqRel);
                }
                series.sample(now, uac, samples);
            } else if control.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        ends.uas.iter_mut().for_each(|uas| uas.tick(now, &mut out));
        net.flush(&mut out);
        let all_done = control.done.load(Ordering::Acquire) >= threads;
        match (&ends.uac, done_at) {
            (Some(_), Some(done)) if all_done && now - done >= AFTER => break,
            (None, _) if control.stop.load(Ordering::Relaxed) => break,
            (Some(_) | None, _) => {}
        }
        let begin = Instant::from_nanos(control.begin.load(Ordering::Acquire));
        let idle = if begin > now { (begin - now).min(IDLE) } else { IDLE };
        receive(&mut ends, &mut net, &mut out, now, idle)?;
    }
    if let Some(uac) = &mut ends.uac {
        series.finish(uac, samples);
    }
    let (cpu, on) = on.unwrap_or_default();
    Ok(Finished { ends, net: net.counts(), cpu, on })
}

/// Waits for datagrams or the next deadline, at most `idle`, and hands over what came.
fn receive(
    ends: &mut Ends,
    net: &mut Net,
    out: &mut Outbox,
    now: Instant,
    idle: Duration,
) -> Result<(), StoneError> {
    let answering = ends.uas.iter().filter_map(Uas::next);
    let next = ends.uac.as_ref().and_then(Uac::next).into_iter().chain(answering).min();
    let sleep = next.map_or(idle, |next| (next - now).min(idle)).max(ends.gather);
    net.wait(Some(sleep)).map_err(|error| StoneError::socket("epoll", &error))?;
    for error in net.errors() {
        let peer = error.hop.peer;
        let kind = match error.cause {
            Cause::PortUnreachable => format!("nobody listens at {peer} (ICMP)"),
            Cause::Unreachable => format!("{peer} cannot be reached (ICMP or no route)"),
            Cause::TooLong => format!("too long a datagram for {peer}"),
            Cause::NoListener => "no socket to send from".to_owned(),
            Cause::Refused(errno) => {
                format!("sending to {peer} refused: {}", std::io::Error::from_raw_os_error(errno))
            }
        };
        if let Some(uac) = &mut ends.uac {
            uac.unexpected.count(&kind, b"");
        } else if let Some(uas) = ends.uas.first_mut() {
            uas.unexpected.count(&kind, b"");
        }
    }
    net.clear_errors();
    let now = clock::now();
    for datagram in net.batch() {
        let peer = datagram.hop.peer;
        let callee = datagram.hop.listener.0.checked_sub(CALLEE.0).map(usize::from);
        match (&mut ends.uac, callee.and_then(|place| ends.uas.get_mut(place))) {
            (_, Some(uas)) => uas.receive(now, peer, datagram.bytes, out),
            (Some(uac), None) => uac.receive(now, peer, datagram.bytes, out),
            (None, None) => {}
        }
    }
    Ok(())
}

/// Cuts a thread's time into seconds.
#[derive(Debug, Default)]
struct Series {
    begin: Instant,
    second: u64,
    cpu: Duration,
}

impl Series {
    fn start(&mut self, begin: Instant) {
        self.begin = begin;
        self.cpu = clock::thread_cpu();
    }

    fn sample(&mut self, now: Instant, uac: &mut Uac, samples: &Sender<Sample>) {
        let second = (now - self.begin).as_secs();
        if second != self.second {
            self.tell(uac, samples);
            self.second = second;
        }
    }

    /// Tells what is left of the last second.
    fn finish(&mut self, uac: &mut Uac, samples: &Sender<Sample>) {
        if self.begin > Instant::ZERO {
            self.tell(uac, samples);
        }
    }

    fn tell(&mut self, uac: &mut Uac, samples: &Sender<Sample>) {
        let cpu = clock::thread_cpu();
        let sample = Sample {
            second: self.second,
            happened: core::mem::take(&mut uac.times.second),
            open: u64::try_from(uac.attempts()).unwrap_or(u64::MAX),
            cpu_us: u64::try_from(cpu.saturating_sub(self.cpu).as_micros()).unwrap_or(u64::MAX),
        };
        self.cpu = cpu;
        let _ = samples.send(sample); // nobody listens any more: nothing to tell
    }
}
