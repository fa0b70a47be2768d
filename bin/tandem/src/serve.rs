//! `tandem serve`: a node, until it is told to stop.
//!
//! Order of a start: configuration, log, admin endpoint (so that `/readyz` tells what is waited for), key, store, load,
//! control socket, shards, ready. Order of an end: not ready, drain, shards, store, exit.

mod balance;
mod discovery;
mod dns;
mod listing;
mod metrics;
mod newcomer;
mod node_config;
mod operator;
mod pools;
mod secret;
mod shard;

use crate::cli::ServeArgs;
use crate::control::server::ControlSocket;
use crate::files::{self, Loaded};
use anyhow::{Context as _, bail};
use core::time::Duration;
use discovery::Discovery;
use metrics::NodeCells;
use node_config::{challenger_config, listeners, node_config};
use operator::{InForce, Operator};
use pools::Pools;
use secret::random;
use shard::{Keeper, Shard, Ticket};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use tandem_auth::{Challenger, NonceCounts, Users};
use tandem_base::{HashKey, Instant, Rng};
use tandem_config::{Config, Cores, Durability, LogFormat, LogLevel, Steer};
use tandem_node::{Command, Node, Shared};
use tandem_registrar::Locations;
use tandem_shard::{Clock, Commands, Exit, Listener, Plan, Running, Steered, Threads};
use tandem_sip::ListenerId;
use tandem_store::{Sockets, Store, Times, Writer, WriterEvent, WriterOptions};
use tandem_telemetry::{self as telemetry, Health, LevelFilter, LogHandle, LogOptions, Registry};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// Threads for what may wait: HTTP, control socket, signals.
const CONTROL_THREADS: usize = 2;
/// Threads for what blocks: the system's resolver.
const BLOCKING_THREADS_MAX: usize = 64;
/// The whole location service is swept of what has expired within this many seconds.
const SWEEP_SECS: usize = 32;

/// Runs a node until a signal or `tandem ctl shutdown` ends it.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let mut loaded = files::load(args.config.as_deref())?;
    if args.newcomer && loaded.path.is_none() {
        loaded.config = newcomer::config()?;
    }
    // A growing table that touches a huge page for the first time would stop its shard while the kernel finds and clears
    // 2 MiB, on a virtual machine for 7 ms. Kernels before 3.15 cannot switch that off.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // The store, its log and the key are the node's own affair.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let log = start_log(&loaded.config)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("control")
        .enable_all()
        .build()
        .context("starting the control threads")?;
    let ended = runtime.block_on(serve(loaded, log, args.newcomer));
    // A look-up that still waits for a resolver must not hold the exit up.
    runtime.shutdown_background();
    ended
}

fn start_log(config: &Config) -> anyhow::Result<LogHandle> {
    let format = match config.log.format {
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    };
    let journald = std::env::var_os("JOURNAL_STREAM").is_some();
    let options = LogOptions { level: log_level(config.log.level), format, journald };
    telemetry::start_log(options).context("starting the log")
}

pub(crate) fn log_level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

async fn serve(loaded: Loaded, log: LogHandle, newcomer: bool) -> anyhow::Result<()> {
    let Loaded { path: file, config, .. } = loaded;
    // Before the first wait, so that no signal finds its default action.
    let mut signals = Signals::new()?;
    let clock = Clock::new();
    let registry = Arc::new(Registry::new(&[("node", &config.node.name), ("role", "proxy")]));
    let health = Arc::new(Health::new());
    health.set_ready("start", Err("starting".to_owned()));
    start_admin(&config, &registry, &health).await?;
    let socket = ControlSocket::bind(&config.admin.socket).await?;

    let secret = secret::obtain(&config.auth)?;
    let previous = secret::obtain_previous(&config.auth, &secret)?;
    let (key, previous) = (key(&secret)?, previous.as_ref().map(key).transpose()?);
    let asked = Arc::new(Notify::new());
    let plan = plan(&config, clock, &asked)?;
    let pools = Pools::new(plan.shards);
    let told = node_config(&config, pools.take(&config, &listeners(&config)?, clock.now())?)?;
    let shared = Arc::new(shared(&config, &key, clock)?);
    let sockets = sockets(&config);
    let times: tandem_store::Clock = Arc::new(move || {
        let now = clock.now();
        Times { now, unix: i64::try_from(clock.unix(now).as_secs()).unwrap_or(i64::MAX) }
    });
    health.set_ready("start", Err("loading users and bindings".to_owned()));
    let store = open_store(&config, &shared, &sockets, &times).await?;
    let shards: Arc<OnceLock<Commands<Command>>> = Arc::default();
    let writer = start_writer(&config, &store, &shared, &sockets, &times, &shards)?;

    let (mut loads, mut cells_of_pools) = (Vec::new(), Vec::new());
    let mut rng = Rng::from_key(random()?);
    let Running { commands, events, counters, threads, addresses, steered } =
        tandem_shard::start(&plan, |number| {
            let node = Node::new(Arc::clone(&told), Arc::clone(&shared), &key, rng.next_u64());
            let mut node = node.on_shard(number).with_previous_key(previous.as_ref());
            node.lend_clock(Box::new(move || clock.now()));
            let pools = balance::BalanceCell::default();
            cells_of_pools.push(pools.clone());
            let cells = NodeCells::new(&registry, &node);
            loads.push(cells.load());
            Shard::new(node, number, keeper(&config, writer.as_ref()), cells, pools)
        })?;
    told_steering(&config, &steered)?;
    let _ = shards.set(commands.clone());
    metrics::expose_shards(&registry, counters);
    balance::expose(&registry, cells_of_pools);
    metrics::expose_shared(&registry, Arc::clone(&shared));
    if let Some(writer) = &writer {
        metrics::expose_store(&registry, Arc::clone(writer.stats()));
    }
    let servers = name_servers(&config);
    let (counted, seed) = (Arc::clone(&registry), rng.next_u64());
    tokio::spawn(dns::answer(events, asked, commands.clone(), counted, servers.clone(), seed));
    let discovery = Arc::new(Discovery::default());
    discovery.expose(&registry);
    tokio::spawn(sweep(Arc::clone(&shared), writer.as_ref().map(Writer::handle), clock));

    let stop = Arc::new(Notify::new());
    let operator = Arc::new(Operator {
        file,
        without_file: config.clone(),
        in_force: Mutex::new(InForce { config: config.clone(), restart_pending: Vec::new() }),
        shared,
        commands,
        store,
        writer: writer.as_ref().map(Writer::handle),
        sockets,
        times,
        registry,
        health: Arc::clone(&health),
        log,
        loads,
        pools,
        discovery,
        clock,
        stop: Arc::clone(&stop),
    });
    let control = tokio::spawn(socket.serve(Arc::clone(&operator)));
    if newcomer {
        newcomer::greet(&operator, &config).await?;
    }
    for (listener, address) in addresses {
        tracing::info!(listener = listener.0, %address, "listening");
    }
    discovery::start(&operator, servers).await;
    health.set_ready("start", Ok(()));
    tracing::info!(shards = plan.shards, ?steered, "ready");
    telemetry::notify_ready("ready");

    watch(&mut signals, &operator, &stop, &threads, &health).await;
    let ended = end(&mut signals, &operator, threads, writer).await;
    // With its task the control socket goes, so that the next start finds none.
    control.abort();
    let _ = control.await;
    ended
}

/// The signals that a node obeys.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let take = |kind| signal(kind).context("taking over signals");
        Ok(Self {
            hangup: take(SignalKind::hangup())?,
            terminate: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Obeys signals and the watchdog until the node is to stop.
async fn watch(
    signals: &mut Signals,
    operator: &Arc<Operator>,
    stop: &Notify,
    threads: &Threads,
    health: &Health,
) {
    let every = telemetry::watchdog_interval();
    let mut beat = tokio::time::interval(every.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1)));
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return,
            _ = signals.interrupt.recv() => return,
            () = stop.notified() => return,
            _ = signals.hangup.recv() => reload(operator),
            _ = beat.tick() => {
                if threads.any_ended() {
                    health.set_alive("shards", Err("a shard has ended; its calls are lost".to_owned()));
                }
                if every.is_some() && health.dead().is_empty() {
                    telemetry::notify_watchdog();
                }
            }
        }
    }
}

/// SIGHUP: as `tandem ctl reload`, told to the log.
fn reload(operator: &Operator) {
    telemetry::notify_reloading();
    match operator.reload() {
        Ok(reloaded) => {
            for change in &reloaded.applied {
                tracing::info!("reload applied {change}");
            }
            for change in &reloaded.restart {
                tracing::warn!("reload: this change needs a restart: {change}");
            }
            tracing::info!(applied = reloaded.applied.len(), restart = reloaded.restart.len(), "reloaded");
        }
        Err(failure) => {
            for line in failure.message.lines() {
                tracing::error!("reload refused: {line}");
            }
        }
    }
    telemetry::notify_ready("ready");
}

/// Drains, with a deadline; a second signal cuts it short.
async fn end(
    signals: &mut Signals,
    operator: &Operator,
    threads: Threads,
    writer: Option<Writer<Ticket>>,
) -> anyhow::Result<()> {
    let grace = operator.grace();
    operator.drain();
    telemetry::notify_stopping(grace.saturating_add(Duration::from_secs(10)));
    tracing::info!(grace_secs = grace.as_secs(), "draining");
    threads.stop(grace);
    let joined = tokio::task::spawn_blocking(move || {
        let exits = threads.join();
        (exits, writer.is_none_or(Writer::shutdown))
    });
    tokio::select! {
        ended = joined => {
            let (exits, stored) = ended.context("waiting for the shards")?;
            told_end(&exits, stored)
        }
        () = signals.stop() => {
            // What waits for the disk is written by the writer's end, which is not waited for here: under `commit`
            // nobody was told that it is stored.
            tracing::warn!("second signal: exiting now");
            std::process::exit(1)
        }
    }
}

fn told_end(exits: &[Exit], stored: bool) -> anyhow::Result<()> {
    let mut failed = false;
    for (shard, exit) in exits.iter().enumerate() {
        match exit {
            Exit::Drained => {}
            Exit::GraceOver => tracing::warn!(shard, "calls were still in progress at the deadline"),
            Exit::Failed(error) => {
                tracing::error!(shard, %error, "the shard had failed");
                failed = true;
            }
            Exit::Panicked(message) => {
                tracing::error!(shard, message, "the shard had panicked");
                failed = true;
            }
        }
    }
    if !stored {
        tracing::error!("the disk does not have all bindings");
    }
    if failed || !stored {
        bail!("the node did not end cleanly");
    }
    tracing::info!("ended");
    Ok(())
}

async fn start_admin(config: &Config, registry: &Arc<Registry>, health: &Arc<Health>) -> anyhow::Result<()> {
    let Some(address) = config.admin.listen.get() else { return Ok(()) };
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("[admin] listen: binding {address}"))?;
    let (registry, health) = (Arc::clone(registry), Arc::clone(health));
    tokio::spawn(async move {
        // It serves until the process ends, so that a draining node still tells how it is.
        if let Err(error) = telemetry::serve(listener, registry, health, core::future::pending()).await {
            tracing::error!(%error, "the admin endpoint ended");
        }
    });
    Ok(())
}

/// The cluster's key, of both halves of the secret.
fn key(secret: &tandem_config::Secret) -> anyhow::Result<HashKey> {
    let (first, second) = secret.expose().split_first_chunk::<16>().context("the key is too short")?;
    Ok(HashKey::from_bytes(*first).derive(second))
}

fn shared(config: &Config, key: &HashKey, clock: Clock) -> anyhow::Result<Shared> {
    // Tables are hashed under a key of this process' own.
    let local = HashKey::from_bytes(random()?);
    let unix_ms_at_zero = u64::try_from(clock.unix(Instant::ZERO).as_millis()).unwrap_or(u64::MAX);
    Ok(Shared {
        locations: Arc::new(Locations::new(local.derive(b"locations"), config.registrar.aors_max)),
        users: Users::new(&local, 0),
        challenger: Challenger::new(key, challenger_config(&config.auth, unix_ms_at_zero)),
        nonce_counts: NonceCounts::new(&local, NonceCounts::SLOTS_DEFAULT, unix_ms_at_zero),
    })
}

/// The name servers to ask; none for the system's.
fn name_servers(config: &Config) -> Vec<SocketAddr> {
    let servers = config.node.name_servers.iter();
    servers.filter_map(|server| Some(SocketAddr::new(server.host.parse().ok()?, server.port))).collect()
}

fn listener_ids(config: &Config) -> impl Iterator<Item = (ListenerId, tandem_config::ListenUri)> {
    (0_u16..).map(ListenerId).zip(config.listen.iter().map(|listen| listen.uri))
}

fn sockets(config: &Config) -> Sockets {
    Sockets::new(listener_ids(config).map(|(id, uri)| (id, uri.transport, uri.address)))
}

async fn open_store(
    config: &Config,
    shared: &Shared,
    sockets: &Sockets,
    times: &tandem_store::Clock,
) -> anyhow::Result<Store> {
    let options = tandem_store::Options {
        sync_each_commit: config.store.durability == Durability::Commit,
        ..tandem_store::Options::default()
    };
    let store = Store::open(&config.store.path, options).await?;
    let (users, bad) = store.load_users(&shared.users).await?;
    if bad > 0 {
        tracing::warn!(bad, "rows of the store can't be users and were left out");
    }
    if config.store.durability == Durability::Memory {
        tracing::info!(users, "loaded users; bindings are kept in memory only");
        return Ok(store);
    }
    let report = store.load_locations(&shared.locations, sockets, times).await?;
    if report.bad > 0 || report.refused > 0 {
        tracing::warn!(bad = report.bad, no_room = report.refused, "bindings of the store were left out");
    }
    tracing::info!(users, bindings = report.taken, expired = report.expired, "loaded");
    Ok(store)
}

fn start_writer(
    config: &Config,
    store: &Store,
    shared: &Shared,
    sockets: &Sockets,
    times: &tandem_store::Clock,
    shards: &Arc<OnceLock<Commands<Command>>>,
) -> anyhow::Result<Option<Writer<Ticket>>> {
    if config.store.durability == Durability::Memory {
        return Ok(None);
    }
    let options = WriterOptions {
        queue_max: config.store.queue_max,
        batch_max: config.store.batch_max,
        linger: config.store.batch_wait,
        retained_max: config.store.queue_max,
        ..WriterOptions::default()
    };
    let shards = Arc::clone(shards);
    let answered = move |Ticket { shard, ticket }: Ticket, ok| {
        let command = Command::Persisted { tickets: Box::new([ticket]), ok };
        // The queue holds as many commands as tickets can wait, so it is full only when the shard stands.
        if shards.get().is_some_and(|commands| commands.send(shard, command).is_err()) {
            tracing::error!(shard, "the shard takes no answers from the store");
        }
    };
    let event = |event| match event {
        WriterEvent::Failing(error) => tracing::error!(%error, "bindings can't be stored; calls go on"),
        WriterEvent::Recovered { attempts } => tracing::info!(attempts, "bindings are stored again"),
    };
    let locations = Arc::clone(&shared.locations);
    Ok(Some(store.writer(locations, sockets.clone(), Arc::clone(times), options, answered, event)?))
}

fn keeper(config: &Config, writer: Option<&Writer<Ticket>>) -> Keeper {
    match (config.store.durability, writer) {
        (Durability::Memory, _) | (_, None) => Keeper::Memory,
        (Durability::Async, Some(writer)) => Keeper::Async(writer.handle()),
        (Durability::Commit, Some(writer)) => Keeper::Commit(writer.handle()),
    }
}

fn plan(config: &Config, clock: Clock, asked: &Arc<Notify>) -> anyhow::Result<Plan> {
    let allowed = rustix::thread::sched_getaffinity(None).context("asking for the cores of the process")?;
    let allowed: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let shards = if config.node.shards == 0 { allowed.len().max(1) } else { config.node.shards };
    let cores = match &config.node.pin_cores {
        Cores::Unpinned => Vec::new(),
        Cores::InOrder => allowed,
        Cores::List(cores) => cores.iter().copied().map(usize::from).collect(),
    };
    let listener = |(id, uri): (ListenerId, tandem_config::ListenUri)| Listener {
        id,
        address: uri.address,
        options: Default::default(),
    };
    let asked = Arc::clone(asked);
    let mut plan = Plan::new(clock, random()?);
    plan.shards = shards;
    plan.cores = cores;
    plan.net.gather = config.node.gather;
    plan.listeners = listener_ids(config).map(listener).collect();
    // Each registration that waits for the disk is answered by a command.
    plan.commands_max = config.store.queue_max.saturating_add(4_096);
    plan.steer_in_kernel = config.node.steer != Steer::HandOver;
    plan.on_event = Arc::new(move || asked.notify_one());
    Ok(plan)
}

fn told_steering(config: &Config, steered: &Steered) -> anyhow::Result<()> {
    let Steered::ByHandOverFor(error) = steered else { return Ok(()) };
    if config.node.steer == Steer::Kernel {
        bail!(
            "[node] steer = \"kernel\", but the kernel does not: {error}; write \"auto\" to let shards hand over"
        );
    }
    tracing::info!(%error, "the kernel does not steer; shards hand over");
    Ok(())
}

/// Drops what has expired, a few chunks a second, and tells the store.
async fn sweep(shared: Arc<Shared>, writer: Option<tandem_store::WriterHandle<Ticket>>, clock: Clock) {
    let locations = &shared.locations;
    let mut every = tokio::time::interval(Duration::from_secs(1));
    let mut chunks = (0..locations.chunks()).cycle();
    loop {
        every.tick().await;
        for chunk in chunks.by_ref().take(locations.chunks().div_ceil(SWEEP_SECS)) {
            locations.sweep(clock.now(), chunk, |aor| {
                if let Some(writer) = &writer {
                    writer.note(aor);
                }
            });
            tokio::task::yield_now().await;
        }
    }
}
