//! The pools of a running balancer: from the configuration to what the shards are told, generation by generation.
//!
//! A pool is known by its name and a destination by its id: both keep their figures over any change. What an operator
//! changes by `tandem ctl pool weight|add|remove` holds until the next reload, when the file rules again. What DNS
//! names stands beside what the file lists; an id that both have is the file's.

use anyhow::{Context as _, anyhow, bail};
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_balance as balance;
use tandem_base::Instant;
use tandem_config::{self as operator, Config, PoolPath};
use tandem_node::Listeners;
use tandem_sip::{Hop, ListenerId, Transport};

/// Every pool that was ever in force, since its calls may go on, and which are now.
pub(crate) struct Pools {
    shards: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Vec<balance::PoolConfig>,
    in_force: Vec<String>,
    general: Option<balance::Config>,
    /// What DNS named last, by pool.
    found: BTreeMap<String, Vec<balance::Destination>>,
}

/// What an operator asked of a destination.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// Another share of new calls.
    Weight(u16),
    /// A new destination.
    Add(balance::Destination),
    /// It gets no new calls; those it has go on.
    Remove,
}

impl Pools {
    pub(crate) fn new(shards: usize) -> Self {
        Self { shards, state: Mutex::default() }
    }

    /// Takes over a configuration's pools; `None` without any, now and before.
    ///
    /// # Errors
    ///
    /// A destination's name that has no address, or that no listener reaches; nothing is changed then.
    pub(crate) fn take(
        &self,
        config: &Config,
        listeners: &Listeners,
        now: Instant,
    ) -> anyhow::Result<Option<Arc<balance::Config>>> {
        let mut wanted = Vec::new();
        for pool in &config.pools {
            if pool.path == PoolPath::Transparent {
                tandem_net::may_send_as_others().with_context(|| {
                    format!(
                        "pool {:?}: path = \"transparent\" needs the capability CAP_NET_ADMIN; add \
                         AmbientCapabilities=CAP_NET_ADMIN to the unit, or write path = \"no-via\"",
                        pool.name
                    )
                })?;
            }
            let destinations = pool.destinations.iter().map(|one| destination(one, listeners));
            let destinations: anyhow::Result<Vec<_>> = destinations.collect();
            wanted.push((pool, destinations.with_context(|| format!("pool {:?}", pool.name))?));
        }
        let mut state = self.lock();
        if wanted.is_empty() && state.known.is_empty() {
            return Ok(None);
        }
        state.in_force.clear();
        state
            .found
            .retain(|name, _| config.pools.iter().any(|pool| pool.name == *name && !pool.srv.is_empty()));
        for (pool, mut destinations) in wanted {
            let (name, in_dns) = (&pool.name, !pool.srv.is_empty());
            if let Some(found) = state.found.get_mut(name) {
                found.retain(|one| !destinations.iter().any(|listed| listed.id == one.id));
                destinations.extend_from_slice(found);
            }
            let (policy, health) = (policy(pool), health(pool));
            let at = state.known.iter().position(|known| known.settings.name() == name);
            let (settings, board) = match at.and_then(|at| state.known.get(at)) {
                Some(old) => {
                    let settings = (*old.settings).clone().may_be_empty(in_dns);
                    (settings.next(policy, health, destinations, &old.board, now), Arc::clone(&old.board))
                }
                None => {
                    let board = balance::Board::new(config.balancer.destinations_max, self.shards);
                    let new =
                        if in_dns { balance::PoolSettings::discovered } else { balance::PoolSettings::new };
                    (new(name, policy, health, destinations), Arc::new(board))
                }
            };
            let settings = settings.map_err(|mistake| anyhow!("pool {name:?}: {mistake}"))?;
            let new = pool_config(pool, settings, board);
            match at.and_then(|at| state.known.get_mut(at)) {
                Some(old) => *old = new,
                None => state.known.push(new),
            }
            state.in_force.push(name.clone());
        }
        let general = balance::Config {
            entries_max: config.balancer.calls_max,
            copies_max: config.balancer.copies_max,
            times: balance::calls::Times {
                trying: config.balancer.trying_max,
                ringing: config.balancer.ringing_max,
                call_max: config.balancer.call_max,
                expired: config.balancer.expired_for,
            },
            limits: crate::serve::node_config::limits(&config.limits),
            ..balance::Config::new(Vec::new())
        };
        state.general = Some(general);
        Ok(state.config())
    }

    /// Changes one destination until the next reload. `name` is `ID`, or `POOL/ID` where there are several pools.
    pub(crate) fn edit(&self, name: &str, edit: &Edit, now: Instant) -> anyhow::Result<Arc<balance::Config>> {
        let mut state = self.lock();
        let (pool, id) = state.find_pool(name)?;
        let known = state.known.get_mut(pool).context("the pool is gone")?;
        let old = Arc::clone(&known.settings);
        let leaving = |slot| old.is_leaving(slot);
        let mut all: Vec<_> =
            old.iter().filter(|(slot, _)| !leaving(*slot)).map(|(_, one)| one.clone()).collect();
        let at = all.iter().position(|one| one.id.as_str() == id);
        match (edit, at) {
            (Edit::Add(_), Some(_)) => bail!("there is a destination {id} in pool {} already", old.name()),
            (Edit::Add(one), None) => all.push(one.clone()),
            (Edit::Weight(_) | Edit::Remove, None) => {
                bail!("pool {} has no destination {id}; see `tandem ctl pool list`", old.name())
            }
            (Edit::Weight(weight), Some(at)) => {
                if let Some(one) = all.get_mut(at) {
                    one.weight = *weight;
                }
            }
            (Edit::Remove, Some(at)) => {
                all.remove(at);
            }
        }
        let next = old.next(old.policy().clone(), old.health().clone(), all, &known.board, now);
        known.settings = Arc::new(next.map_err(|mistake| anyhow!("{mistake}"))?);
        state.config().context("there is no pool")
    }

    /// What DNS named last for a pool.
    pub(crate) fn found(&self, pool: &str) -> Vec<balance::Destination> {
        self.lock().found.get(pool).cloned().unwrap_or_default()
    }

    /// Takes over what DNS names for a pool; `None` if that is what it named before. What did not change there stays
    /// as it is, with what an operator did to it.
    ///
    /// # Errors
    ///
    /// There is no room for that many; what was named before stays.
    pub(crate) fn discovered(
        &self,
        pool: &operator::Pool,
        mut found: Vec<balance::Destination>,
        now: Instant,
    ) -> anyhow::Result<Option<Arc<balance::Config>>> {
        found.retain(|one| !pool.destinations.iter().any(|listed| listed.id == one.id.as_str()));
        let mut state = self.lock();
        let before = state.found.get(&pool.name).cloned().unwrap_or_default();
        let known = state.known.iter_mut().find(|known| known.settings.name() == pool.name);
        let Some(known) = known.filter(|_| before != found) else { return Ok(None) };
        let is_unchanged =
            |id: &balance::DestinationId| before.iter().any(|old| old.id == *id && found.contains(old));
        let old = Arc::clone(&known.settings);
        let stays = |(slot, one): &(balance::Slot, &balance::Destination)| {
            let was_found = before.iter().any(|old| old.id == one.id);
            !old.is_leaving(*slot) && (!was_found || is_unchanged(&one.id))
        };
        let mut all: Vec<_> = old.iter().filter(stays).map(|(_, one)| one.clone()).collect();
        for new in found.iter().filter(|new| !is_unchanged(&new.id)) {
            if !all.iter().any(|one| one.id == new.id) {
                all.push(new.clone());
            }
        }
        let next = old.next(old.policy().clone(), old.health().clone(), all, &known.board, now);
        known.settings = Arc::new(next.map_err(|mistake| anyhow!("{mistake}"))?);
        state.found.insert(pool.name.clone(), found);
        Ok(state.config())
    }

    /// Puts a destination into an operator's state, on all shards at once.
    pub(crate) fn set_admin(&self, name: &str, admin: balance::Admin, now: Instant) -> anyhow::Result<()> {
        let state = self.lock();
        let (pool, id) = state.find_pool(name)?;
        let known = state.known.get(pool).context("the pool is gone")?;
        let slot = known.settings.slot_of(id).with_context(|| {
            format!("pool {} has no destination {id}; see `tandem ctl pool list`", known.settings.name())
        })?;
        known.board.set_admin(slot, admin, now);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn config(&self) -> Option<Arc<balance::Config>> {
        let named = |name: &String| self.known.iter().find(|pool| pool.settings.name() == name).cloned();
        let pools = self.in_force.iter().filter_map(named).collect();
        Some(Arc::new(balance::Config { pools, ..self.general.clone()? }))
    }

    /// The pool and the id that `POOL/ID` or `ID` means.
    fn find_pool<'a>(&self, name: &'a str) -> anyhow::Result<(usize, &'a str)> {
        let place = |wanted: &str| {
            let is_in_force = self.in_force.iter().any(|name| name == wanted);
            self.known.iter().position(|pool| is_in_force && pool.settings.name() == wanted)
        };
        match (name.split_once('/'), &self.in_force[..]) {
            (Some((pool, id)), _) => {
                Ok((place(pool).with_context(|| format!("there is no pool {pool}"))?, id))
            }
            (None, [only]) => Ok((place(only).context("the pool is gone")?, name)),
            (None, []) => bail!("this node has no pool"),
            (None, many) => bail!("there are pools {}; write POOL/{name}", many.join(", ")),
        }
    }
}

fn pool_config(
    pool: &operator::Pool,
    settings: balance::PoolSettings,
    board: Arc<balance::Board>,
) -> balance::PoolConfig {
    balance::PoolConfig {
        hosts: pool.hosts.iter().map(|host| host.clone().into_bytes().into()).collect(),
        path: match pool.path {
            PoolPath::Via => balance::Path::Via,
            PoolPath::NoVia => balance::Path::NoVia,
            PoolPath::Transparent => balance::Path::Transparent,
            PoolPath::RecordRoute => balance::Path::RecordRoute,
            PoolPath::Redirect => balance::Path::Redirect,
        },
        failover: balance::Failover {
            codes: pool.failover_codes.clone(),
            timeout: pool.failover_timeout,
            tries_max: pool.tries_max,
            budget_percent: pool.retry_percent,
        },
        ..balance::PoolConfig::new(Arc::new(settings), board)
    }
}

fn policy(pool: &operator::Pool) -> balance::PolicySettings {
    let letters = pool.letters.iter().filter_map(|text| operator::read_letters(text));
    balance::PolicySettings {
        weights: balance::MethodWeights::invite(pool.invite_weight.saturating_mul(10)),
        samples: pool.samples,
        bound_percent: pool.bound_percent,
        letters: letters
            .map(|(from, to, cluster)| balance::Letters { from, to, cluster: cluster.into() })
            .collect(),
        ..balance::PolicySettings::new(pool.policy.name())
    }
}

fn health(pool: &operator::Pool) -> balance::HealthSettings {
    balance::HealthSettings {
        interval: (!pool.probe_interval.is_zero()).then_some(pool.probe_interval),
        timeout: pool.probe_timeout,
        rise: pool.rise,
        fall: pool.fall,
        passive_fall: pool.passive_fall,
        hold: pool.hold,
        hold_max: pool.hold_max,
        slow_start: pool.slow_start,
    }
}

/// A destination as the balancer knows it: its name looked up, and the listener that reaches it.
pub(crate) fn destination(
    one: &operator::Destination,
    listeners: &Listeners,
) -> anyhow::Result<balance::Destination> {
    let operator::Destination { id, address, capacity, weight, priority, cluster } = one;
    let told = || format!("destination {id:?}: {address}");
    let found: Vec<SocketAddr> = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .with_context(|| format!("{} has no address; write an address, or mend the name", told()))?
        .collect();
    let reached =
        found.iter().find_map(|&peer| Some((peer, listeners.towards(Transport::Udp, peer, ListenerId(0))?)));
    let (peer, listener) = reached.with_context(|| {
        format!("{} is reached by no listener of its address family; add one under [[listen]]", told())
    })?;
    Ok(balance::Destination {
        capacity: *capacity,
        weight: *weight,
        tier: *priority,
        cluster: cluster.as_deref().map(Into::into),
        ..balance::Destination::new(id, Hop::udp(listener, peer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_config::PoolPolicy;

    fn take(pools: &Pools, text: &str) -> anyhow::Result<Option<Arc<balance::Config>>> {
        let (config, _) = Config::check(text, "f").expect("a sound file");
        let listen = "127.0.0.1:5060".parse().expect("an address");
        let listener = tandem_node::Listener::new(Transport::Udp, listen, None).expect("a listener");
        pools.take(&config, &Listeners::new(vec![listener]), Instant::from_secs(1))
    }

    fn ids(config: &balance::Config) -> Vec<String> {
        let settings = &config.pools.first().expect("a pool").settings;
        let stays = settings.iter().filter(|(slot, _)| !settings.is_leaving(*slot));
        stays.map(|(_, one)| format!("{}*{}", one.id, one.weight)).collect()
    }

    const TWO: &str = "[[pool]]\ndestinations = [{ id = \"a\", address = \"127.0.0.1:5071\" }, \
                       { id = \"b\", address = \"127.0.0.1:5072\" }]\n";

    /// The checker's words are the balancer's policies, and its defaults the balancer's.
    #[test]
    fn the_documented_policies_and_defaults_are_the_balancers() {
        let known: Vec<&str> = balance::POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(PoolPolicy::names().collect::<Vec<_>>(), known);
        let config = take(&Pools::new(1), TWO).expect("sound").expect("a pool");
        let pool = config.pools.first().expect("a pool");
        assert_eq!(pool.failover, balance::Failover::default());
        assert_eq!(pool.settings.health(), &balance::HealthSettings::default());
        assert_eq!(pool.settings.policy(), &balance::PolicySettings::new("tlwl"));
        assert_eq!(config.times, balance::calls::Times::default());
    }

    #[test]
    fn a_name_without_an_address_is_told_with_its_pool_and_destination() {
        let text =
            "[[pool]]\nname = \"media\"\ndestinations = [{ id = \"a\", address = \"nowhere.invalid:5060\" }]";
        let error = format!("{:#}", take(&Pools::new(1), text).expect_err("no such name"));
        assert!(
            error.contains("\"media\"") && error.contains("\"a\": nowhere.invalid:5060 has no address"),
            "{error}"
        );
        let text = "[[pool]]\ndestinations = [{ id = \"a\", address = \"[2001:db8::1]:5060\" }]";
        let error = format!("{:#}", take(&Pools::new(1), text).expect_err("no listener"));
        assert!(error.contains("[[listen]]"), "{error}");
    }

    #[test]
    fn what_dns_names_stands_beside_the_file_and_an_operators_edits_of_it_hold_while_it_does_not_change() {
        let text = TWO.replace("[[pool]]", "[[pool]]\nsrv = [\"_sip._udp.example.com\"]");
        let (config, _) = Config::check(&text, "f").expect("a sound file");
        let pool = config.pools.first().expect("a pool");
        let pools = Pools::new(1);
        take(&pools, &text).expect("sound").expect("a pool");
        let now = Instant::from_secs(2);
        let one = |id: &str, weight, port| {
            let peer = SocketAddr::from(([127, 0, 0, 1], port));
            balance::Destination { weight, ..balance::Destination::new(id, Hop::udp(ListenerId(0), peer)) }
        };
        let says = |found: Vec<balance::Destination>| {
            pools.discovered(pool, found, now).expect("there is room").map(|config| ids(&config))
        };
        // An id that the file has is the file's.
        let found = || vec![one("a", 9, 1), one("x-1", 60, 1), one("y-2", 20, 2)];
        assert_eq!(says(found()).expect("it is new"), ["a*1", "b*1", "x-1*60", "y-2*20"]);
        assert_eq!(says(found()), None);
        pools.edit("x-1", &Edit::Weight(7), now).expect("x-1 is there");
        pools.edit("b", &Edit::Remove, now).expect("b is there");
        let fewer = vec![one("x-1", 60, 1), one("z-3", 1, 3)];
        assert_eq!(says(fewer.clone()).expect("y went, z came"), ["a*1", "x-1*7", "z-3*1"]);
        // The file rules again, with what DNS said last; a pool without names forgets it.
        let again = take(&pools, &text).expect("sound").expect("a pool");
        assert_eq!(ids(&again), ["a*1", "x-1*60", "z-3*1", "b*1"]);
        assert_eq!(ids(&take(&pools, TWO).expect("sound").expect("a pool")), ["a*1", "b*1"]);
    }

    #[test]
    fn a_pool_that_stands_in_dns_alone_is_empty_until_dns_answers() {
        let text = "[[pool]]\nsrv = [\"_sip._udp.example.com\"]\n";
        let first = take(&Pools::new(1), text).expect("sound").expect("a pool");
        assert_eq!(ids(&first), Vec::<String>::new());
        // A pool that had its servers in the file may lose them to DNS, and back.
        let pools = Pools::new(1);
        for (text, expected) in [(TWO, vec!["a*1", "b*1"]), (text, vec![]), (TWO, vec!["a*1", "b*1"])] {
            assert_eq!(ids(&take(&pools, text).expect("sound").expect("a pool")), expected);
        }
    }

    #[test]
    fn an_operators_edit_holds_until_the_file_is_read_again_and_slots_stay() {
        let pools = Pools::new(1);
        let first = take(&pools, TWO).expect("sound").expect("a pool");
        let now = Instant::from_secs(2);
        let slot =
            |config: &balance::Config| config.pools.first().and_then(|pool| pool.settings.slot_of("b"));
        assert_eq!(ids(&pools.edit("b", &Edit::Weight(7), now).expect("b is there")), ["a*1", "b*7"]);
        let config = pools.edit("main/a", &Edit::Remove, now).expect("a is there");
        assert_eq!((ids(&config), slot(&config)), (vec!["b*7".to_owned()], slot(&first)));
        assert!(pools.edit("b", &Edit::Remove, now).is_err(), "a pool without destinations");
        assert!(
            pools.edit("c", &Edit::Weight(1), now).is_err() && pools.edit("x/b", &Edit::Remove, now).is_err()
        );
        let again = take(&pools, TWO).expect("sound").expect("a pool");
        assert_eq!((ids(&again), slot(&again)), (vec!["a*1".to_owned(), "b*1".to_owned()], slot(&first)));
        pools.set_admin("b", balance::Admin::Draining, now).expect("b is there");
        let board = &again.pools.first().expect("a pool").board;
        assert_eq!(board.standing(slot(&again).expect("b")).state(), balance::State::Draining);
    }
}
