//! Pools whose servers stand in DNS: their SRV records, read again and again on the control thread.
//!
//! A task for each pool reads its names, and the addresses of the hosts behind them, when the shortest time to live is
//! over or `srv_interval`, whichever is sooner. What changed becomes the pool's next generation; calls that are up stay
//! where they are. A name that does not answer, or answers "nothing", keeps what it said last: an outage of DNS, or a
//! zone that was lost, must not take the servers away. Only a target of `.` does (RFC 2782).

mod records;

use crate::serve::node_config::{listeners, node_config};
use crate::serve::operator::Operator;
use anyhow::Context as _;
use core::time::Duration;
use records::Known;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tandem_base::Instant;
use tandem_node::Command;
use tandem_resolve::{Reader, Silence};
use tandem_sip::{ListenerId, Transport};
use tandem_telemetry::Registry;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};

/// The shortest time between two readings, whatever the records say.
const FLOOR: Duration = Duration::from_secs(1);
/// The longest time until what failed is asked again.
const RETRY: Duration = Duration::from_secs(5);
/// How long a start waits for the first readings.
const START_WITHIN: Duration = Duration::from_secs(5);
/// Hosts that are looked up at a time.
const AT_ONCE: usize = 16;

/// How the names of each pool stand.
#[derive(Default)]
pub(crate) struct Discovery {
    standings: Mutex<BTreeMap<String, Standing>>,
    /// Notified when the configuration may name other records.
    pub(crate) changed: Notify,
}

#[derive(Clone, Default)]
struct Standing {
    readings: u64,
    failures: u64,
    stale: Option<Stale>,
}

/// Since when a pool's servers are what DNS said once and not what it says now, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stale {
    pub(crate) since: Instant,
    pub(crate) because: String,
}

/// What is read for one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    names: Vec<String>,
    interval: Duration,
}

impl Discovery {
    /// A pool's standing: `None` if it has no names in DNS, `Some(None)` if they answer.
    pub(crate) fn stale(&self, pool: &str) -> Option<Option<Stale>> {
        self.lock().get(pool).map(|standing| standing.stale.clone())
    }

    /// Tells the standings as metrics.
    pub(crate) fn expose(self: &Arc<Self>, registry: &Registry) {
        let discovery = Arc::clone(self);
        registry.collect(move |out| {
            for (pool, standing) in discovery.lock().iter() {
                let labels = [("pool", pool.as_str())];
                let help = "1 while the pool's servers are what DNS said last and not what it says now.";
                out.gauge("tandem_pool_dns_stale", help, &labels, u64::from(standing.stale.is_some()));
                for (outcome, value) in
                    [("answered", standing.readings - standing.failures), ("failed", standing.failures)]
                {
                    let labels = [("pool", pool.as_str()), ("outcome", outcome)];
                    out.counter(
                        "tandem_pool_dns_readings_total",
                        "Readings of a pool's names.",
                        &labels,
                        value,
                    );
                }
            }
        });
    }

    /// Notes how a reading went. The log hears of it when that changes, and not at every reading.
    fn note(&self, pool: &str, now: Instant, silence: Option<String>) {
        let mut standings = self.lock();
        let standing = standings.entry(pool.to_owned()).or_default();
        standing.readings += 1;
        standing.failures += u64::from(silence.is_some());
        match (&mut standing.stale, silence) {
            (Some(stale), Some(because)) => stale.because = because,
            (stale @ None, Some(because)) => {
                tracing::warn!(pool, because, "DNS is stale: the pool keeps the servers that it has");
                *stale = Some(Stale { since: now, because });
            }
            (stale @ Some(_), None) => {
                tracing::info!(pool, "DNS answers again");
                *stale = None;
            }
            (None, None) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Standing>> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the pools' names for good. Returns after the first readings, or when they take too long.
pub(crate) async fn start(operator: &Arc<Operator>, servers: Vec<SocketAddr>) {
    let (first, mut firsts) = mpsc::channel::<()>(1);
    tokio::spawn(keep_watching(Arc::clone(operator), servers, first));
    // It yields nothing; it ends when every task has dropped its half.
    let _ = tokio::time::timeout(START_WITHIN, firsts.recv()).await;
}

/// One task for each pool with names; another where the names or the interval change.
async fn keep_watching(operator: Arc<Operator>, servers: Vec<SocketAddr>, first: mpsc::Sender<()>) {
    let mut first = Some(first);
    let mut running: BTreeMap<String, (Wanted, JoinHandle<()>)> = BTreeMap::new();
    loop {
        let mut wanted = operator.names_in_dns();
        running.retain(|pool, (now, task)| {
            let stays = wanted.get(pool) == Some(now);
            if stays {
                wanted.remove(pool);
            } else {
                task.abort();
                operator.discovery.lock().remove(pool);
            }
            stays
        });
        for (pool, wanted) in wanted {
            let watch =
                watch(Arc::clone(&operator), servers.clone(), pool.clone(), wanted.clone(), first.clone());
            running.insert(pool, (wanted, tokio::spawn(watch)));
        }
        first = None;
        operator.discovery.changed.notified().await;
    }
}

async fn watch(
    operator: Arc<Operator>,
    servers: Vec<SocketAddr>,
    pool: String,
    wanted: Wanted,
    mut first: Option<mpsc::Sender<()>>,
) {
    let (mut known, mut refused) = (Known::default(), None);
    loop {
        let read = match Reader::new(&servers) {
            Ok(reader) => read(&Arc::new(reader), &wanted.names, &mut known).await,
            Err(error) => Reading { ttl: None, silence: Some(format!("no name server is known: {error}")) },
        };
        operator.discovery.note(&pool, operator.clock.now(), read.silence.clone());
        let taken = operator.discovered(&pool, &wanted.names, &known).map_err(|error| format!("{error:#}"));
        if let Err(error) = &taken
            && refused.as_ref() != Some(error)
        {
            tracing::error!(pool, error, "the pool does not take what DNS says");
        }
        refused = taken.err();
        drop(first.take());
        let wait = if read.silence.is_some() { RETRY } else { read.ttl.unwrap_or(wanted.interval) };
        tokio::time::sleep(wait.min(wanted.interval).max(FLOOR)).await;
    }
}

/// How one reading of all of a pool's names went.
struct Reading {
    /// The shortest time that an answer holds.
    ttl: Option<Duration>,
    /// What did not answer, if anything.
    silence: Option<String>,
}

impl Reading {
    fn take<T>(&mut self, answer: Result<tandem_resolve::Answer<T>, Silence>) -> Option<Vec<T>> {
        match answer {
            Ok(answer) => {
                self.ttl = Some(self.ttl.map_or(answer.ttl, |ttl| ttl.min(answer.ttl)));
                Some(answer.found)
            }
            Err(silence) => {
                self.silence.get_or_insert(silence.to_string());
                None
            }
        }
    }
}

/// Asks for the records of all names and for the addresses behind them; what does not answer stays as it is.
async fn read(reader: &Arc<Reader>, names: &[String], known: &mut Known) -> Reading {
    let mut reading = Reading { ttl: None, silence: None };
    for name in names {
        if let Some(records) = reading.take(reader.services(name).await) {
            known.services.insert(name.clone(), records);
        }
    }
    if reading.ttl.is_none() {
        return reading; // who does not answer for one name will not for all its hosts
    }
    let targets = known.targets(names);
    known.hosts.retain(|host, _| targets.contains(host));
    let mut asked = JoinSet::new();
    for host in targets {
        if asked.len() >= AT_ONCE
            && let Some(Ok((host, answer))) = asked.join_next().await
        {
            known.hosts.extend(reading.take(answer).map(|found| (host, found)));
        }
        let reader = Arc::clone(reader);
        asked.spawn(async move {
            let answer = reader.addresses(&format!("{host}.")).await;
            (host, answer)
        });
    }
    while let Some(answered) = asked.join_next().await {
        let Ok((host, answer)) = answered else { continue };
        known.hosts.extend(reading.take(answer).map(|found| (host, found)));
    }
    reading
}

impl Operator {
    /// The pools in force that have names in DNS.
    fn names_in_dns(&self) -> BTreeMap<String, Wanted> {
        let in_force = self.in_force();
        let pools = in_force.config.pools.iter().filter(|pool| !pool.srv.is_empty());
        pools
            .map(|pool| (pool.name.clone(), Wanted { names: pool.srv.clone(), interval: pool.srv_interval }))
            .collect()
    }

    /// Gives a pool the servers that DNS has for it, on all shards, if they are others than before.
    fn discovered(&self, pool: &str, names: &[String], known: &Known) -> anyhow::Result<()> {
        let in_force = self.in_force();
        let config = &in_force.config;
        let wanted = config.pools.iter().find(|one| one.name == pool && one.srv == names);
        let Some(wanted) = wanted else { return Ok(()) };
        let room = usize::from(config.balancer.destinations_max).saturating_sub(wanted.destinations.len());
        let reached = listeners(config)?;
        let listener = |peer| reached.towards(Transport::Udp, peer, ListenerId(0));
        let found = known.destinations(names, &self.pools.found(pool), room, listener);
        let ids: Vec<String> = found.iter().map(|one| one.id.to_string()).collect();
        let Some(balanced) = self.pools.discovered(wanted, found, self.clock.now())? else { return Ok(()) };
        let told = node_config(config, Some(balanced)).context("what DNS says")?;
        self.tell_shards(&Command::Reconfigure(told));
        tracing::info!(pool, servers = ?ids, "DNS names these servers");
        Ok(())
    }
}
