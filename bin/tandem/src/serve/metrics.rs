//! The metrics of a running node: what each shard's machine, loop and sockets count, the tables and the store.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use tandem_node::{Node, Shared};
use tandem_shard::{Counters, Snapshot};
use tandem_store::WriterStats;
use tandem_telemetry::{Counter, Exposition, Gauge, Registry};

/// What each number of [`Node::report`] means.
const HELP: &[(&str, &str)] = &[
    ("tandem_sip_requests_received_total", "Requests received, by method."),
    ("tandem_sip_responses_received_total", "Responses received, by class."),
    ("tandem_sip_answers_total", "Answers of our own, by class."),
    ("tandem_sip_absorbed_total", "Messages that need no answer, by reason."),
    ("tandem_sip_refused_total", "Requests refused, by reason."),
    ("tandem_auth_total", "Credentials asked for and checked, by outcome."),
    ("tandem_proxy_forwarded_total", "Requests forwarded, each branch of a fork counted, by mode."),
    ("tandem_proxy_responses_forwarded_total", "Responses forwarded upstream."),
    ("tandem_proxy_branches_ended_total", "Branches that ended without a final response, by reason."),
    ("tandem_registrar_registered_total", "Registrations granted, removals and fetches included."),
];

fn help(name: &str) -> &'static str {
    HELP.iter().find(|(known, _)| *known == name).map_or("Counted by the node.", |(_, help)| help)
}

/// The cells that one shard's node is copied to, a few times a second, by the shard.
pub(crate) struct NodeCells {
    counters: Vec<Arc<Counter>>,
    load: Load,
}

/// What one shard has in progress.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) transactions: Arc<Gauge>,
    pub(crate) in_progress: Arc<Gauge>,
}

impl NodeCells {
    /// Registers everything that `node` reports.
    pub(crate) fn new(registry: &Registry, node: &Node) -> Self {
        let mut counters = Vec::new();
        node.report(&mut |name, labels, _| counters.push(registry.counter(name, help(name), labels)));
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let load = Load {
            transactions: gauge(
                "tandem_transactions",
                "Transactions kept, finished ones that absorb included.",
            ),
            in_progress: gauge(
                "tandem_in_progress",
                "Forwarded requests and registrations not yet answered.",
            ),
        };
        Self { counters, load }
    }

    pub(crate) fn load(&self) -> Load {
        self.load.clone()
    }

    /// Copies what the node counted; it reports in the same order each time.
    pub(crate) fn publish(&self, node: &Node) {
        let mut cells = self.counters.iter();
        node.report(&mut |_, _, value| {
            if let Some(cell) = cells.next() {
                cell.set(value);
            }
        });
        self.load.transactions.set(node.transactions().len().sum());
        self.load.in_progress.set(u64::try_from(node.in_progress()).unwrap_or(u64::MAX));
    }
}

/// Exposes what the shards' loops and sockets count.
pub(crate) fn expose_shards(registry: &Registry, counters: Counters) {
    registry.collect(move |out| {
        for shard in 0..counters.shards() {
            if let Some(snapshot) = counters.snapshot(shard) {
                expose_shard(out, &shard.to_string(), &snapshot);
            }
        }
    });
}

fn expose_shard(out: &mut Exposition, shard: &str, snapshot: &Snapshot) {
    let shard = ("shard", shard);
    let mut count = |name, help, value| out.counter(name, help, &[shard], value);
    count("tandem_shard_turns_total", "Turns of the loop.", snapshot.turns);
    count(
        "tandem_shard_handed_over_total",
        "Messages given to the shard that owns them.",
        snapshot.handed_over,
    );
    count("tandem_net_received_total", "Datagrams received.", snapshot.received);
    count("tandem_net_received_bytes_total", "Octets of those.", snapshot.received_bytes);
    count("tandem_net_sent_total", "Datagrams sent.", snapshot.sent);
    count("tandem_net_sent_bytes_total", "Octets of those.", snapshot.sent_bytes);
    count("tandem_net_receive_calls_total", "System calls made to receive.", snapshot.receive_calls);
    count("tandem_net_send_calls_total", "System calls made to send.", snapshot.send_calls);
    count("tandem_net_icmp_errors_total", "ICMP errors about what was sent.", snapshot.icmp_errors);
    count("tandem_net_send_errors_total", "Datagrams that the kernel refused to send.", snapshot.send_errors);
    for (reason, value) in [
        ("overlong", snapshot.dropped_overlong),
        ("receive_buffer", snapshot.dropped_receive_buffer),
        ("send_buffer", snapshot.dropped_send_buffer),
        ("hand_over_full", snapshot.dropped_hand_over_full),
        ("hand_over_gone", snapshot.dropped_hand_over_gone),
    ] {
        out.counter(
            "tandem_net_dropped_total",
            "Datagrams dropped, by reason.",
            &[shard, ("reason", reason)],
            value,
        );
    }
    for (queue, value) in [("commands", snapshot.queue_commands), ("taken_over", snapshot.queue_taken_over)] {
        out.gauge(
            "tandem_shard_queue",
            "Entries that wait for the shard, by queue.",
            &[shard, ("queue", queue)],
            value,
        );
    }
    let help = "Processor time of the shard's thread.";
    out.counter_seconds("tandem_shard_processor_seconds_total", help, &[shard], snapshot.processor_time);
}

/// Exposes the sizes of what the shards share.
pub(crate) fn expose_shared(registry: &Registry, shared: Arc<Shared>) {
    registry.collect(move |out| {
        let mut gauge =
            |name, help, size: usize| out.gauge(name, help, &[], u64::try_from(size).unwrap_or(u64::MAX));
        gauge("tandem_users", "Users who may register and call.", shared.users.len());
        gauge("tandem_registrar_aors", "Users with a binding.", shared.locations.aors());
        gauge(
            "tandem_registrar_bindings",
            "Bindings, expired ones not yet swept included.",
            shared.locations.bindings(),
        );
    });
}

/// Exposes what the store's writer counts.
pub(crate) fn expose_store(registry: &Registry, stats: Arc<WriterStats>) {
    registry.collect(move |out| {
        let mut count = |name, help, value| out.counter(name, help, &[], value);
        count("tandem_store_batches_total", "Transactions committed.", stats.batches.load(Relaxed));
        count("tandem_store_rows_total", "Rows written.", stats.rows.load(Relaxed));
        count("tandem_store_failures_total", "Transactions that failed.", stats.failures.load(Relaxed));
        count(
            "tandem_store_tickets_failed_total",
            "Registrations told that the disk failed.",
            stats.tickets_failed.load(Relaxed),
        );
        count(
            "tandem_store_resyncs_total",
            "Comparisons of the whole file with memory.",
            stats.resyncs.load(Relaxed),
        );
        let mut gauge = |name, help, value| out.gauge(name, help, &[], value);
        gauge(
            "tandem_store_retained",
            "Users whose bindings wait for another attempt.",
            stats.retained.load(Relaxed),
        );
        gauge("tandem_store_failing", "1 while writing fails.", u64::from(stats.failing.load(Relaxed)));
    });
}
