//! What a [`Net`](crate::Net) counted since it was made.

/// Totals since the start; plain numbers, because only the owning thread writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Datagrams received, the overlong ones included.
    pub received: u64,
    /// Bytes received in datagrams.
    pub received_bytes: u64,
    /// Datagrams longer than [`NetOptions::datagram_bytes_max`](crate::NetOptions::datagram_bytes_max).
    pub overlong: u64,
    /// Datagrams the kernel dropped because a receive buffer was full (`SO_RXQ_OVFL`); a train of them counts as one.
    pub receive_overflows: u64,
    /// Messages handed to the kernel.
    pub sent: u64,
    /// Bytes of those messages.
    pub sent_bytes: u64,
    /// Of them, messages that left in a train with others (`UDP_SEGMENT`).
    pub joined: u64,
    /// Trains that the kernel refused, so that their messages went one by one.
    pub trains_refused: u64,
    /// Messages that waited because a send buffer was full.
    pub send_waits: u64,
    /// Messages dropped because the queue of waiting ones was full, or the device's (`ENOBUFS`).
    pub send_overflows: u64,
    /// Messages that the kernel refused for good; each was reported as a [`TransportError`](crate::TransportError).
    pub send_errors: u64,
    /// ICMP errors reported as a [`TransportError`](crate::TransportError).
    pub icmp_errors: u64,
    /// Errors beyond [`NetOptions::errors_max`](crate::NetOptions::errors_max) in one turn, so not reported.
    pub errors_dropped: u64,
    /// Times the thread slept and was woken by the kernel.
    pub sleeps: u64,
    /// Times the thread slept to let datagrams gather; see [`NetOptions::gather`](crate::NetOptions::gather).
    pub gathers: u64,
    /// System calls made to receive.
    pub receive_calls: u64,
    /// System calls made to send.
    pub send_calls: u64,
}
