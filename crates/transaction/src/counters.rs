//! What happened so far, for the operators' counters.

/// A number for each kind of transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PerKind {
    /// INVITE server transactions.
    pub invite_server: u64,
    /// Other server transactions.
    pub non_invite_server: u64,
    /// INVITE client transactions.
    pub invite_client: u64,
    /// Other client transactions, our CANCELs among them.
    pub non_invite_client: u64,
}

impl PerKind {
    /// All kinds together.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.invite_server + self.non_invite_server + self.invite_client + self.non_invite_client
    }
}

/// Counted since the layer was made. Nothing is ever taken off.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Transactions opened.
    pub opened: PerKind,
    /// Transactions that ended, for whatever reason.
    pub finished: PerKind,
    /// Received requests that repeated one already here.
    pub requests_absorbed: u64,
    /// ACKs taken by the server transaction whose failure they acknowledge, repeated ones included.
    pub acks_absorbed: u64,
    /// Received responses that a client transaction kept from the TU.
    pub responses_absorbed: u64,
    /// Requests sent again by A or E.
    pub requests_repeated: u64,
    /// Responses sent again, by G or because the request came again.
    pub responses_repeated: u64,
    /// ACKs sent again because the failure came again.
    pub acks_repeated: u64,
    /// CANCELs sent, repetitions not counted.
    pub cancels_sent: u64,
    /// INVITEs given up by B.
    pub timeouts_b: u64,
    /// Other requests given up by F.
    pub timeouts_f: u64,
    /// Failures of an INVITE that no ACK came for, given up by H.
    pub timeouts_h: u64,
    /// Cancelled INVITEs that no final response ended (RFC 3261 §9.1).
    pub timeouts_cancelled: u64,
    /// Failed sendings that ended or concerned a transaction.
    pub transport_errors: u64,
    /// Responses that belong to no transaction of ours (RFC 6026 §8.3: not to be forwarded).
    pub strays: u64,
    /// CANCELs from another address than their INVITE's, which therefore matched none.
    pub foreign_cancels: u64,
    /// Server transactions refused because the table was full.
    pub servers_full: u64,
    /// Client transactions refused because the table was full.
    pub clients_full: u64,
    /// ACKs and CANCELs that could not be built, because the TU's INVITE is no readable SIP.
    pub unbuildable: u64,
}
