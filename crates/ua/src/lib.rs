//! Scripted user agents: RFC 3261 §8, §9, §10.2, §12 to §15, on the transactions that the server itself uses.
//!
//! A [`Ua`] is both ends of a telephone: it registers, calls, cancels, hangs up and asks, and it answers as its
//! [`Answer`] says. Time comes in as `now`, octets go out through the [`Outbox`], what happened is read by
//! [`Ua::poll_event`]. The same seed and inputs give the same octets.
//!
//! | part | file |
//! |---|---|
//! | requests out of dialogs, challenges, redirections (§8.1, §22) | `uac` |
//! | requests in, ringing, answers, the repeated 2xx (§8.2, §13.3) | `uas` |
//! | dialogs, route sets, requests inside them (§12, §14, §15) | `dialog` |
//! | digest credentials, one nonce count per challenge (§22.2) | `keyring` |
//!
//! Left out: media (a fixed body stands for the offer), reliable provisional responses, DNS: what is no address is
//! sent to the outbound proxy.

mod dialog;
mod event;
mod keyring;
mod settings;
mod uac;
mod uas;
mod write;

use std::collections::{BTreeMap, VecDeque};

use tandem_base::{HashKey, Instant, Rng, Wheel};
use tandem_sip::{Hop, Index, Limits, Message, Outbox};
use tandem_transaction::{Event as LayerEvent, Layer};

pub use event::{DialogId, Event, RequestId};
pub use settings::{Answer, Settings};
pub use uac::Wish;

use dialog::Dialog;
use keyring::Keyring;
use uac::Sent;
use uas::Incoming;

/// What waits for its time.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    /// Ring the incoming call.
    Ring(u64),
    /// Answer it.
    Answer(u64),
    /// Repeat the 2xx of this dialog unless it was acknowledged.
    Repeat(u64),
    /// Hang up.
    HangUp(u64),
    /// Forget a dialog that is over.
    Forget(u64),
}

/// One user agent.
pub struct Ua {
    settings: Settings,
    layer: Layer,
    rng: Rng,
    index: Index,
    ids: u64,
    requests: BTreeMap<u64, Sent>,
    incoming: BTreeMap<u64, Incoming>,
    dialogs: BTreeMap<u64, Dialog>,
    alarms: Wheel<Alarm>,
    events: VecDeque<Event>,
    keyring: Keyring,
    /// Call-ID and From tag of all registrations, and the CSeq number of the last (§10.2).
    registration: (Vec<u8>, Vec<u8>, u32),
}

impl Ua {
    /// A user agent that has done nothing yet.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let key = HashKey::from_rng(&mut rng);
        let layer = Layer::new(settings.transaction, key, rng.fork());
        let registration = (write::token(&mut rng), write::token(&mut rng), 0);
        Self {
            settings,
            layer,
            rng,
            index: Index::new(),
            ids: 0,
            requests: BTreeMap::new(),
            incoming: BTreeMap::new(),
            dialogs: BTreeMap::new(),
            alarms: Wheel::new(),
            events: VecDeque::new(),
            keyring: Keyring::default(),
            registration,
        }
    }

    /// Who it is and how it behaves.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes who it is or how it behaves from now on.
    pub const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Takes one datagram. What can't be read or is malformed is dropped.
    pub fn handle_input(&mut self, now: Instant, hop: Hop, bytes: &[u8], out: &mut Outbox) {
        let mut index = core::mem::take(&mut self.index);
        if let Ok(message) = Message::parse(bytes, &mut index, &Limits::default())
            && message.defect().is_none()
        {
            if message.is_request() {
                self.receive_request(now, hop, &message, out);
            } else {
                self.receive_response(now, &message, out);
            }
        }
        self.index = index;
        self.drain_layer(now, out);
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.layer.handle_timeout(now, out);
        self.drain_layer(now, out);
        while let Some(alarm) = self.alarms.pop_due(now) {
            match alarm {
                Alarm::Ring(incoming) => self.ring(now, incoming, out),
                Alarm::Answer(incoming) => self.answer(now, incoming, out),
                Alarm::Repeat(dialog) => self.repeat_ok(now, dialog, out),
                Alarm::HangUp(dialog) => {
                    self.hang_up(now, DialogId(dialog), out);
                }
                Alarm::Forget(dialog) => {
                    self.dialogs.remove(&dialog);
                }
            }
        }
    }

    /// When [`Ua::handle_timeout`] has work, at the latest; `None` while nothing waits.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.layer.poll_timeout(), self.alarms.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The dialogs that live: established and hung up by nobody.
    pub fn live_dialogs(&self) -> impl Iterator<Item = DialogId> {
        self.dialogs.iter().filter(|(_, dialog)| dialog.is_live()).map(|(&id, _)| DialogId(id))
    }

    /// Call-ID, own tag and the peer's tag of a dialog.
    #[must_use]
    pub fn dialog_name(&self, dialog: DialogId) -> Option<(&[u8], &[u8], &[u8])> {
        let dialog = self.dialogs.get(&dialog.0)?;
        Some((&dialog.call_id, &dialog.local_tag, &dialog.remote_tag))
    }

    /// The dialog with this name.
    #[must_use]
    pub fn find_dialog(&self, call_id: &[u8], local_tag: &[u8], remote_tag: &[u8]) -> Option<DialogId> {
        let is = |dialog: &Dialog| {
            dialog.call_id == call_id && dialog.local_tag == local_tag && dialog.remote_tag == remote_tag
        };
        self.dialogs.iter().find(|(_, dialog)| is(dialog)).map(|(&id, _)| DialogId(id))
    }

    /// How many values the route set of a dialog has (§12.1).
    #[must_use]
    pub fn route_len(&self, dialog: DialogId) -> Option<usize> {
        self.dialogs.get(&dialog.0).map(|dialog| dialog.route.len())
    }

    /// Whether nothing is in progress: no transaction, no request without an answer, nothing to repeat. Dialogs that
    /// live do not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.layer.is_empty()
            && self.requests.is_empty()
            && self.incoming.is_empty()
            && self.alarms.is_empty()
            && self.dialogs.values().all(Dialog::is_live)
    }

    fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn drain_layer(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(event) = self.layer.poll_event() {
            match event {
                LayerEvent::ClientTimeout { user, .. } => self.fail_request(now, user, 408, out),
                LayerEvent::ClientTransportError { user, .. } => self.fail_request(now, user, 503, out),
                LayerEvent::ClientTerminated { client, user } => self.close_request(client, user),
                LayerEvent::ServerTerminated { user, .. } => {
                    self.incoming.remove(&user);
                }
                LayerEvent::AckTimeout { .. } | LayerEvent::ServerTransportError { .. } => {}
            }
        }
    }
}
