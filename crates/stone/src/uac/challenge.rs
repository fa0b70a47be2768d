//! A challenged request goes again with credentials (RFC 3261 §22.2).

use tandem_base::Instant;
use tandem_sip::Outbox;

use super::attempt::{Failure, State, step};
use super::{Uac, name};
use crate::digest::{Challenged, credentials};
use crate::lines::{Lines, Name};
use crate::load::Workload;
use crate::token::Token;

impl Uac {
    pub(super) fn authenticate(
        &mut self,
        now: Instant,
        token: Token,
        status: u16,
        lines: Lines<'_>,
        message: &[u8],
        out: &mut Outbox,
    ) {
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        let method = attempt.workload.method();
        let wanted = if status == 401 { Name::WwwAuthenticate } else { Name::ProxyAuthenticate };
        let uri = match attempt.workload {
            Workload::Register | Workload::Options => format!("sip:{}", self.load.domain),
            Workload::Outbound => {
                format!("sip:{}@{}", utf8(name(&self.load, attempt.callee)), self.load.callee_addr)
            }
            Workload::Publish => {
                format!("sip:{}@{}", utf8(name(&self.load, attempt.caller)), self.load.domain)
            }
            Workload::Proxy200 | Workload::Redirect | Workload::Message | Workload::Subscribe => {
                format!("sip:{}@{}", utf8(name(&self.load, attempt.callee)), self.load.domain)
            }
        };
        let user = self.load.users.get(attempt.caller);
        let cnonce = self.dice.below(u32::MAX);
        let challenges = lines.into_iter().filter(|line| line.name == wanted).map(|line| line.value);
        let answer = user.and_then(|user| {
            credentials(challenges, &Challenged { proxy: status == 407, method, uri: &uri, user, cnonce })
        });
        if method == "INVITE" {
            self.refuse_ack(token, step::FIRST, lines, out);
        }
        let Some(answer) = answer else {
            self.fail(
                token,
                Failure::Refused,
                &format!("{status} to {method} with no challenge we can answer"),
                message,
            );
            return;
        };
        let Some(attempt) = self.attempts.get_mut(token) else { return };
        attempt.credentials = answer;
        attempt.step = step::AGAIN;
        attempt.sequence = 2;
        attempt.state = State::Calling;
        attempt.repeats = 0;
        let setup = attempt.setup;
        self.counts.challenges += 1;
        self.send_first(token, out);
        self.arm_repeat(now, token, setup, 0, step::AGAIN);
    }
}

fn utf8(name: &[u8]) -> &str {
    core::str::from_utf8(name).unwrap_or_default()
}
