//! What a running balancer shows: its metrics, and the answers to `tandem ctl pool`.

use crate::control::protocol::{DestinationEntry, PoolEntry, WeightEntry, WhyEntry};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use tandem_balance::calls::Ending;
use tandem_balance::{
    Balancer, Counters, DestinationView, OCCUPANCY_BOUNDS, Occupancy, State, TIME_BOUNDS_NS, Timing, Weights,
};
use tandem_base::Instant;
use tandem_node::Node;
use tandem_telemetry::{Exposition, Registry};

/// What one shard's balancer says of itself, a few times a second.
#[derive(Clone, Default)]
struct Snapshot {
    counters: Counters,
    endings: [u64; Ending::ALL.len()],
    calls: usize,
    entries: usize,
    expired: usize,
    copies: usize,
    audits: u64,
    audit_difference: u64,
    underflows: u64,
    decision: Timing,
    forward: Timing,
    pools: Vec<PoolSnapshot>,
}

#[derive(Clone)]
struct PoolSnapshot {
    name: String,
    policy: String,
    /// Of the first shard alone, which sees all.
    views: Vec<DestinationView>,
    occupancy: Vec<(String, Occupancy)>,
    /// Each shard learns its own.
    weights: Option<Weights>,
}

/// Where one shard leaves it; the lock is taken for as long as a copy takes.
#[derive(Clone, Default)]
pub(crate) struct BalanceCell(Arc<Mutex<Option<Snapshot>>>);

impl BalanceCell {
    /// Copies what the shard's balancer has.
    pub(crate) fn publish(&self, now: Instant, first: bool, node: &Node) {
        let Some(balancer) = node.balancer() else { return };
        let snapshot = Snapshot::of(now, first, balancer);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    fn read(&self) -> Option<Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Snapshot {
    fn of(now: Instant, first: bool, balancer: &Balancer) -> Self {
        let calls = balancer.calls();
        let (decision, forward) = balancer.timings();
        let pools = balancer.pools().map(|pool| {
            let settings = pool.settings();
            let id = |slot| settings.destination(slot).map_or_else(String::new, |one| one.id.to_string());
            PoolSnapshot {
                name: settings.name().to_owned(),
                policy: settings.policy().name.clone(),
                views: if first { pool.view(now).collect() } else { Vec::new() },
                occupancy: balancer.occupancy(settings.name()).map(|(slot, one)| (id(slot), *one)).collect(),
                weights: pool.weights(),
            }
        });
        Self {
            counters: *balancer.counters(),
            endings: *calls.endings(),
            calls: calls.calls(),
            entries: calls.len(),
            expired: calls.expired(),
            copies: balancer.copies(),
            audits: calls.audits(),
            audit_difference: calls.audit_difference(),
            underflows: balancer.pools().map(tandem_balance::Pool::underflows).sum(),
            decision: *decision,
            forward: *forward,
            pools: pools.collect(),
        }
    }
}

/// Exposes what the shards' balancers say.
pub(crate) fn expose(registry: &Registry, cells: Vec<BalanceCell>) {
    registry.collect(move |out| {
        for (shard, cell) in cells.iter().enumerate() {
            let Some(snapshot) = cell.read() else { continue };
            expose_one(out, &snapshot);
            snapshot.pools.iter().for_each(|pool| expose_weights(out, &shard.to_string(), pool));
        }
    });
}

fn expose_one(out: &mut Exposition, snapshot: &Snapshot) {
    let counters = &snapshot.counters;
    for (outcome, value) in [
        ("assigned", counters.assigned),
        ("followed", counters.followed),
        ("followed_by_token", counters.followed_by_token),
        ("followed_by_hash", counters.followed_by_hash),
        ("outward", counters.outward),
        ("redirected", counters.redirected),
        ("no_destination", counters.no_destination),
        ("table_full", counters.table_full),
        ("draining", counters.draining),
        ("token_forged", counters.tokens_forged),
        ("unknown_call", counters.unknown),
        ("refused", counters.refused),
        ("probe", counters.probes_answered),
    ] {
        let help = "Requests at the balancer, by what became of them.";
        out.counter("tandem_balancer_requests_total", help, &[("outcome", outcome)], value);
    }
    for (outcome, value) in [
        ("forwarded", counters.responses),
        ("stray", counters.responses_stray),
        ("late", counters.responses_late),
    ] {
        let help = "Responses at the balancer, by what became of them.";
        out.counter("tandem_balancer_responses_total", help, &[("outcome", outcome)], value);
    }
    for (outcome, value) in [("done", counters.failovers), ("refused", counters.failovers_refused)] {
        let help = "First requests sent on to another destination, or not for want of budget.";
        out.counter("tandem_balancer_failovers_total", help, &[("outcome", outcome)], value);
    }
    for (ending, value) in Ending::ALL.iter().zip(snapshot.endings) {
        let help = "Calls that ended, by how.";
        out.counter("tandem_balancer_calls_ended_total", help, &[("reason", ending.as_str())], value);
    }
    let learned = "Calls that a response made known to an empty table.";
    out.counter("tandem_balancer_calls_learned_total", learned, &[], counters.learned);
    out.counter(
        "tandem_balancer_audits_total",
        "Passes of the audit over the call table.",
        &[],
        snapshot.audits,
    );
    let size = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    for (name, help, value) in [
        ("tandem_balancer_calls", "Calls in progress.", size(snapshot.calls)),
        ("tandem_balancer_entries", "Entries of the call table.", size(snapshot.entries)),
        ("tandem_balancer_entries_expired", "Entries kept for strays.", size(snapshot.expired)),
        ("tandem_balancer_copies", "First requests that may still go elsewhere.", size(snapshot.copies)),
        (
            "tandem_balancer_audit_difference",
            "By how much booked load and call table differed at the last audit; anything but 0 is a defect.",
            snapshot.audit_difference + snapshot.underflows,
        ),
    ] {
        out.gauge(name, help, &[], value);
    }
    let bounds: Vec<Duration> = TIME_BOUNDS_NS.iter().map(|&nanos| Duration::from_nanos(nanos)).collect();
    for (name, help, timing) in [
        ("tandem_balancer_decision_seconds", "Time to choose a destination, of a sample.", snapshot.decision),
        (
            "tandem_balancer_forward_seconds",
            "Time to forward a first request, of a sample.",
            snapshot.forward,
        ),
    ] {
        out.histogram(name, help, &[], &bounds, &timing.buckets, timing.sum);
    }
    snapshot.pools.iter().for_each(|pool| expose_pool(out, pool));
}

fn expose_pool(out: &mut Exposition, pool: &PoolSnapshot) {
    let name = ("pool", pool.name.as_str());
    // Occupancy has no unit; told as seconds, 1 s is one request.
    let bounds: Vec<Duration> = OCCUPANCY_BOUNDS.iter().map(|&n| Duration::from_secs(u64::from(n))).collect();
    for (id, occupancy) in &pool.occupancy {
        let labels = [name, ("destination", id.as_str()), ("policy", pool.policy.as_str())];
        let help = "Unanswered requests that a new one found ahead of it on its destination.";
        let sum = Duration::from_secs(occupancy.sum);
        out.histogram("tandem_pool_occupancy", help, &labels, &bounds, &occupancy.buckets, sum);
    }
    for view in &pool.views {
        let labels = [name, ("destination", view.id.as_str())];
        for state in [State::Active, State::Draining, State::Disabled, State::Probing, State::Down] {
            let help = "1 for the state that the destination is in.";
            let labels = [name, ("destination", view.id.as_str()), ("state", state.as_str())];
            out.gauge("tandem_pool_destination_state", help, &labels, u64::from(view.state == state));
        }
        for (metric, help, value) in [
            ("tandem_pool_calls", "Calls on the destination.", u64::from(view.load.calls)),
            ("tandem_pool_requests", "Requests it has not answered.", u64::from(view.load.transactions)),
            ("tandem_pool_work_thousandths", "What they weigh together.", view.load.work),
            ("tandem_pool_weight", "Its weight.", u64::from(view.weight)),
            (
                "tandem_pool_share_thousandths",
                "Part of its full share: less in slow start.",
                u64::from(view.share),
            ),
            (
                "tandem_pool_held",
                "1 while it gets no new calls though it is up.",
                u64::from(view.held.is_some()),
            ),
        ] {
            out.gauge(metric, help, &labels, value);
        }
        let help = "Changes of its health.";
        out.counter("tandem_pool_health_changes_total", help, &labels, u64::from(view.changes));
    }
}

fn expose_weights(out: &mut Exposition, shard: &str, pool: &PoolSnapshot) {
    let Some(weights) = &pool.weights else { return };
    let (name, shard) = (("pool", pool.name.as_str()), ("shard", shard));
    for one in &weights.each {
        let labels = [name, ("method", one.name()), shard];
        let help = "What an unanswered request weighs, by method.";
        out.gauge("tandem_pool_method_weight_thousandths", help, &labels, u64::from(one.work.0));
        let help = "1 where that was learned from response times, 0 where it was given.";
        out.gauge("tandem_pool_method_weight_learned", help, &labels, u64::from(one.learned));
    }
    let Some((least, most)) = weights.bounds else { return };
    for (bound, work) in [("least", least), ("most", most)] {
        let help = "Between which bounds a weight can be learned.";
        let labels = [name, ("bound", bound), shard];
        out.gauge("tandem_pool_method_weight_bound_thousandths", help, &labels, u64::from(work.0));
    }
}

/// The pools of a node as an operator sees them.
pub(crate) fn list(node: &Node, now: Instant, wanted: Option<&str>) -> Vec<PoolEntry> {
    let Some(balancer) = node.balancer() else { return Vec::new() };
    let pools = balancer.pools().filter(|pool| wanted.is_none_or(|name| name == pool.settings().name()));
    pools
        .map(|pool| PoolEntry {
            pool: pool.settings().name().to_owned(),
            policy: pool.settings().policy().name.to_owned(),
            generation: pool.settings().generation(),
            dns: None,
            weights: pool.weights().map_or_else(Vec::new, |weights| weight_entries(&weights)),
            weight_bounds_thousandths: pool
                .weights()
                .and_then(|weights| weights.bounds)
                .map(|(least, most)| (least.0, most.0)),
            destinations: pool.view(now).map(|view| entry(pool, &view, now)).collect(),
        })
        .collect()
}

fn weight_entries(weights: &Weights) -> Vec<WeightEntry> {
    let entry = |one: &tandem_balance::MethodWeight| WeightEntry {
        method: one.name().to_owned(),
        least_thousandths: one.work.0,
        most_thousandths: one.work.0,
        learned_by_shards: usize::from(one.learned),
    };
    weights.each.iter().map(entry).collect()
}

/// The pools of all shards as one: each shard sees every load, but learns weights by itself.
pub(crate) fn merge(shards: Vec<Vec<PoolEntry>>) -> Vec<PoolEntry> {
    let mut shards = shards.into_iter();
    let mut merged = shards.next().unwrap_or_default();
    for other in shards.flatten() {
        let Some(pool) = merged.iter_mut().find(|pool| pool.pool == other.pool) else { continue };
        let rest = |weights: &[WeightEntry]| weights.iter().find(|one| one.method == "others").cloned();
        let (own_rest, other_rest) = (rest(&pool.weights), rest(&other.weights));
        // A method that weighs as the rest has no line of its own.
        for one in &other.weights {
            if !pool.weights.iter().any(|known| known.method == one.method)
                && let Some(rest) = &own_rest
            {
                let at = pool.weights.len().saturating_sub(1);
                pool.weights.insert(at, WeightEntry { method: one.method.clone(), ..rest.clone() });
            }
        }
        for known in &mut pool.weights {
            let one = other.weights.iter().find(|one| one.method == known.method).or(other_rest.as_ref());
            let Some(one) = one else { continue };
            known.least_thousandths = known.least_thousandths.min(one.least_thousandths);
            known.most_thousandths = known.most_thousandths.max(one.most_thousandths);
            known.learned_by_shards += one.learned_by_shards;
        }
    }
    merged
}

fn entry(pool: &tandem_balance::Pool, view: &DestinationView, now: Instant) -> DestinationEntry {
    let hop = pool.settings().destination(view.slot).map(|one| one.hop);
    DestinationEntry {
        id: view.id.to_string(),
        address: hop.map_or_else(String::new, |hop| hop.peer.to_string()),
        state: view.state.as_str().to_owned(),
        reason: view.reason.as_str().to_owned(),
        since_secs: (now - view.since).as_secs(),
        held_secs: view.held.map(|held| held.as_secs() + 1),
        calls: view.load.calls,
        requests: view.load.transactions,
        work_thousandths: view.load.work,
        figure: view.figure,
        weight: view.weight,
        share_thousandths: view.share,
        capacity: view.capacity,
        priority: view.tier,
        leaving: view.leaving,
    }
}

/// Why the call of this Call-ID is where it is, if this shard knows.
pub(crate) fn why(node: &Node, now: Instant, call_id: &[u8]) -> Option<WhyEntry> {
    let balancer = node.balancer()?;
    let picked =
        balancer.pools().find_map(|pool| Some((pool.settings().name(), pool.why(call_id)?.to_string())));
    let whereabouts = balancer.whereabouts(call_id);
    let (pool, explanation) = match (picked, whereabouts) {
        (Some((pool, words)), _) => (pool, Some(words)),
        (None, Some((pool, ..))) => (pool, None),
        (None, None) => return None,
    };
    Some(WhyEntry {
        pool: pool.to_owned(),
        destination: whereabouts.map(|(_, one, _)| one.id.to_string()),
        address: whereabouts.map(|(_, one, _)| one.hop.peer.to_string()),
        state: whereabouts.map(|(.., call)| call.state().as_str().to_owned()),
        cause: whereabouts.map(|(.., call)| call.cause().as_str().to_owned()),
        ahead: whereabouts.map(|(.., call)| call.ahead()),
        since_secs: whereabouts.map(|(.., call)| now.as_secs().saturating_sub(u64::from(call.since_secs()))),
        explanation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(weights: &[(&str, u32, usize)]) -> PoolEntry {
        let entry = |&(method, thousandths, learned_by_shards): &(&str, u32, usize)| WeightEntry {
            method: method.to_owned(),
            least_thousandths: thousandths,
            most_thousandths: thousandths,
            learned_by_shards,
        };
        PoolEntry {
            pool: "main".to_owned(),
            policy: "tlwl-learned".to_owned(),
            generation: 1,
            dns: None,
            weights: weights.iter().map(entry).collect(),
            weight_bounds_thousandths: Some((250, 4000)),
            destinations: Vec::new(),
        }
    }

    #[test]
    fn what_each_shard_learned_is_shown_as_a_range() {
        let first = pool(&[("INVITE", 2100, 1), ("BYE", 1000, 1), ("others", 1000, 0)]);
        let second = pool(&[("INVITE", 2400, 1), ("BYE", 1000, 0), ("INFO", 700, 1), ("others", 1000, 0)]);
        let merged = merge(vec![vec![first], vec![second]]);
        let weights: Vec<_> = merged[0]
            .weights
            .iter()
            .map(|one| {
                (one.method.as_str(), one.least_thousandths, one.most_thousandths, one.learned_by_shards)
            })
            .collect();
        let wanted = [
            ("INVITE", 2100, 2400, 2),
            ("BYE", 1000, 1000, 1),
            ("INFO", 700, 1000, 1),
            ("others", 1000, 1000, 0),
        ];
        assert_eq!(weights, wanted);
    }
}
