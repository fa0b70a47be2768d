//! What a shard drives.

use tandem_base::Instant;
use tandem_net::TransportError;
use tandem_sip::{Hop, Outbox};

/// Something that takes time, messages and commands, and yields messages, events and a deadline.
///
/// Each call gets the turn's `now`, which never goes back, and writes what it sends to `out`. Nothing here may block:
/// while it does, no other call of the shard goes on.
pub trait Machine: Send + 'static {
    /// What the control thread tells it.
    type Command: Send + 'static;
    /// What it tells the control thread.
    type Event: Send + 'static;

    /// Takes one received datagram, or one message framed from a stream. The bytes may be anything.
    fn handle_input(&mut self, now: Instant, hop: Hop, message: &[u8], out: &mut Outbox);

    /// Learns that a message could not be sent or delivered (RFC 3261 §18.4).
    fn handle_transport_error(&mut self, now: Instant, error: TransportError<'_>, out: &mut Outbox);

    /// Does what is due. Called once a turn, due or not, so it must cost little when nothing is.
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// When [`handle_timeout`](Self::handle_timeout) has something to do next; `None` if nothing is planned.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Takes one command.
    fn handle_command(&mut self, now: Instant, command: Self::Command, out: &mut Outbox);

    /// Gives the next event, in order. Events that find the queue full stay here until there is room.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Begins to drain: no new calls, while those in progress go on.
    fn handle_drain(&mut self, now: Instant, out: &mut Outbox) {
        let _ = (now, out);
    }

    /// Whether nothing is left in progress, so that the shard may end.
    fn is_drained(&self) -> bool {
        true
    }
}
