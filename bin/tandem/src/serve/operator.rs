//! What an operator's request does to the running node.

use crate::control::protocol::{
    Code, DnsEntry, Failure, Imported, ImportedTable, Outcome, Page, PoolState, Reloaded, Request, Status,
};
use crate::control::server::Control;
use crate::files;
use crate::serve::discovery::Discovery;
use crate::serve::metrics::Load;
use crate::serve::node_config::{listeners, node_config};
use crate::serve::pools::{self, Edit, Pools};
use crate::serve::shard::Ticket;
use crate::serve::{balance, listing, log_level};
use core::time::Duration;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tandem_config::{Config, LogLevel};
use tandem_node::{Command, Shared};
use tandem_registrar::{Binding, Change, Record, split_aor, write_canonical_parts};
use tandem_shard::{Clock, Commands};
use tandem_store::{
    ImportCount, ImportFile, ImportOptions, Sockets, Store, StoreError, StoreErrorKind, Table, UserRow,
    WriterHandle,
};
use tandem_telemetry::{Health, LogHandle, Registry};
use tokio::sync::Notify;

/// How long a shard may take to answer an operator's question.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Everything a request may touch.
pub(crate) struct Operator {
    pub(crate) file: Option<PathBuf>,
    /// What a start without a file has in force.
    pub(crate) without_file: Config,
    pub(crate) in_force: Mutex<InForce>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: Commands<Command>,
    pub(crate) store: Store,
    /// `None` where bindings are not stored.
    pub(crate) writer: Option<WriterHandle<Ticket>>,
    pub(crate) sockets: Sockets,
    pub(crate) times: tandem_store::Clock,
    pub(crate) registry: Arc<Registry>,
    pub(crate) health: Arc<Health>,
    pub(crate) log: LogHandle,
    pub(crate) loads: Vec<Load>,
    pub(crate) pools: Pools,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) clock: Clock,
    /// Notified once the node is to drain and exit.
    pub(crate) stop: Arc<Notify>,
}

/// The configuration in force.
pub(crate) struct InForce {
    pub(crate) config: Config,
    /// Keys that the file has otherwise, and that need a restart.
    pub(crate) restart_pending: Vec<String>,
}

impl Control for Operator {
    async fn control(&self, request: Request) -> Outcome {
        match request {
            Request::Status {} => Ok(json!(self.status())),
            Request::UsersAdd { user, password } => self.add_user(&user, &password).await,
            Request::UsersPasswd { user, password } => self.change_password(&user, &password).await,
            Request::UsersDel { user } => self.remove_user(&user).await,
            Request::UsersList { after } => Ok(json!(listing::users(&self.shared.users, after.as_deref()))),
            Request::BindingsList { user: Some(user), .. } => {
                let entries =
                    listing::bindings_of(&self.shared.locations, self.clock.now(), &self.aor(&user)?);
                Ok(json!(Page { entries, next: None }))
            }
            Request::BindingsList { user: None, after } => {
                let (locations, now) = (&self.shared.locations, self.clock.now());
                Ok(json!(listing::bindings(locations, now, after.as_deref())))
            }
            Request::BindingsRemove { user, contact } => self.remove_bindings(&user, contact.as_deref()),
            Request::Import { file, dry_run, replace, domain, utc_offset_secs } => {
                let (first, realm) = {
                    let in_force = self.in_force();
                    (in_force.config.domains.first().cloned(), in_force.config.auth.realm.clone())
                };
                let domain = domain.or(first);
                let options =
                    ImportOptions { dry_run, replace_users: replace, domain, realm, utc_offset_secs };
                self.import(&file, options).await
            }
            Request::Reload {} => self.reload().map(|reloaded| json!(reloaded)),
            Request::Drain {} => {
                self.drain();
                Ok(json!({}))
            }
            Request::Shutdown {} => {
                self.stop.notify_one();
                Ok(json!({}))
            }
            Request::Metrics {} => Ok(json!(self.registry.expose())),
            Request::LogLevel { level } => self.set_level(&level),
            Request::PoolList { pool } => self.list_pools(pool).await,
            Request::PoolState { destination, state } => self.set_state(&destination, state),
            Request::PoolWeight { destination, weight } => {
                self.edit_pool(&destination, &Edit::Weight(weight))
            }
            Request::PoolRemove { destination } => self.edit_pool(&destination, &Edit::Remove),
            Request::PoolAdd { destination, address, weight, capacity, priority, cluster } => {
                self.add_destination(&destination, &address, weight, capacity, priority, cluster)
            }
            Request::PoolWhy { call_id } => self.why(call_id).await,
        }
    }
}

impl Operator {
    pub(crate) fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Status {
        let in_force = self.in_force();
        let config = &in_force.config;
        let reasons = self.health.unready();
        Status {
            node: config.node.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_secs: self.clock.now().as_secs(),
            state: if reasons.is_empty() { "ready".to_owned() } else { "not ready".to_owned() },
            reasons,
            domains: config.domains.clone(),
            listen: config.listen.iter().map(|listen| listen.uri.to_string()).collect(),
            shards: self.commands.shards(),
            users: self.shared.users.len(),
            aors: self.shared.locations.aors(),
            bindings: self.shared.locations.bindings(),
            transactions: self.loads.iter().map(|load| load.transactions.get()).sum(),
            in_progress: self.loads.iter().map(|load| load.in_progress.get()).sum(),
            config: self.file.as_ref().map(|file| file.display().to_string()),
            restart_pending: in_force.restart_pending.clone(),
        }
    }

    /// The address-of-record of `alice`, `alice@example.org` or `sip:alice@example.org`, which must be ours.
    fn aor(&self, user: &str) -> Result<Vec<u8>, Failure> {
        let in_force = self.in_force();
        let domains = &in_force.config.domains;
        let invalid = |message: String| Err(Failure::new(Code::Invalid, message));
        let user = user.strip_prefix("sip:").unwrap_or(user);
        let (name, domain) = match user.rsplit_once('@') {
            Some((name, domain)) => (name, domain.to_ascii_lowercase()),
            None => (user, domains.first().cloned().unwrap_or_default()),
        };
        if name.is_empty() || name.len() > 128 || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return invalid(format!("{user:?} is not a user; write it as alice or alice@{domain}"));
        }
        if !domains.contains(&domain) {
            return invalid(format!(
                "{domain} is not a domain of this node, which has {}",
                domains.join(", ")
            ));
        }
        let mut aor = Vec::new();
        write_canonical_parts(name.as_bytes(), domain.as_bytes(), None, &mut aor);
        Ok(aor)
    }

    async fn add_user(&self, user: &str, password: &str) -> Outcome {
        let row = self.user_row(user, password)?;
        self.store.add_user(&row).await.map_err(|error| refused(&error))?;
        self.shared.users.insert(&row.key(), row.ha1);
        Ok(json!({ "user": format!("{}@{}", row.username, row.domain) }))
    }

    async fn change_password(&self, user: &str, password: &str) -> Outcome {
        let row = self.user_row(user, password)?;
        self.store.set_password(&row).await.map_err(|error| refused(&error))?;
        self.shared.users.insert(&row.key(), row.ha1);
        Ok(json!({ "user": format!("{}@{}", row.username, row.domain) }))
    }

    async fn remove_user(&self, user: &str) -> Outcome {
        let aor = self.aor(user)?;
        let (name, domain) = names(&aor);
        if !self.store.delete_user(&name, &domain).await.map_err(|error| refused(&error))? {
            return Err(Failure::new(Code::NotFound, format!("there is no user {}", text(&aor))));
        }
        let realm = self.in_force().config.auth.realm.clone().unwrap_or(domain);
        self.shared.users.remove(format!("{name}@{realm}").as_bytes());
        let removed = self.unbind(&aor, |_| true);
        Ok(json!({ "user": text(&aor), "bindings": removed }))
    }

    /// A user's row, its hashes made for the realm that the node asks for.
    fn user_row(&self, user: &str, password: &str) -> Result<UserRow, Failure> {
        if password.is_empty() || password.len() > 256 || password.chars().any(char::is_control) {
            return Err(Failure::new(
                Code::Invalid,
                "a password has 1 to 256 octets and no control characters",
            ));
        }
        let (name, domain) = names(&self.aor(user)?);
        let realm = self.in_force().config.auth.realm.clone();
        Ok(UserRow::from_password(&name, &domain, realm.as_deref(), password))
    }

    /// Adds a user, as a request would; for the newcomer's first start.
    pub(crate) async fn make_user(&self, user: &str, password: &str) -> Result<(), Failure> {
        self.add_user(user, password).await.map(|_| ())
    }

    async fn import(&self, file: &Path, options: ImportOptions) -> Outcome {
        let store = &self.store;
        let (locations, sockets) = (&self.shared.locations, &self.sockets);
        let users = Arc::clone(&self.shared);
        let user = move |row: &UserRow| {
            users.users.insert(&row.key(), row.ha1);
        };
        let source = ImportFile::open(file, Table::SUBSCRIBERS).await;
        let mut source = source.map_err(|error| Failure::new(Code::Invalid, format!("the node: {error}")))?;
        let report = store.import(&mut source, &options, locations, sockets, &self.times, user).await;
        let report = report.map_err(|error| refused(&error))?;
        Ok(json!(Imported { users: table(report.subscribers), bindings: table(report.locations) }))
    }

    fn remove_bindings(&self, user: &str, contact: Option<&str>) -> Outcome {
        let aor = self.aor(user)?;
        let matches =
            |binding: &Binding<'_>| contact.is_none_or(|contact| contact.as_bytes() == binding.contact);
        match self.unbind(&aor, matches) {
            0 => Err(Failure::new(Code::NotFound, format!("{} has no such binding", text(&aor)))),
            removed => Ok(json!({ "removed": removed })),
        }
    }

    /// Removes the bindings that match, and tells the store.
    fn unbind(&self, aor: &[u8], mut matches: impl FnMut(&Binding<'_>) -> bool) -> usize {
        let mut removed = 0;
        let updated = self.shared.locations.update(aor, |record: Option<&Record>| {
            removed = 0;
            let Some(record) = record else { return Change::Keep };
            let left = record.without(|binding| {
                let goes = matches(binding);
                removed += usize::from(goes);
                goes
            });
            if removed == 0 { Change::Keep } else { left.into() }
        });
        if updated == Ok(true) {
            self.note(aor);
        }
        removed
    }

    fn note(&self, aor: &[u8]) {
        if let Some(writer) = &self.writer {
            writer.note(aor);
        }
    }

    /// Checks the file as a whole and applies what a running node can; with a mistake nothing changes.
    pub(crate) fn reload(&self) -> Result<Reloaded, Failure> {
        let new = match &self.file {
            None => Ok((self.without_file.clone(), Vec::new())),
            Some(file) => files::check(file)
                .map_err(|error| Failure::new(Code::Invalid, format!("{error:#}; nothing was changed")))?,
        };
        let (new, warnings) = new.map_err(|mistakes| {
            let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            let message = format!("{}\n{} mistakes; nothing was changed", told.join("\n"), told.len());
            Failure::new(Code::Invalid, message)
        })?;
        let mut in_force = self.in_force();
        let diff = Config::diff(&in_force.config, &new);
        let config = in_force.config.reloaded(&new);
        let invalid = |error: anyhow::Error| Failure::new(Code::Invalid, format!("{error:#}"));
        let reached = listeners(&config).map_err(invalid)?;
        let balanced = self.pools.take(&config, &reached, self.clock.now()).map_err(invalid)?;
        let told = node_config(&config, balanced).map_err(invalid)?;
        self.tell_shards(&Command::Reconfigure(told));
        self.log
            .set_level(log_level(config.log.level))
            .map_err(|error| Failure::new(Code::Invalid, error.to_string()))?;
        *in_force = InForce {
            config,
            restart_pending: diff.restart.iter().map(|change| change.key.clone()).collect(),
        };
        drop(in_force);
        self.discovery.changed.notify_one();
        let lines = |changes: &[tandem_config::Change]| changes.iter().map(ToString::to_string).collect();
        let warnings = warnings.iter().map(ToString::to_string).collect();
        Ok(Reloaded { applied: lines(&diff.live), restart: lines(&diff.restart), warnings })
    }

    /// How long calls in progress may take at the end.
    pub(crate) fn grace(&self) -> Duration {
        self.in_force().config.admin.drain
    }

    /// No new calls; balancers and health checks see it.
    pub(crate) fn drain(&self) {
        self.health.set_ready("drain", Err("draining: no new calls".to_owned()));
        self.tell_shards(&Command::Drain(true));
    }

    pub(crate) fn tell_shards(&self, command: &Command) {
        for shard in 0..self.commands.shards() {
            let mut tries = 0;
            // A shard takes its commands each turn; only one that stands leaves them.
            while self.commands.send(shard, command.clone()).is_err() {
                tries += 1;
                if tries > 100 {
                    tracing::error!(shard, "the shard takes no commands");
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// What every shard says to a question, those that do not answer in time left out.
    async fn ask_shards<T: Send + 'static>(
        &self,
        look: impl Fn(&tandem_node::Node, tandem_base::Instant) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        let shards = self.commands.shards();
        let (answers, mut answered) = tokio::sync::mpsc::channel(shards.max(1));
        let look = move |node: &tandem_node::Node, now| {
            let _ = answers.try_send(look(node, now));
        };
        self.tell_shards(&Command::Look(tandem_node::Look(Arc::new(look))));
        let mut all = Vec::new();
        while all.len() < shards {
            match tokio::time::timeout(ANSWER_WITHIN, answered.recv()).await {
                Ok(Some(answer)) => all.push(answer),
                Ok(None) | Err(_) => break,
            }
        }
        all
    }

    async fn list_pools(&self, wanted: Option<String>) -> Outcome {
        let name = wanted.clone();
        let shards = self.ask_shards(move |node, now| balance::list(node, now, name.as_deref())).await;
        let mut pools = balance::merge(shards);
        let now = self.clock.now();
        for pool in &mut pools {
            pool.dns = self.discovery.stale(&pool.pool).map(|stale| DnsEntry {
                stale_secs: stale.as_ref().map(|stale| (now - stale.since).as_secs()),
                because: stale.map(|stale| stale.because),
            });
        }
        match wanted {
            Some(name) if pools.is_empty() => {
                Err(Failure::new(Code::NotFound, format!("there is no pool {name}")))
            }
            Some(_) | None => Ok(json!(pools)),
        }
    }

    async fn why(&self, call_id: String) -> Outcome {
        let asked = call_id.clone();
        let shards = self.ask_shards(move |node, now| balance::why(node, now, asked.as_bytes())).await;
        match shards.into_iter().flatten().next() {
            Some(why) => Ok(json!(why)),
            None => Err(Failure::new(Code::NotFound, format!("no call {call_id} is known here"))),
        }
    }

    fn set_state(&self, destination: &str, state: PoolState) -> Outcome {
        let admin = match state {
            PoolState::Active => tandem_balance::Admin::Active,
            PoolState::Draining => tandem_balance::Admin::Draining,
            PoolState::Disabled => tandem_balance::Admin::Disabled,
        };
        let set = self.pools.set_admin(destination, admin, self.clock.now());
        set.map(|()| json!({})).map_err(|error| Failure::new(Code::NotFound, format!("{error:#}")))
    }

    fn edit_pool(&self, destination: &str, edit: &Edit) -> Outcome {
        let invalid = |error: anyhow::Error| Failure::new(Code::Invalid, format!("{error:#}"));
        let in_force = self.in_force();
        let balanced = self.pools.edit(destination, edit, self.clock.now()).map_err(invalid)?;
        let told = node_config(&in_force.config, Some(balanced)).map_err(invalid)?;
        self.tell_shards(&Command::Reconfigure(told));
        Ok(json!({}))
    }

    fn add_destination(
        &self,
        name: &str,
        address: &str,
        weight: u16,
        capacity: Option<u32>,
        priority: u8,
        cluster: Option<String>,
    ) -> Outcome {
        let invalid = |error: anyhow::Error| Failure::new(Code::Invalid, format!("{error:#}"));
        let id = name.rsplit_once('/').map_or(name, |(_, id)| id);
        let typed = tandem_config::read_destination_parts(id, address)
            .map_err(|(what, remedy)| Failure::new(Code::Invalid, format!("{what}; {remedy}")))?;
        let typed = tandem_config::Destination { weight, capacity, priority, cluster, ..typed };
        let reached = listeners(&self.in_force().config).map_err(invalid)?;
        let new = pools::destination(&typed, &reached).map_err(invalid)?;
        self.edit_pool(name, &Edit::Add(new))
    }

    fn set_level(&self, level: &str) -> Outcome {
        let level = match level {
            "error" => LogLevel::Error,
            "warn" => LogLevel::Warn,
            "info" => LogLevel::Info,
            "debug" => LogLevel::Debug,
            "trace" => LogLevel::Trace,
            other => return Err(Failure::new(Code::Invalid, format!("{other:?} is not a level"))),
        };
        let set = self.log.set_level(log_level(level));
        set.map(|()| json!({})).map_err(|error| Failure::new(Code::Unavailable, error.to_string()))
    }
}

fn text(aor: &[u8]) -> String {
    String::from_utf8_lossy(aor).into_owned()
}

/// The user and the domain of an address-of-record.
fn names(aor: &[u8]) -> (String, String) {
    let (name, domain) = split_aor(aor);
    (text(name), text(domain))
}

fn table(count: ImportCount) -> ImportedTable {
    let ImportCount { taken, skipped, first_skipped } = count;
    ImportedTable {
        taken,
        skipped: skipped.into_iter().map(|(why, rows)| (why.to_owned(), rows)).collect(),
        first_skipped: first_skipped.into_iter().map(|(line, why)| (line, why.to_owned())).collect(),
    }
}

/// A refusal of the store in the operator's words.
fn refused(error: &StoreError) -> Failure {
    let code = match error.kind {
        StoreErrorKind::Conflict if error.detail.contains("exists") => Code::Exists,
        StoreErrorKind::Conflict => Code::NotFound,
        StoreErrorKind::Input => Code::Invalid,
        StoreErrorKind::Open
        | StoreErrorKind::Held
        | StoreErrorKind::NotADatabase
        | StoreErrorKind::Corrupt
        | StoreErrorKind::Newer
        | StoreErrorKind::Full
        | StoreErrorKind::Busy
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Io
        | StoreErrorKind::Engine => Code::Unavailable,
    };
    Failure::new(code, error.to_string())
}
