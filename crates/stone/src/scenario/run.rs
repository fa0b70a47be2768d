//! Runs a scenario on one socket, from the file to the counts by step.

use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use serde::Serialize;
use tandem_net::{Net, NetOptions, UdpOptions, UdpSocket};
use tandem_sip::{ListenerId, Outbox};

use super::call::Setting;
use super::model::{Does, Expects, Scenario};
use super::play::{PlayLimits, Player, StepCounts};
use crate::arrivals::{Arrivals, Ramp, Spacing};
use crate::clock;
use crate::error::StoneError;
use crate::tally::{Kinds, Summary};
use crate::users::User;

/// How long it stays after the last call, to repeat what may have been lost: once T1 has passed, a peer has asked.
const AFTER: Duration = Duration::from_millis(700);

/// What a scenario is run with.
#[derive(Clone, Debug)]
pub struct Script {
    /// The scenario.
    pub scenario: Scenario,
    /// `[remote_ip]` and `[remote_port]`.
    pub remote: SocketAddr,
    /// Where the socket is bound.
    pub local: SocketAddr,
    /// `[service]`.
    pub service: String,
    /// Rows of the user file.
    pub rows: Vec<Vec<Vec<u8>>>,
    /// User of `[authentication]`.
    pub user: User,
    /// Calls a second, for a calling scenario.
    pub rate: f64,
    /// Spacing of calls.
    pub spacing: Spacing,
    /// Calls in all; `None`: as many as the time allows.
    pub calls: Option<u64>,
    /// How long calls are begun; an answering scenario ends then, or runs on without it.
    pub length: Option<Duration>,
    /// Limits.
    pub limits: PlayLimits,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Played {
    /// The scenario's name.
    pub name: String,
    /// Calls begun.
    pub started: u64,
    /// Calls that reached the end.
    pub succeeded: u64,
    /// Calls that did not.
    pub failed: u64,
    /// Calls that could not begin.
    pub shed: u64,
    /// Messages of calls that were over.
    pub late: u64,
    /// Length of the successful ones.
    pub length: Summary,
    /// Each step: what it does, and its counts.
    pub steps: Vec<(String, StepCounts)>,
    /// Unexpected messages.
    pub unexpected: Kinds,
}

/// Plays a scenario until its calls are over or `stop` is set.
///
/// # Errors
///
/// [`StoneError::Socket`] if the socket cannot be opened; [`StoneError::Plan`] for a rate that makes no sense.
pub fn play(script: &Script, stop: &AtomicBool) -> Result<Played, StoneError> {
    if script.scenario.calls() && !(script.rate > 0.0 && script.rate.is_finite()) {
        return Err(StoneError::plan("rate", &script.rate.to_string(), "calls a second, above zero"));
    }
    let listener = ListenerId(0);
    let socket = UdpSocket::bind(
        script.local,
        &UdpOptions { receive_buffer_bytes: 16 << 20, ..UdpOptions::default() },
    );
    let socket = socket.map_err(|error| StoneError::socket(format!("udp {}", script.local), &error))?;
    let local = socket.local_address();
    let mut net = Net::new(NetOptions::default()).map_err(|error| StoneError::socket("epoll", &error))?;
    net.add_udp(listener, socket).map_err(|error| StoneError::socket("epoll", &error))?;
    let setting = Setting {
        service: script.service.clone(),
        remote: script.remote,
        local,
        rows: script.rows.clone(),
        user: script.user.clone(),
    };
    let mut player = Player::new(Arc::new(script.scenario.clone()), setting, listener, script.limits);
    let begin = clock::now();
    let calls = script.scenario.calls();
    #[expect(clippy::cast_precision_loss, reason = "a number of calls fits a double")]
    let by_count = script
        .calls
        .filter(|_| calls)
        .map(|calls| Duration::try_from_secs_f64((calls as f64 + 0.5) / script.rate).unwrap_or_default());
    let length = [script.length, by_count].into_iter().flatten().min().unwrap_or(Duration::MAX);
    if calls {
        let spacing = if script.calls.is_some() { Spacing::Uniform } else { script.spacing };
        let arrivals = Arrivals::new(Ramp::flat(script.rate), spacing, begin, length, player.dice());
        player.begin(arrivals);
    }
    let mut out = Outbox::new();
    let mut over_since = None;
    loop {
        let now = clock::now();
        if stop.load(Ordering::Relaxed) {
            player.stop();
            if !calls || player.is_done() {
                break;
            }
        }
        player.tick(now, &mut out);
        net.flush(&mut out);
        let enough = script.calls.is_some_and(|calls| player.succeeded + player.failed >= calls);
        let over = calls && player.is_done() || !calls && enough && player.open() == 0;
        if !over {
            over_since = None;
        } else if now - *over_since.get_or_insert(now) >= AFTER {
            break;
        }
        if !calls && now - begin >= length {
            break;
        }
        let sleep = player
            .next()
            .map_or(Duration::from_millis(50), |next| (next - now).min(Duration::from_millis(50)));
        net.wait(Some(sleep)).map_err(|error| StoneError::socket("epoll", &error))?;
        if net.errors().next().is_some() {
            player.unexpected.count("the network refused a message", b"");
            net.clear_errors();
        }
        let now = clock::now();
        for datagram in net.batch() {
            player.receive(now, datagram.hop.peer, datagram.bytes, &mut out);
        }
        net.flush(&mut out);
    }
    let names = script.scenario.steps.iter().map(|step| match &step.does {
        Does::Send { text, .. } => format!("send {}", text.first_word()),
        Does::Receive { expects: Expects::Response(code), .. } => format!("recv {code}"),
        Does::Receive { expects: Expects::Request(method), .. } => format!("recv {method}"),
        Does::Pause(_) => "pause".to_owned(),
        Does::Nothing => "nop".to_owned(),
    });
    Ok(Played {
        name: script.scenario.name.clone(),
        started: player.started,
        succeeded: player.succeeded,
        failed: player.failed,
        shed: player.shed,
        late: player.late,
        length: player.length.summary(),
        steps: names.zip(player.steps.iter().copied()).collect(),
        unexpected: player.unexpected,
    })
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} calls begun, {} succeeded, {} failed; {} messages came late",
            self.name, self.started, self.succeeded, self.failed, self.late
        )?;
        writeln!(
            f,
            "{:<24}{:>10}{:>10}{:>10}{:>12}",
            "step", "messages", "repeated", "failures", "unexpected"
        )?;
        for (name, counts) in &self.steps {
            let StepCounts { messages, retransmissions, failures, unexpected } = counts;
            writeln!(f, "{name:<24}{messages:>10}{retransmissions:>10}{failures:>10}{unexpected:>12}")?;
        }
        for (kind, unexpected) in &self.unexpected.0 {
            let first = unexpected.sample.lines().next().unwrap_or_default();
            writeln!(
                f,
                "unexpected {:>9} x {kind}{}{first}",
                unexpected.count,
                if first.is_empty() { "" } else { ": " }
            )?;
        }
        Ok(())
    }
}
