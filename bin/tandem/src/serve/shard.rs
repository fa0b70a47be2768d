//! What a shard drives: the node, its way to the store's writer, and its counters.
//!
//! The store is told from the shard's own thread, by a bounded queue that never makes it wait; only host names go to
//! the control thread.

use crate::serve::balance::BalanceCell;
use crate::serve::metrics::NodeCells;
use core::time::Duration;
use std::collections::VecDeque;
use tandem_base::Instant;
use tandem_net::TransportError;
use tandem_node::{Command, Event, Node};
use tandem_shard::Machine;
use tandem_sip::{Hop, Outbox, Transport};
use tandem_store::WriterHandle;

/// How long counters may lag behind.
const PUBLISH_EVERY: Duration = Duration::from_millis(200);
/// How long those may that the first shard tells of others.
const PUBLISH_OTHERS_EVERY: Duration = Duration::from_secs(1);

/// Names one registration that waits for the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) shard: usize,
    pub(crate) ticket: u64,
}

/// Where changed bindings go.
pub(crate) enum Keeper {
    /// Nowhere.
    Memory,
    /// To the writer, without waiting for it.
    Async(WriterHandle<Ticket>),
    /// To the writer, which answers when the disk has them.
    Commit(WriterHandle<Ticket>),
}

/// A host name whose addresses the proxy needs.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) ticket: u64,
    pub(crate) host: Box<[u8]>,
    pub(crate) port: Option<u16>,
    pub(crate) transport: Transport,
}

/// What a shard asks of the control thread.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// The addresses of a name.
    Name(Question),
    /// That the shard which probes is told of an answer.
    Probed(tandem_balance::ProbeAnswer),
}

/// One shard's machine.
pub(crate) struct Shard {
    node: Node,
    number: usize,
    keeper: Keeper,
    questions: VecDeque<Asked>,
    cells: NodeCells,
    pools: BalanceCell,
    /// When the counters are published next; `None` while nothing was counted.
    publish_at: Option<Instant>,
}

impl Shard {
    pub(crate) fn new(
        node: Node,
        number: usize,
        keeper: Keeper,
        cells: NodeCells,
        pools: BalanceCell,
    ) -> Self {
        Self { node, number, keeper, questions: VecDeque::new(), cells, pools, publish_at: None }
    }

    /// Something happened, so something may have been counted.
    fn touch(&mut self, now: Instant) {
        let soon = now + PUBLISH_EVERY;
        self.publish_at = Some(self.publish_at.map_or(soon, |due| due.min(soon)));
    }

    fn keep(&mut self, now: Instant, ticket: u64, aor: &[u8], out: &mut Outbox) {
        let ok = match &self.keeper {
            Keeper::Memory => true,
            Keeper::Async(writer) => {
                writer.note(aor);
                true
            }
            Keeper::Commit(writer) => match writer.commit(aor, Ticket { shard: self.number, ticket }) {
                Ok(()) => return,
                Err(_full) => false,
            },
        };
        self.node.handle_command(now, &Command::Persisted { tickets: Box::new([ticket]), ok }, out);
    }
}

impl Machine for Shard {
    type Command = Command;
    type Event = Asked;

    fn handle_input(&mut self, now: Instant, hop: Hop, message: &[u8], out: &mut Outbox) {
        self.touch(now);
        self.node.handle_input(now, hop, message, out);
    }

    fn handle_transport_error(&mut self, now: Instant, error: TransportError<'_>, out: &mut Outbox) {
        self.touch(now);
        self.node.handle_command(now, &Command::Undeliverable { message: error.message.into() }, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.node.poll_timeout().is_some_and(|due| due <= now) {
            self.touch(now);
            self.node.handle_timeout(now, out);
        }
        while let Some(event) = self.node.poll_event() {
            match event {
                Event::Persist { ticket, aor } => self.keep(now, ticket, &aor, out),
                Event::Probed(answer) => self.questions.push_back(Asked::Probed(answer)),
                Event::Resolve { ticket, host, port, transport } => {
                    self.questions.push_back(Asked::Name(Question { ticket, host, port, transport }));
                }
            }
        }
        if self.publish_at.is_some_and(|due| due <= now) {
            self.cells.publish(&self.node);
            self.pools.publish(now, self.number == 0, &self.node);
            // The first shard also tells of loads that other shards change, about which it hears nothing.
            let tells_of_all = self.number == 0 && self.node.balancer().is_some();
            self.publish_at = tells_of_all.then(|| now + PUBLISH_OTHERS_EVERY);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.node.poll_timeout().into_iter().chain(self.publish_at).min()
    }

    fn handle_command(&mut self, now: Instant, command: Command, out: &mut Outbox) {
        self.touch(now);
        self.node.handle_command(now, &command, out);
    }

    fn poll_event(&mut self) -> Option<Asked> {
        self.questions.pop_front()
    }

    fn handle_drain(&mut self, now: Instant, out: &mut Outbox) {
        self.node.handle_command(now, &Command::Drain(true), out);
    }

    fn is_drained(&self) -> bool {
        self.node.in_progress() == 0
    }
}
