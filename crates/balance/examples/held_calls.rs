//! What a held call costs in memory: `cargo run --release -p tandem-balance --example held_calls -- [CALLS]`.
//!
//! A million calls (or CALLS) are set up at one shard's balancer, INVITE, 200 and ACK each, and held. Printed is what
//! the process' resident memory grew by, per call: the entry, its indices, its timer, and what the allocator makes of
//! them. The goal is 400 octets.

use std::sync::Arc;

use tandem_balance::{
    Balancer, Board, Config, Destination, HealthSettings, PolicySettings, PoolConfig, PoolSettings,
};
use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{Hop, Index, Limits, Listener, ListenerId, Listeners, Message, Outbox, Reply, Transport};

const US: &str = "192.0.2.1:5060";
const CALLER: &str = "198.51.100.7:5070";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls: u32 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let destinations = (1..=8)
        .map(|n| {
            let hop = Hop::udp(ListenerId(0), format!("203.0.113.{n}:5060").parse()?);
            Ok(Destination::new(&format!("d{n}"), hop))
        })
        .collect::<Result<_, std::net::AddrParseError>>()?;
    let health = HealthSettings { interval: None, ..HealthSettings::default() };
    let settings = PoolSettings::new("media", PolicySettings::new("tlwl"), health, destinations)?;
    let pool = PoolConfig::new(Arc::new(settings), Arc::new(Board::new(64, 1)));
    let config = Config { entries_max: calls + calls / 8, ..Config::new(vec![pool]) };
    let listener = Listener::new(Transport::Udp, US.parse()?, None).ok_or("no listener")?;
    let key = HashKey::from_bytes([7; 16]);
    let rng = Rng::from_seed(1);
    let mut balancer = Balancer::new(Arc::new(config), Listeners::new(vec![listener]), &key, None, 0, rng);
    let caller = Hop::udp(ListenerId(0), CALLER.parse()?);
    let (mut out, mut answered) = (Outbox::new(), Outbox::new());
    let mut answer = Vec::new();
    let mut now = Instant::from_secs(1);
    let before = resident()?;
    for call in 0..calls {
        // 20,000 calls a second.
        now += std::time::Duration::from_micros(50);
        let request = |method: &str, tag: &str| {
            format!(
                "{method} sip:service@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK{method}{call}\r\n\
                 From: <sip:a@{CALLER}>;tag=a{call}\r\nTo: <sip:b@{US}>{tag}\r\nCall-ID: {call}-held@{CALLER}\r\n\
                 CSeq: 1 {method}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            )
        };
        out.clear();
        balancer.handle_input(now, caller, request("INVITE", "").as_bytes(), &mut out);
        for (hop, forwarded) in out.iter() {
            let mut index = Index::new();
            let message = Message::parse(forwarded, &mut index, &Limits::default())?;
            answer.clear();
            Reply::new(200, US.parse()?, b"b").write(&message, &mut answer);
            answered.clear();
            balancer.handle_input(now, hop, &answer, &mut answered);
        }
        out.clear();
        balancer.handle_input(now, caller, request("ACK", ";tag=b").as_bytes(), &mut out);
        balancer.handle_timeout(now, &mut out);
    }
    let grown = resident()?.saturating_sub(before);
    let held = balancer.calls().calls();
    println!("calls held           {held}");
    println!("memory grown by      {} MiB", grown >> 20);
    println!("octets a held call   {}", grown / u64::try_from(held.max(1))?);
    println!("audits, difference   {}, {}", balancer.calls().audits(), balancer.calls().audit_difference());
    Ok(())
}

/// The process' resident memory, in octets.
fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("no resident size in /proc/self/statm")?.parse()?;
    Ok(pages * 4096)
}
