//! BYEs of our own: a destination was left, its caller told that the call failed, and then someone answers there. The
//! call is ended as the caller would (RFC 3261 §13.2.2.4), and the BYE repeated until it is answered (§17.1.2.2), since
//! its loss would leave someone talking to nobody.

use core::time::Duration;

use tandem_base::{HashKey, Instant, Key, Map, Pool, Wheel, map};
use tandem_sip::{Hop, Index, Limits, Message, Method, Outbox};

/// RFC 3261 §17.1.1.1.
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
/// Timer F: a destination that has not answered by then does not know the call any more.
const TIMER_F: Duration = Duration::from_secs(32);

struct Bye {
    to: Hop,
    bytes: Box<[u8]>,
    branch: u64,
    /// Timer E.
    interval: Duration,
    until: Instant,
}

/// Those of one shard that wait for their answer.
pub(crate) struct Byes {
    all: Pool<Bye>,
    timers: Wheel<Key>,
    by_branch: Map<u64, Key>,
    hash: HashKey,
}

impl Byes {
    pub(crate) fn new(max: u32, hash: HashKey) -> Self {
        Self { all: Pool::new(max), timers: Wheel::new(), by_branch: map(hash), hash }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Repeats what was just sent, unless it is repeated already. Without room it was sent once.
    pub(crate) fn sent(&mut self, now: Instant, to: Hop, bytes: &[u8]) {
        let Some(branch) = self.branch(bytes) else { return };
        if self.by_branch.contains_key(&branch) {
            return;
        }
        let bye = Bye { to, bytes: bytes.into(), branch, interval: T1, until: now + TIMER_F };
        if let Ok(key) = self.all.insert(bye) {
            self.by_branch.insert(branch, key);
            self.timers.schedule(now + T1, key);
        }
    }

    fn branch(&self, bytes: &[u8]) -> Option<u64> {
        let mut index = Index::new();
        let message = Message::parse(bytes, &mut index, &Limits::default()).ok()?;
        if message.method() != Method::Bye {
            return None;
        }
        Some(self.hash.hash64(&[message.via().branch?]))
    }

    /// A final answer to one of them.
    pub(crate) fn answered(&mut self, response: &Message<'_>) {
        let branch = response.via().branch.map(|branch| self.hash.hash64(&[branch]));
        if let Some(key) = branch.and_then(|branch| self.by_branch.remove(&branch)) {
            self.all.remove(key); // its timer finds nothing
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(key) = self.timers.pop_due(now) {
            let Some(bye) = self.all.get_mut(key) else { continue };
            if now >= bye.until {
                self.by_branch.remove(&bye.branch);
                self.all.remove(key);
                continue;
            }
            out.send(bye.to, &bye.bytes);
            bye.interval = (2 * bye.interval).min(T2);
            self.timers.schedule((now + bye.interval).min(bye.until), key);
        }
    }
}
