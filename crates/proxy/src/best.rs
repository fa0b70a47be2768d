//! RFC 3261 §16.7 steps 6 and 7: the best of several final responses, with every challenge in it.

use tandem_sip::{Edits, HeaderName, Index, Limits, Message};

/// The best final response so far, and what is aggregated into it.
#[derive(Debug, Default)]
pub(crate) struct Best {
    /// As received, our Via still on top; `None` for one of our own making (408, 503, 487).
    response: Option<Box<[u8]>>,
    status: u16,
    /// The challenge lines of every 401 and 407.
    challenges: Vec<u8>,
    challenged: u16,
    /// Whether a table of ours was full.
    is_full: bool,
}

impl Best {
    /// Whether there is no final response yet.
    pub(crate) const fn is_empty(&self) -> bool {
        self.status == 0
    }

    /// Whether no further target may be tried: a 6xx (step 5).
    pub(crate) const fn is_decisive(&self) -> bool {
        self.status >= 600
    }

    /// What goes upstream: 408 if nobody answered, and 500 for another's 503, which would say that *we* can't serve.
    pub(crate) const fn status(&self) -> u16 {
        match self.status {
            0 => 408,
            503 if !self.is_full => 500,
            status => status,
        }
    }

    /// Considers a final response of our own making.
    pub(crate) fn note_own(&mut self, status: u16) {
        if rank(status) < rank(self.status) {
            self.status = status;
            self.response = None;
        }
    }

    /// Considers a branch that we had no room for: here a 503 is about us.
    pub(crate) fn note_full(&mut self) {
        self.is_full = true;
        self.note_own(503);
    }

    /// Considers a final response above 2xx.
    pub(crate) fn note(&mut self, response: &Message<'_>) {
        let status = response.status();
        if matches!(status, 401 | 407) {
            self.challenged += 1;
            for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
                for field in response.fields(name) {
                    self.challenges.extend_from_slice(name.as_str().as_bytes());
                    self.challenges.extend_from_slice(b": ");
                    self.challenges.extend_from_slice(field.value);
                    self.challenges.extend_from_slice(b"\r\n");
                }
            }
        }
        if rank(status) < rank(self.status) {
            self.status = status;
            self.response = Some(response.bytes().into());
        }
    }

    /// Hands `send` the best response with our Via taken off; `false` if we must write one ourselves.
    pub(crate) fn with_response(
        &self,
        edits: &mut Edits,
        send: impl FnOnce(&mut Edits, &Message<'_>),
    ) -> bool {
        let Some(bytes) = self.response.as_deref().filter(|_| self.status != 503) else {
            return false;
        };
        let mut index = Index::new();
        let Ok(response) = Message::parse(bytes, &mut index, &Limits::unbounded()) else { return false };
        edits.clear();
        edits.pop_values(&response, HeaderName::Via, 1);
        if matches!(self.status, 401 | 407) && self.challenged > 1 {
            edits.remove_all(&response, HeaderName::WwwAuthenticate);
            edits.remove_all(&response, HeaderName::ProxyAuthenticate);
            edits.insert(response.headers_start(), |out| out.extend_from_slice(&self.challenges));
        }
        edits.regularise(&response);
        send(edits, &response);
        true
    }
}

/// Lower is better: any 6xx, then the lowest class; among 4xx those that help the caller to try again (step 6).
///
/// A 503 and our own 408 come last: another branch's word says more.
const fn rank(status: u16) -> u16 {
    match status {
        0 => u16::MAX,
        600.. => 0,
        401 | 407 | 415 | 420 | 484 => 400,
        408 => 490,
        400..500 => 410,
        503 => 599,
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_response_is_a_6xx_then_the_lowest_class_then_what_helps_the_caller() {
        let best = |statuses: &[u16]| {
            let mut best = Best::default();
            statuses.iter().for_each(|&s| best.note_own(s));
            best.status()
        };
        assert_eq!(best(&[]), 408);
        assert_eq!(best(&[486, 603, 302]), 603);
        assert_eq!(best(&[486, 302, 500]), 302);
        assert_eq!(best(&[404, 484, 486]), 484);
        assert_eq!(best(&[408, 486]), 486);
        assert_eq!(best(&[503, 500]), 500);
        assert_eq!(best(&[503]), 500);
        assert_eq!(best(&[486, 404]), 486, "the first of equals stays");
    }

    #[test]
    fn a_503_goes_upstream_only_where_it_speaks_of_this_proxy() {
        let mut best = Best::default();
        best.note_own(503);
        assert_eq!(best.status(), 500);
        best.note_full();
        assert_eq!(best.status(), 503);
        best.note_own(404);
        assert_eq!(best.status(), 404);
    }
}
