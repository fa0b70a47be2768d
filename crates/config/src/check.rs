//! From typed values to a [`Config`]: defaults, and the rules between keys.

use crate::diff::reload;
use crate::keys::{
    Admin, Auth, Balancer, Challenge, Durability, Listen, Log, Node, Pool, PoolPolicy, Proxy, Registrar,
    SECTIONS, SipLimits, Store, Top, Transaction, Values,
};
use crate::kind::{Reload, Section};
use crate::mistake::{Findings, Mistake, Warning};
use crate::raw::{RawConfig, RawTable, path};
use crate::value::{Cores, Value, show_duration};
use core::time::Duration;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// A configuration with nothing left to check: every value is in range and fits the others.
///
/// Change a field only to what its key accepts; the sockets and tables are made from it unchecked.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The domains this node answers for.
    pub domains: Vec<String>,
    /// Where it receives SIP; at least one.
    pub listen: Vec<Listen>,
    /// The process.
    pub node: Node,
    /// Forwarding.
    pub proxy: Proxy,
    /// Timers and the transaction table.
    pub transaction: Transaction,
    /// The registrar.
    pub registrar: Registrar,
    /// Pools of servers; none if this node is no balancer.
    pub pools: Vec<Pool>,
    /// What holds for all pools.
    pub balancer: Balancer,
    /// Who must prove who they are.
    pub auth: Auth,
    /// Where users and bindings are kept.
    pub store: Store,
    /// What one message may be.
    pub limits: SipLimits,
    /// Metrics, health and the control socket.
    pub admin: Admin,
    /// The log.
    pub log: Log,
    /// Every key's value by its path, for the diff and for showing; absent where the default is `none`.
    pub(crate) values: BTreeMap<String, Value>,
}

/// A configuration and what is odd in it, or all its mistakes in the order of the file.
pub type CheckResult = Result<(Config, Vec<Warning>), Vec<Mistake>>;

impl Default for Config {
    /// The newcomer's node: everything on loopback.
    fn default() -> Self {
        Self::build(&RawConfig::default())
    }
}

impl Config {
    /// Checks a whole file. `file_name` is what the reports call it.
    ///
    /// # Errors
    ///
    /// Every mistake of the text, in the order of the file.
    pub fn check(text: &str, file_name: &str) -> CheckResult {
        let mut findings = Findings::new(file_name, text);
        let raw = RawConfig::read(text, &mut findings);
        // A broken line is read as something else, so what follows from it is not worth telling.
        let broken: Vec<usize> =
            findings.mistakes.iter().filter(|m| m.key.is_empty()).map(|m| m.line).collect();
        for table in SECTIONS.iter().flat_map(|section| raw.tables(section.name)) {
            require_keys(table, &mut findings);
        }
        let config = Self::build(&raw);
        rules(&raw, &config, &mut findings);
        let Findings { mut mistakes, mut warnings, .. } = findings;
        mistakes.retain(|mistake| !follows(mistake, &broken));
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        warnings.sort_by_key(|warning| (warning.0.line, warning.0.column));
        if mistakes.is_empty() { Ok((config, warnings)) } else { Err(mistakes) }
    }

    fn build(raw: &RawConfig) -> Self {
        let mut values = BTreeMap::new();
        for section in SECTIONS {
            let defaults = defaults(section);
            let typed: Vec<Values> = raw.tables(section.name).map(|table| table.values(&defaults)).collect();
            // A table that is not there has its defaults; there is always one listener.
            let absent = if section.is_optional() { Vec::new() } else { vec![defaults] };
            let tables = if typed.is_empty() { absent } else { typed };
            for (index, table) in tables.into_iter().enumerate() {
                values.extend(table.into_iter().map(|(key, value)| (path(section, index, key), value)));
            }
        }
        Self::from_values(values)
    }

    /// The configuration of the values by path, which are whole and checked.
    fn from_values(values: BTreeMap<String, Value>) -> Self {
        let table = |section: &Section, index: usize| -> Values {
            let value = |key: &'static str| Some((key, values.get(&path(section, index, key))?.clone()));
            section.keys.iter().filter_map(|key| value(key.name)).collect()
        };
        let one = |section: &Section| table(section, 0);
        let all = |section: &'static Section| {
            (0..).map(move |index| table(section, index)).take_while(|table| !table.is_empty())
        };
        Self {
            domains: Top::build(&one(&Top::SECTION)).domains,
            listen: all(&Listen::SECTION).map(|values| Listen::build(&values)).collect(),
            node: Node::build(&one(&Node::SECTION)),
            proxy: Proxy::build(&one(&Proxy::SECTION)),
            transaction: Transaction::build(&one(&Transaction::SECTION)),
            registrar: Registrar::build(&one(&Registrar::SECTION)),
            pools: all(&Pool::SECTION).map(|values| Pool::build(&values)).collect(),
            balancer: Balancer::build(&one(&Balancer::SECTION)),
            auth: Auth::build(&one(&Auth::SECTION)),
            store: Store::build(&one(&Store::SECTION)),
            limits: SipLimits::build(&one(&SipLimits::SECTION)),
            admin: Admin::build(&one(&Admin::SECTION)),
            log: Log::build(&one(&Log::SECTION)),
            values,
        }
    }

    /// This configuration with what a reload may change taken from `new`; the rest waits for a restart.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> Self {
        let from_old = self.values.iter().filter(|(key, _)| reload(key) == Reload::Restart);
        let from_new = new.values.iter().filter(|(key, _)| reload(key) == Reload::Live);
        Self::from_values(from_old.chain(from_new).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Whether a mistake comes only from a broken line: it stands on one, or it is a key that lost its table to one.
fn follows(mistake: &Mistake, broken: &[usize]) -> bool {
    let lost = !mistake.key.contains('.') && broken.iter().any(|line| *line < mistake.line);
    !mistake.key.is_empty() && (lost || broken.contains(&mistake.line))
}

/// The defaults of a section's keys, read from the key table's own TOML.
fn defaults(section: &Section) -> Values {
    let mut values = Values::new();
    for key in section.keys {
        if key.default == "none" {
            continue;
        }
        let text = format!("x = {}", key.default);
        let table = DeTable::parse(&text).ok();
        let read = table.as_ref().and_then(|table| {
            table.get_ref().values().next().and_then(|value| key.kind.read(value, &mut |_, _| {}))
        });
        match read {
            Some(value) => values.insert(key.name, value),
            None => unreachable!("the default of {} does not fit its kind", key.name),
        };
    }
    values
}

/// `[[listen]]` without `uri` would silently be the default once more.
fn require_keys(table: &RawTable, findings: &mut Findings<'_>) {
    if table.section.name == "listen" && !table.seen.contains(&"uri") {
        findings.mistake(
            table.at,
            &table.path("uri"),
            "a listener needs its address",
            r#"add uri = "udp:ADDRESS:5060""#,
        );
    }
    let finds = ["destinations", "srv"];
    if table.section.name == "pool" && !finds.iter().any(|key| table.seen.contains(key)) {
        findings.mistake(
            table.at,
            &table.path("destinations"),
            "a pool needs its servers",
            r#"add destinations = [{ id = "a", address = "HOST:5060" }], or srv = ["_sip._udp.HOST"]"#,
        );
    }
}

/// The place of a key that was typed, else of its table, else the start of the file.
fn at(raw: &RawConfig, section: &str, key: &str) -> usize {
    raw.get(section, key)
        .map(|(_, at)| at)
        .or_else(|| raw.tables(section).next().map(|table| table.at))
        .unwrap_or(0)
}

fn rules(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    listeners(raw, config, findings);
    shards(raw, config, findings);
    name_servers(raw, config, findings);
    durations(raw, config, findings);
    secrets(raw, config, findings);
    exposure(raw, config, findings);
    storage(raw, config, findings);
    sizes(raw, config, findings);
    pools(raw, config, findings);
}

fn listeners(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    const LISTENERS_MAX: usize = 64;
    let mut taken = Vec::new();
    for (table, listen) in raw.tables("listen").zip(&config.listen) {
        let Some((_, at)) = table.get("uri") else { continue };
        if taken.contains(&listen.uri) {
            let what = format!("{} is listened on twice", listen.uri);
            findings.mistake(at, &table.path("uri"), what, "remove one, or change its port");
        }
        taken.push(listen.uri);
        if listen.uri.address.ip().is_unspecified() && !table.seen.contains(&"advertise") {
            let what = format!("peers cannot be told to answer to {}", listen.uri.address.ip());
            let remedy =
                format!("add advertise = \"HOST:{}\" with the address they reach", listen.uri.address.port());
            findings.mistake(at, &table.path("uri"), what, remedy);
        }
        if table.index == LISTENERS_MAX {
            findings.mistake(
                table.at,
                &table.path("uri"),
                "there are too many listeners",
                format!("keep {LISTENERS_MAX}"),
            );
        }
    }
}

fn shards(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    let Cores::List(cores) = &config.node.pin_cores else { return };
    let at = at(raw, "node", "pin_cores");
    let shards = config.node.shards;
    if shards != cores.len() {
        let what = match shards {
            0 => "a list of cores needs the number of shards".to_owned(),
            _ => format!("{} cores are listed for {shards} shards", cores.len()),
        };
        findings.mistake(at, "node.pin_cores", what, format!("set shards = {}", cores.len()));
    }
}

/// Who asks for a name server's address would have to ask a name server.
fn name_servers(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    for server in &config.node.name_servers {
        if server.host.parse::<core::net::IpAddr>().is_err() {
            let what = format!("{server} is a name; a name server needs an address");
            let at = at(raw, "node", "name_servers");
            findings.mistake(at, "node.name_servers", what, "write its address, as \"192.0.2.53:53\"");
        }
    }
}

fn durations(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    let mut order = |section: &str, low: (&str, Duration), high: (&str, Duration)| {
        if low.1 <= high.1 {
            return;
        }
        // The mistake is told where it was typed: at the lower key, unless only the upper one stands in the file.
        let (name, remedy) = if raw.get(section, low.0).is_some() || raw.get(section, high.0).is_none() {
            (low.0, format!("write at most \"{}\", or raise {}", show_duration(high.1), high.0))
        } else {
            (high.0, format!("write at least \"{}\", or lower {}", show_duration(low.1), low.0))
        };
        let what = format!(
            "{} (\"{}\") is longer than {} (\"{}\")",
            low.0,
            show_duration(low.1),
            high.0,
            show_duration(high.1)
        );
        findings.mistake(at(raw, section, name), &format!("{section}.{name}"), what, remedy);
    };
    let (t, r) = (&config.transaction, &config.registrar);
    order("transaction", ("t1", t.t1), ("t2", t.t2));
    order("registrar", ("expires_min", r.expires_min), ("expires_default", r.expires_default));
    order("registrar", ("expires_default", r.expires_default), ("expires_max", r.expires_max));
    timer_c(raw, config, findings);
}

/// Timer C is for phones that ring; one that says nothing at all is given up after 64·T1 (timer B), and not sooner.
fn timer_c(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    let (timer_c, silence) = (config.proxy.timer_c, 64 * config.transaction.t1);
    if timer_c > silence {
        return;
    }
    let what = format!(
        "timer_c (\"{}\") ends before 64 times t1 (\"{}\"), when a silent peer is given up",
        show_duration(timer_c),
        show_duration(silence)
    );
    let t1_max = u64::try_from(timer_c.as_millis().saturating_sub(1) / 64).unwrap_or(u64::MAX);
    let (section, key, remedy) = match raw.get("proxy", "timer_c") {
        Some(_) => {
            ("proxy", "timer_c", format!("write more than \"{}\", or lower t1", show_duration(silence)))
        }
        None => {
            let most = show_duration(Duration::from_millis(t1_max));
            ("transaction", "t1", format!("write at most \"{most}\", or raise timer_c"))
        }
    };
    findings.mistake(at(raw, section, key), &format!("{section}.{key}"), what, remedy);
}

fn secrets(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    for (key, file) in [("secret", "secret_file"), ("previous_secret", "previous_secret_file")] {
        if let (Some(_), Some((_, at))) = (raw.get("auth", key), raw.get("auth", file)) {
            let what = format!("the key is given by `{key}` already");
            findings.mistake(at, &format!("auth.{file}"), what, "remove one of the two");
        }
    }
    let auth = &config.auth;
    let is_same_file = auth.secret.is_none() && auth.previous_secret_file.as_ref() == Some(&auth.secret_file);
    let is_same_key = auth.secret.is_some() && auth.secret == auth.previous_secret;
    for (key, is_same) in [("previous_secret", is_same_key), ("previous_secret_file", is_same_file)] {
        if is_same {
            let what = "the previous key is the one in force";
            let remedy = "write the key before it, or remove this one";
            findings.mistake(at(raw, "auth", key), &format!("auth.{key}"), what, remedy);
        }
    }
}

/// What is open to the world that should not be.
fn exposure(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    if let Some(address) = config.admin.listen.get()
        && !address.ip().is_loopback()
    {
        findings.warning(
            at(raw, "admin", "listen"),
            "admin.listen",
            "metrics and health are served to other machines without a password",
            "keep port filters before it, or listen on 127.0.0.1",
        );
    }
    let reachable = config.listen.iter().any(|listen| !listen.uri.address.ip().is_loopback());
    if config.auth.challenge == Challenge::Never && reachable {
        findings.warning(
            at(raw, "auth", "challenge"),
            "auth.challenge",
            "anyone who reaches the listeners may call and register as anyone",
            r#"write "outside" and list trusted networks"#,
        );
    }
    if let Some((Value::List(networks), at)) = raw.get("auth", "trusted") {
        if config.auth.challenge == Challenge::Always && !networks.is_empty() {
            findings.warning(
                at,
                "auth.trusted",
                "has no effect: challenge is \"always\"",
                r#"write challenge = "outside""#,
            );
        }
        for network in &config.auth.trusted {
            if network.prefix == 0 {
                let what = format!("{network} trusts the whole world");
                findings.warning(at, "auth.trusted", what, "list the networks of your trunks and proxies");
            }
        }
    }
}

fn storage(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    if config.store.batch_max > config.store.queue_max {
        findings.mistake(
            at(raw, "store", if raw.get("store", "batch_max").is_some() { "batch_max" } else { "queue_max" }),
            "store.batch_max",
            format!(
                "a batch of {} cannot fill from a queue of {}",
                config.store.batch_max, config.store.queue_max
            ),
            format!("write at most {}", config.store.queue_max),
        );
    }
    if config.store.durability == Durability::Memory {
        for key in ["queue_max", "batch_max", "batch_wait"] {
            if let Some((_, at)) = raw.get("store", key) {
                findings.warning(
                    at,
                    &format!("store.{key}"),
                    "has no effect: durability is \"memory\"",
                    "remove it, or choose \"async\" or \"commit\"",
                );
            }
        }
    }
}

fn sizes(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    let limits = &config.limits;
    for (key, value) in
        [("start_line_bytes_max", limits.start_line_bytes_max), ("header_bytes_max", limits.header_bytes_max)]
    {
        if value > limits.message_bytes_max {
            let typed = if raw.get("limits", key).is_some() { key } else { "message_bytes_max" };
            findings.mistake(
                at(raw, "limits", typed),
                &format!("limits.{typed}"),
                format!("{key} is larger than message_bytes_max"),
                format!("lower {key}, or raise message_bytes_max"),
            );
        }
    }
}

/// Names, ids and hosts are each somebody's own, somebody takes new calls, and a probe ends before the next.
fn pools(raw: &RawConfig, config: &Config, findings: &mut Findings<'_>) {
    let (mut names, mut hosts, mut rest) = (Vec::new(), Vec::new(), None);
    for (table, pool) in raw.tables("pool").zip(&config.pools) {
        let place = |key: &str| table.get(key).map_or(table.at, |(_, at)| at);
        let mut mistake = |key: &str, what: String, remedy: String| {
            findings.mistake(place(key), &table.path(key), what, remedy);
        };
        if names.contains(&&pool.name) {
            mistake(
                "name",
                format!("there is a pool \"{}\" already", pool.name),
                "give it another name".into(),
            );
        }
        names.push(&pool.name);
        for host in &pool.hosts {
            if hosts.contains(&host) {
                mistake(
                    "hosts",
                    format!("\"{host}\" is for another pool already"),
                    "remove one of the two".into(),
                );
            }
            hosts.push(host);
        }
        if pool.hosts.is_empty()
            && let Some(first) = rest.replace(&pool.name)
        {
            let what = format!("pool \"{first}\" takes everything that is for nobody else already");
            mistake("hosts", what, "add hosts = [\"HOST\"] to one of the two".into());
        }
        let is_typed = table.values.contains_key("destinations") || table.values.contains_key("srv");
        if pool.destinations.is_empty() && pool.srv.is_empty() && is_typed {
            mistake("destinations", "the pool is empty".into(), "add a destination".into());
        }
        let mut ids: Vec<&str> = Vec::new();
        for destination in &pool.destinations {
            if ids.contains(&destination.id.as_str()) {
                let what = format!("two destinations have the id \"{}\"", destination.id);
                mistake("destinations", what, "give each its own".into());
            }
            ids.push(&destination.id);
        }
        let all_known = pool.srv.is_empty() && !pool.destinations.is_empty();
        if all_known && pool.destinations.iter().all(|one| one.weight == 0) {
            let what = "every destination has weight 0, so no call can go anywhere".into();
            mistake("destinations", what, "give one a weight".into());
        }
        if pool.destinations.len() > usize::from(config.balancer.destinations_max) {
            let what = format!("the pool has {} destinations", pool.destinations.len());
            mistake("destinations", what, "raise [balancer] destinations_max".into());
        }
        if (1..=100).contains(&pool.bound_percent) {
            let what = format!("a bound of {} % can't be kept", pool.bound_percent);
            mistake("bound_percent", what, "write more than 100, or 0 for none".into());
        }
        if !pool.probe_interval.is_zero() && pool.probe_timeout >= pool.probe_interval {
            let what = format!(
                "a probe would last longer than \"{}\", when the next is due",
                show_duration(pool.probe_interval)
            );
            mistake("probe_timeout", what, "write less than probe_interval".into());
        }
        letters(pool, &mut mistake);
        crate::sight::check(table, pool, findings);
    }
}

fn letters(pool: &Pool, mistake: &mut impl FnMut(&str, String, String)) {
    if pool.policy == PoolPolicy::UserLetter && pool.letters.is_empty() {
        let what = "user-letter needs to know whose letters are whose".into();
        mistake("policy", what, "add letters = [\"a-m=CLUSTER\", \"n-z=CLUSTER\"]".into());
    }
    for letters in &pool.letters {
        let Some((_, _, cluster)) = read_letters(letters) else {
            let remedy = "write FIRST-LAST=CLUSTER, as \"a-h=one\"".into();
            mistake("letters", format!("\"{letters}\" names no letters"), remedy);
            continue;
        };
        let belongs = |one: &crate::Destination| one.cluster.as_deref().unwrap_or(&one.id) == cluster;
        if pool.srv.is_empty() && !pool.destinations.iter().any(belongs) {
            let what = format!("no destination belongs to the cluster \"{cluster}\"");
            mistake("letters", what, "give one cluster = \"...\", or name a destination's id".into());
        }
    }
}

/// `a-h=one`: the first letter, the last, and whose they are.
#[must_use]
pub fn read_letters(text: &str) -> Option<(u8, u8, &str)> {
    let (letters, cluster) = text.split_once('=')?;
    let (&[from], &[to]) = letters
        .split_once('-')
        .map(|(from, to)| (from.as_bytes(), to.as_bytes()))
        .unwrap_or((letters.as_bytes(), letters.as_bytes()))
    else {
        return None;
    };
    let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
    (from.is_ascii_alphanumeric() && from <= to && to.is_ascii_alphanumeric() && !cluster.is_empty())
        .then_some((from, to, cluster))
}
