//! What a million bindings cost the store: `cargo run --release -p tandem-store --example store_load [COUNT] [FILE] [load]`.
//!
//! Fills the location service, lets the writer insert everything and then write it once more as a refresh would,
//! loads the file into an empty location service, and prints times, CPU time per row and resident memory. With `load`,
//! the file of an earlier run is only loaded.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tandem_base::{HashKey, Instant};
use tandem_registrar::{ContactWish, Contacts, Locations, Policy, Register};
use tandem_sip::{Hop, ListenerId, Transport};
use tandem_store::{Clock, Options, Sockets, Store, Times, WriterOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let count: u32 = args.next().map_or(Ok(1_000_000), |arg| arg.parse())?;
    let path = args.next().map_or_else(|| std::env::temp_dir().join("tandem-store-load.db"), PathBuf::from);
    let clock: Clock = Arc::new(|| Times { now: Instant::from_secs(10), unix: 1_800_000_000 });
    let sockets = Sockets::new([(ListenerId(0), Transport::Udp, ([127, 0, 0, 1], 5060).into())]);
    if args.next().as_deref() != Some("load") {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        fill(&path, count, &clock, &sockets)?;
    }
    let before = resident_bytes();
    let locations = Locations::new(HashKey::from_bytes([4; 16]), usize::MAX);
    let (start, cpu) = (wall(), cpu_us());
    let report = tandem_store::run(async {
        Store::open(&path, Options::default()).await?.load_locations(&locations, &sockets, &clock).await
    })??;
    let (wall, cpu) = (wall() - start, cpu_us() - cpu);
    println!(
        "load: {} taken, {} bad in {:.2} s wall, {:.2} s CPU; {} MiB resident more, {} B per binding",
        report.taken,
        report.bad,
        wall.as_secs_f64(),
        cpu as f64 / 1e6,
        (resident_bytes() - before) >> 20,
        (resident_bytes() - before) / report.taken.max(1),
    );
    Ok(())
}

fn fill(
    path: &std::path::Path,
    count: u32,
    clock: &Clock,
    sockets: &Sockets,
) -> Result<(), Box<dyn std::error::Error>> {
    let locations = Arc::new(Locations::new(HashKey::from_bytes([3; 16]), usize::MAX));
    // Scattered as users are, each once: 7919 is prime, so that only its multiples would fold them.
    let scattered = |n: u32| u64::from(n) * 7919 % u64::from(count);
    let aors: Vec<String> = (0..count).map(|n| format!("user{:07}@example.com", scattered(n))).collect();
    if aors.iter().collect::<BTreeSet<_>>().len() != aors.len() {
        return Err("COUNT must be no multiple of 7919: users would coincide".into());
    }
    let store = tandem_store::run(Store::open(path, Options::default()))??;
    for cseq in 1..=2 {
        aors.iter().for_each(|aor| register(&locations, aor, cseq));
        let (options, sockets) =
            (WriterOptions { queue_max: 1 << 21, ..WriterOptions::default() }, sockets.clone());
        let (start, cpu) = (wall(), cpu_us());
        let writer = store.writer(
            Arc::clone(&locations),
            sockets,
            Arc::clone(clock),
            options,
            |(), _| (),
            |event| {
                println!("{event:?}");
            },
        )?;
        let handle = writer.handle();
        aors.iter().try_for_each(|aor| handle.commit(aor.as_bytes(), ())).map_err(|()| "queue")?;
        let stats = Arc::clone(writer.stats());
        assert!(writer.shutdown());
        let (wall, cpu) = (wall() - start, cpu_us() - cpu);
        println!(
            "{}: {} rows in {} transactions, {:.2} s wall, {:.1} us CPU per row",
            if cseq == 1 { "insert" } else { "refresh" },
            stats.rows.load(Relaxed),
            stats.batches.load(Relaxed),
            wall.as_secs_f64(),
            cpu as f64 / f64::from(count),
        );
    }
    println!("file: {} MiB", std::fs::metadata(path)?.len() >> 20);
    Ok(())
}

fn register(locations: &Locations, aor: &str, cseq: u32) {
    let contact =
        format!("sip:{}@192.168.1.17:5060;transport=udp", aor.split('@').next().unwrap_or_default());
    let wish = ContactWish {
        uri: contact.as_bytes(),
        q: None,
        expires: Some(Duration::from_secs(3600)),
        instance: b"",
        reg_id: 0,
    };
    let call_id = format!("{contact:.32}0123456789abcdef");
    let request = Register {
        call_id: call_id.as_bytes(),
        cseq,
        expires: None,
        contacts: Contacts::Each(vec![wish]),
        path: Vec::new(),
        supports_path: false,
        user_agent: b"Yealink SIP-T46U 108.86.0.20",
        received: Some(Hop::udp(ListenerId(0), ([10, 0, 0, 1], 5060).into())),
    };
    let now = Instant::from_secs(10);
    assert!(locations.register(now, &Policy::default(), aor.as_bytes(), &request, &mut Vec::new()).is_ok());
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn wall() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

fn cpu_us() -> u64 {
    // utime and stime of proc(5), in hundredths of a second.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stat.split(' ').skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4096
}
