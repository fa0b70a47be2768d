//! How much memory a million bindings take: `cargo run --release -p tandem-registrar --example locations_memory`.
//!
//! Registers COUNT addresses-of-record (first argument, 1,000,000 by default) with one binding each, as phones behind
//! a NAT do it, then prints the resident memory that this added, per binding; then refreshes all of them once.

use std::time::Duration;

use tandem_base::{HashKey, Instant};
use tandem_registrar::{ContactWish, Contacts, Locations, Policy, Register};
use tandem_sip::{Hop, ListenerId};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let count: u32 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let locations = Locations::new(HashKey::from_bytes([3; 16]), usize::MAX);
    let before = resident_bytes();
    register_all(&locations, count, 1);
    report("registered", &locations, before);
    register_all(&locations, count, 2);
    report("refreshed", &locations, before);
}

fn register_all(locations: &Locations, count: u32, cseq: u32) {
    let policy = Policy::default();
    let mut out = Vec::new();
    for n in 0..count {
        let aor = format!("user{n:07}@example.com");
        let contact = format!("sip:user{n:07}@192.168.1.{}:5060;transport=udp", n % 250);
        let call_id = format!("{:032x}@192.168.1.{}", u128::from(n) * 0x1_0000_0001_0000_0001, n % 250);
        let peer = std::net::SocketAddr::from(([10, 0, 0, 1], 5060));
        let wish = ContactWish {
            uri: contact.as_bytes(),
            q: None,
            expires: Some(Duration::from_secs(3600)),
            instance: b"",
            reg_id: 0,
        };
        let request = Register {
            call_id: call_id.as_bytes(),
            cseq,
            expires: None,
            contacts: Contacts::Each(vec![wish]),
            path: Vec::new(),
            supports_path: false,
            user_agent: b"Yealink SIP-T46U 108.86.0.20",
            received: Some(Hop::udp(ListenerId(0), peer)),
        };
        out.clear();
        let now = Instant::from_secs(u64::from(cseq));
        assert!(locations.register(now, &policy, aor.as_bytes(), &request, &mut out).is_ok());
    }
}

fn report(what: &str, locations: &Locations, before: u64) {
    let mut packed = 0;
    (0..locations.chunks())
        .for_each(|chunk| locations.for_each(chunk, |_, record| packed += record.packed_bytes()));
    let resident = resident_bytes().saturating_sub(before);
    let bindings = u64::try_from(locations.bindings()).unwrap_or(u64::MAX).max(1);
    println!(
        "{what}: {} addresses-of-record, {bindings} bindings, {} MiB resident, {} B per binding, {packed} B packed",
        locations.aors(),
        resident >> 20,
        resident / bindings,
    );
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4096
}
