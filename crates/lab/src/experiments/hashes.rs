//! A6: how well two hashes spread Call-IDs.

use tandem_balance::{Mistake, core_hash, fnv1};

use super::ratio;
use crate::bench::Bench;
use crate::finding::{Claim, Finding, Table};
use crate::text::{write_call_id, write_call_id_of_one};

const CALLS: u64 = 300_000;
/// FNV's 228,000 buckets are what a perfect hash fills of 2¹⁹ with 300,000 keys: 2¹⁹·(1 - e^(-300,000/2¹⁹)) = 228,400.
const BUCKETS: usize = 1 << 19;

/// What a hash makes of the Call-IDs.
struct Filled {
    buckets: usize,
    /// Entries looked at until the right one is found, on average.
    search: f64,
    /// The fullest of eight nodes against the mean.
    fullest: f64,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let (core, fnv) = (fill(core_hash, write_call_id_of_one), fill(fnv1, write_call_id_of_one));
    bench.say(&format!("hashes: {} and {} buckets", core.buckets, fnv.buckets));
    let mut table = Table::new(
        "300,000 of SIPp's Call-IDs in 2^19 buckets",
        &[
            "hash",
            "Call-IDs of",
            "buckets in use",
            "entries looked at per search",
            "fullest of 8 nodes, of the mean",
        ],
    );
    let of_five = [fill(core_hash, write_call_id), fill(fnv1, write_call_id)];
    for (name, callers, filled) in [
        ("OpenSER (core_hash)", "one SIPp", &core),
        ("FNV-1", "one SIPp", &fnv),
        ("OpenSER (core_hash)", "five", &of_five[0]),
        ("FNV-1", "five", &of_five[1]),
    ] {
        table.row(vec![
            name.to_owned(),
            callers.to_owned(),
            filled.buckets.to_string(),
            format!("{:.2}", filled.search),
            format!("{:.4}", filled.fullest),
        ]);
    }
    Ok(Finding {
        name: "hashes",
        question: "how many buckets do 300,000 Call-IDs reach?".into(),
        setup: vec![
            "Call-IDs as SIPp writes them, `count-pid@address`, of one SIPp that makes all calls; the table has five, too. \
             The balancer's own call table uses neither hash but a keyed one."
                .into(),
        ],
        claims: vec![
            Claim::new(
                "A6",
                "FNV reaches 228,000 buckets (within 5 %)",
                "228,000",
                fnv.buckets.to_string(),
                fnv.buckets.abs_diff(228_000) <= 11_400,
                "SIPp's Call-IDs end alike, and FNV-1's low bits depend little on what comes early",
            ),
            Claim::new(
                "A6",
                "the hash of OpenSER reaches 88,000 (within 5 %)",
                "88,000",
                core.buckets.to_string(),
                core.buckets.abs_diff(88_000) <= 4_400,
                "it depends on how Call-IDs count and on the address, which the paper does not give",
            ),
            Claim::new(
                "A6",
                "so that searches are a third as long with FNV (at most 0.4)",
                "x 3 shorter",
                format!("{:.2} and {:.2} entries ({:.2})", fnv.search, core.search, ratio(fnv.search, core.search)),
                ratio(fnv.search, core.search) <= 0.4,
                "it depends on what else a search costs",
            ),
        ],
        controls: Vec::new(),
        tables: vec![table],
        plots: Vec::new(),
        took_s: 0,
    })
}

fn fill(hash: fn(&[u8]) -> u32, call_id: fn(u64, &mut Vec<u8>)) -> Filled {
    let mut counts = vec![0_u64; BUCKETS];
    let mut nodes = [0_u64; 8];
    let mut text = Vec::new();
    for number in 0..CALLS {
        text.clear();
        call_id(number, &mut text);
        let hash = usize::try_from(hash(&text)).unwrap_or(0);
        if let Some(count) = counts.get_mut(hash % BUCKETS) {
            *count += 1;
        }
        if let Some(count) = nodes.get_mut(hash % 8) {
            *count += 1;
        }
    }
    // The k-th entry of a bucket costs k looks.
    let looks: u64 = counts.iter().map(|count| count * (count + 1) / 2).sum();
    #[expect(clippy::cast_precision_loss, reason = "300,000 and its square fit a double")]
    Filled {
        buckets: counts.iter().filter(|&&count| count > 0).count(),
        search: looks as f64 / CALLS as f64,
        fullest: nodes.iter().max().map_or(0.0, |&most| most as f64 * 8.0 / CALLS as f64),
    }
}
