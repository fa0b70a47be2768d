//! No more octets to strangers than came from them: whoever feigns its source address gains nothing by asking us.
//!
//! Each source address (IPv6: each /64) has a debt: the octets it was sent less the octets it sent. An answer that
//! would raise it above [`STRANGER_CREDIT`] is not sent. The request's repetition pays for it too, and then brings the
//! answer: a challenge under two algorithms, which can be nearly twice as long as the shortest of requests, takes two
//! copies of that at worst. So nobody is locked out, not even behind an address that an attacker feigns. A source that
//! proves a password is real: it gets [`PROVED_CREDIT`], for the many phones that one address may stand for.
//!
//! The debts lie in an array by keyed hash, not in a table: no flood of addresses grows it or starts anybody anew.
//! Addresses that meet in a place share its credit.

use tandem_base::HashKey;

/// Octets that a source may be sent beyond what it sent itself, for each shard: a few answers.
pub const STRANGER_CREDIT: u32 = 4096;

/// What a source may be sent beyond it after each proof of a password.
const PROVED_CREDIT: i32 = 65_536;

const PLACES: usize = 1 << 16;

/// What the sources owe one shard.
pub(crate) struct Debts {
    key: HashKey,
    /// What is owed; below zero after a proof.
    places: Box<[i32]>,
}

impl Debts {
    pub(crate) fn new(key: &HashKey) -> Self {
        Self { key: key.derive(b"reflection"), places: vec![0; PLACES].into() }
    }

    /// Accounts for a request of so many octets and for its answer; `false` if the answer must not be sent.
    pub(crate) fn pay(&mut self, source: &[u8], request: usize, answer: usize) -> bool {
        let (request, answer) = (octets(request), octets(answer));
        let Some(debt) = self.place(source) else { return false };
        let after = debt.saturating_add(answer).saturating_sub(request);
        let is_paid = after <= octets(STRANGER_CREDIT as usize);
        // What is sent in vain buys nothing for later.
        let least = (*debt).min(0);
        *debt = if is_paid { after } else { debt.saturating_sub(request) }.max(least);
        is_paid
    }

    /// The source is no stranger.
    pub(crate) fn prove(&mut self, source: &[u8]) {
        if let Some(debt) = self.place(source) {
            *debt = -PROVED_CREDIT;
        }
    }

    fn place(&mut self, source: &[u8]) -> Option<&mut i32> {
        let place = usize::try_from(self.key.hash64(&[source]) % PLACES as u64).ok()?;
        self.places.get_mut(place)
    }
}

fn octets(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}
