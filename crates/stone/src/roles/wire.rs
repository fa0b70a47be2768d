//! What controller, loaders and handlers tell each other.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

use crate::error::StoneError;
use crate::load::Workload;
use crate::report::Report;
use crate::tally::Latency;
use crate::times::Times;

/// Longest line that is read, in bytes.
const LINE_MAX: u64 = 16 << 20;

/// What a helper does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It calls.
    Loader,
    /// It registers users and answers their calls.
    Handler,
}

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    /// A helper comes.
    Hello { role: Role },
    /// Its part: the load's options, and which of how many of its role it is.
    Part { workload: String, options: Vec<String>, number: u16, of: u16 },
    /// Users are registered, sockets are open.
    Ready,
    /// It cannot go on.
    Failed { why: String },
    /// Loaders: begin.
    Begin,
    /// Handlers: end.
    End,
    /// What it found.
    Found { report: Box<Report>, latencies: Vec<(String, String)> },
}

/// A connection that carries lines.
pub(super) struct Link {
    reader: BufReader<TcpStream>,
    peer: String,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> Self {
        let peer = stream.peer_addr().map(|addr| addr.to_string()).unwrap_or_default();
        let _ = stream.set_nodelay(true);
        Self { reader: BufReader::new(stream), peer }
    }

    fn lost(&self, why: impl core::fmt::Display) -> StoneError {
        StoneError::Target(format!("connection with {} lost: {why}", self.peer))
    }

    pub(super) fn tell(&mut self, line: &Line) -> Result<(), StoneError> {
        let mut text = serde_json::to_string(line).map_err(|error| self.lost(error))?;
        text.push('\n');
        self.reader.get_mut().write_all(text.as_bytes()).map_err(|error| self.lost(error))
    }

    pub(super) fn hear(&mut self) -> Result<Line, StoneError> {
        let mut text = String::new();
        let read = std::io::Read::by_ref(&mut self.reader).take(LINE_MAX).read_line(&mut text);
        match read {
            Ok(0) => Err(self.lost("it was closed")),
            Ok(_) => match serde_json::from_str(&text) {
                Ok(Line::Failed { why }) => Err(StoneError::Target(format!("{}: {why}", self.peer))),
                Ok(line) => Ok(line),
                Err(error) => Err(self.lost(error)),
            },
            Err(error) => Err(self.lost(error)),
        }
    }
}

use std::io::Read as _;

/// The latencies by name, whole.
pub(super) fn pack(times: &Times) -> Vec<(String, String)> {
    let named = [
        ("setup", &times.setup),
        ("ringing", &times.ringing),
        ("bye", &times.bye),
        ("lateness", &times.lateness),
    ];
    let single = times.single.iter().map(|(workload, latency)| (workload.name(), latency));
    named
        .into_iter()
        .chain(single)
        .filter_map(|(name, latency)| Some((name.to_owned(), to_hex(latency)?)))
        .collect()
}

pub(super) fn unpack(latencies: &[(String, String)]) -> Times {
    let mut times = Times::default();
    for (name, text) in latencies {
        let Some(latency) = from_hex(text) else { continue };
        match name.as_str() {
            "setup" => times.setup = latency,
            "ringing" => times.ringing = latency,
            "bye" => times.bye = latency,
            "lateness" => times.lateness = latency,
            other => {
                if let Ok(workload) = other.parse::<Workload>() {
                    times.single.insert(workload, latency);
                }
            }
        }
    }
    times
}

fn to_hex(latency: &Latency) -> Option<String> {
    use core::fmt::Write as _;
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&latency.0, &mut bytes).ok()?;
    Some(bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a string cannot fail
        text
    }))
}

fn from_hex(text: &str) -> Option<Latency> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| match pair {
            &[high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect();
    let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes?.as_slice()).ok()?;
    let mut latency = Latency::default();
    latency.0.add(&read).ok()?;
    Some(latency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn latencies_arrive_whole() {
        let mut times = Times::default();
        times.setup.record(Duration::from_micros(70));
        times.bye.record(Duration::from_secs(1));
        times.single.entry(Workload::Register).or_default().record(Duration::from_millis(3));
        let back = unpack(&pack(&times));
        assert_eq!(back.setup.summary(), times.setup.summary());
        assert_eq!(back.bye.summary(), times.bye.summary());
        assert_eq!(back.single, times.single);
        assert_eq!(from_hex("zz"), None);
    }
}
