//! What a user agent tells its script.

use tandem_sip::Method;

/// One request of ours with all its repetitions under new credentials or to other contacts; a call is its INVITE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// One dialog.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DialogId(pub u64);

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A provisional response above 100 came.
    Provisional {
        /// The request.
        request: RequestId,
        /// Its status.
        status: u16,
    },
    /// The request has its final answer; of a call's several 2xx only the first is told here.
    Answered {
        /// The request.
        request: RequestId,
        /// Its status; 408 and 503 without a message are the transaction's own.
        status: u16,
        /// The response, empty if none came.
        message: Box<[u8]>,
    },
    /// A call of ours was answered and acknowledged.
    Established {
        /// The call.
        request: RequestId,
        /// Its dialog.
        dialog: DialogId,
    },
    /// A second 2xx of a forked or cancelled call came; it was acknowledged and hung up (RFC 3261 §13.2.2.4).
    Surplus {
        /// The call.
        request: RequestId,
        /// The dialog that is ended.
        dialog: DialogId,
    },
    /// A call comes in.
    Incoming {
        /// Its Call-ID.
        call_id: Box<[u8]>,
    },
    /// The caller cancelled an incoming call, which was answered 487.
    Cancelled {
        /// Its Call-ID.
        call_id: Box<[u8]>,
    },
    /// An incoming call was answered with 2xx.
    Accepted {
        /// Its dialog.
        dialog: DialogId,
    },
    /// The caller acknowledged it.
    Confirmed {
        /// Its dialog.
        dialog: DialogId,
    },
    /// The caller never acknowledged it; BYE was sent (RFC 3261 §13.3.1.4).
    Unacknowledged {
        /// Its dialog.
        dialog: DialogId,
    },
    /// A dialog is over.
    Ended {
        /// The dialog.
        dialog: DialogId,
        /// Whether the peer hung up.
        by_peer: bool,
    },
    /// Another request came and was answered 200.
    Received {
        /// Its method.
        method: Method,
        /// The dialog, if it was inside one.
        dialog: Option<DialogId>,
    },
}
