//! What the main thread does while a load runs: begins it everywhere at once, collects seconds, measures servers' CPU.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use crate::clock;
use crate::drive::{Control, IDLE, Sample};
use crate::report::Point;
use crate::run::Run;
use crate::target::{self, Reading, Span};
use crate::times::Second;

/// What is told while a load runs, once a second.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Whole seconds since the load began.
    pub second: u64,
    /// What happened in it.
    pub happened: Second,
    /// Attempts in progress.
    pub open: u64,
    /// The generator's CPU time, in shares of one core.
    pub cpu: f64,
}

/// CPU time of the watched processes over the on-interval.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    pub(crate) on: Duration,
    pub(crate) registration: Duration,
    /// What the target told of itself in that time.
    pub(crate) spans: BTreeMap<String, Span>,
}

/// Follows the threads: starts them together, collects their seconds, and measures others' CPU while the load is on.
pub(crate) fn follow(
    run: &Run,
    control: &Control,
    callers: usize,
    samples: &Receiver<Sample>,
    points: &mut Points,
    progress: &mut dyn FnMut(&Progress),
) -> Watched {
    let mut watched = Watched::default();
    let opened = clock::now();
    let tick = Duration::from_millis(20);
    if callers == 0 {
        while !control.stop.load(Ordering::Relaxed) {
            std::thread::sleep(tick);
        }
        return watched;
    }
    while control.ready.load(Ordering::Acquire) < callers {
        if control.stop.load(Ordering::Relaxed) {
            return watched;
        }
        std::thread::sleep(tick);
    }
    watched.registration = clock::now() - opened;
    let begin = clock::now() + 2 * IDLE; // every thread looks up once before, and then knows it
    control.begin.store(begin.as_nanos(), Ordering::Release);
    let (from, to) = (begin + run.load.warm_up, begin + run.load.length);
    let (mut first, mut last) = (None, None);
    let (mut told_first, mut told_last) = (None, None);
    while control.done.load(Ordering::Acquire) < callers && control.ended.load(Ordering::Acquire) == 0 {
        let now = clock::now();
        if first.is_none() && now >= from {
            first = Some((now, run.watch.used()));
            told_first = told(run);
        }
        let over = now >= to || control.stop.load(Ordering::Relaxed);
        if last.is_none() && over {
            last = Some((now, run.watch.used()));
            told_last = told(run);
        }
        points.drain(samples, progress);
        std::thread::sleep(if over { Duration::from_millis(5) } else { tick });
    }
    // The last attempt may be over before the time is: then the load was on until now.
    let last = last.or_else(|| Some((clock::now(), run.watch.used())));
    if let (Some(before), Some(after)) = (told_first, told_last.or_else(|| told(run))) {
        watched.spans = after.since(&before);
    }
    if let (Some((start, before)), Some((end, after))) = (first, last) {
        watched = Watched { before, after, on: end - start, ..watched };
    }
    watched
}

/// What the target tells now. It told something before the run; if it does no more, there is no difference to report.
fn told(run: &Run) -> Option<Reading> {
    run.target_metrics.as_deref().and_then(|url| target::read(url).ok())
}

/// Seconds of all threads, put together.
#[derive(Debug)]
pub(crate) struct Points {
    pub(crate) threads: usize,
    /// The second, how many threads have told it, and what they told.
    pub(crate) open: Vec<(u64, usize, Progress)>,
    pub(crate) done: Vec<Point>,
}

impl Points {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, open: Vec::new(), done: Vec::new() }
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of one second fit a double")]
    pub(crate) fn drain(&mut self, samples: &Receiver<Sample>, progress: &mut dyn FnMut(&Progress)) {
        while let Ok(sample) = samples.try_recv() {
            let place =
                self.open.iter().position(|(second, _, _)| *second == sample.second).unwrap_or_else(|| {
                    let empty =
                        Progress { second: sample.second, happened: Second::default(), open: 0, cpu: 0.0 };
                    self.open.push((sample.second, 0, empty));
                    self.open.len() - 1
                });
            let Some((_, told, sum)) = self.open.get_mut(place) else { continue };
            *told += 1;
            sum.happened.merge(&sample.happened);
            sum.open += sample.open;
            sum.cpu += sample.cpu_us as f64 / 1e6;
            if *told == self.threads {
                let (_, _, sum) = self.open.swap_remove(place);
                progress(&sum);
                self.done.push(Point::of(&sum));
            }
        }
    }
}
