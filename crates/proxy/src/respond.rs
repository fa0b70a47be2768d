//! RFC 3261 §16.7 steps 1, 3, 8 and 9: a response comes, loses our Via and goes upstream.

use tandem_base::Key;
use tandem_sip::{HeaderName, Message, Method};
use tandem_transaction::{ResponseArrival, ServerId};

use crate::{Proxy, Turn};

impl Proxy {
    /// Takes a response: to its response context, statelessly onwards, or nowhere.
    pub fn handle_response(&mut self, turn: &mut Turn<'_>, response: &Message<'_>) {
        if response.defect().is_some() {
            self.counters.responses_stray += 1;
            return;
        }
        // Every request of ours carries its sender's Via below ours, but for the CANCELs that we make ourselves.
        if response.method() != Method::Cancel && response.values(HeaderName::Via).nth(1).is_none() {
            self.counters.responses_stray += 1;
            return;
        }
        match turn.layer.receive_response(turn.now, response, turn.out) {
            ResponseArrival::Pass { client, user } => {
                match Key::from_bits(user).filter(|&k| self.contexts.contains(k)) {
                    Some(key) => self.respond_in_context(turn, key, client, response),
                    // The context ended with the first 2xx; its repetitions, and those of other forks, still go upstream.
                    None if response.status() / 100 == 2 => self.forward_stray_success(turn, response),
                    None => self.counters.responses_stray += 1,
                }
            }
            ResponseArrival::Absorbed => {}
            ResponseArrival::Stray => self.forward_response_stateless(turn, response),
        }
    }

    pub(crate) fn forward_response(&mut self, turn: &mut Turn<'_>, server: ServerId, response: &Message<'_>) {
        self.edits.clear();
        self.edits.pop_values(response, HeaderName::Via, 1);
        self.edits.regularise(response);
        let edits = &mut self.edits;
        turn.layer.respond(turn.now, server, response.status(), |out| edits.write(response, out), turn.out);
        self.counters.responses_forwarded += 1;
    }
}
