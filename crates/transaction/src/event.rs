//! What the layer tells the transaction user.

use crate::{ClientId, ServerId, ServerKey, Timer};

/// What a received request turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Belongs to no transaction. An ACK so reported is the ACK of a 2xx (or a stray) and opens none: a proxy
    /// forwards it without state, a UAS matches it to its dialog.
    New(ServerKey),
    /// Repeats a request already here; what was to be sent has been. Nothing to do.
    Retransmission,
    /// Acknowledges a failure. Nothing to do.
    AckAbsorbed,
    /// An ACK with the branch of an INVITE that was answered 2xx (RFC 6026 §7.1: it goes to the TU).
    AckToAccepted(ServerId),
    /// A new CANCEL, which is a transaction of its own (RFC 3261 §9.2).
    Cancel {
        /// For opening its own transaction.
        key: ServerKey,
        /// The INVITE it means, from the same address, in whatever state; `None` calls for a 481.
        invite: Option<ServerId>,
    },
}

/// What a received response turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseArrival {
    /// For the TU. The transaction may be gone by now (a final response over a reliable transport).
    Pass {
        /// The transaction it answers.
        client: ClientId,
        /// The TU's handle of it.
        user: u64,
    },
    /// Repeated, or of no further interest. Nothing to do.
    Absorbed,
    /// Answers nothing of ours. It must not be forwarded (RFC 6026 §8.3).
    Stray,
}

/// What happened to a transaction on its own.
///
/// The last event of every transaction that the TU opened is its `ClientTerminated` or `ServerTerminated`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// No final response came in time: treat it as a 408 (RFC 3261 §8.1.3.1).
    ClientTimeout {
        /// The transaction.
        client: ClientId,
        /// The TU's handle of it.
        user: u64,
        /// B, F, or the end of waiting for a cancelled INVITE's final response.
        timer: Timer,
    },
    /// The request could not be sent: treat it as a 503 (RFC 3261 §8.1.3.1).
    ClientTransportError {
        /// The transaction.
        client: ClientId,
        /// The TU's handle of it.
        user: u64,
    },
    /// The transaction is over and its id means nothing any more.
    ClientTerminated {
        /// The transaction.
        client: ClientId,
        /// The TU's handle of it.
        user: u64,
    },
    /// No ACK came for the failure that answered an INVITE (timer H).
    AckTimeout {
        /// The transaction.
        server: ServerId,
        /// The TU's handle of it.
        user: u64,
    },
    /// A response could not be sent. The transaction lives on (RFC 6026 §8.8).
    ServerTransportError {
        /// The transaction.
        server: ServerId,
        /// The TU's handle of it.
        user: u64,
    },
    /// The transaction is over and its id means nothing any more.
    ServerTerminated {
        /// The transaction.
        server: ServerId,
        /// The TU's handle of it.
        user: u64,
    },
}
