//! L9: the second stage as two clusters, users spread evenly and 60:40, and who moves when a cluster joins.

use std::sync::Arc;

use tandem_balance::{
    Board, Choice, Destination, HealthSettings, Letters, Mistake, PolicySettings, Pool, PoolSettings,
};
use tandem_base::{HashKey, Instant, Rng};
use tandem_sip::{Hop, ListenerId, Method};

use super::percent;
use crate::bench::Bench;
use crate::figures::Figures;
use crate::finding::{Claim, Finding, Table};
use crate::model::{Callees, Hold, Run, Server};
use crate::peak;
use crate::plot::{Curve, Plot};
use crate::subject::server_address;
use crate::world::simulate;

/// A cluster's capacity in Singh and Schulzrinne: 900 calls a second, three of our servers'.
const SPEED: f64 = 3.0;
const USERS: usize = 10_000;

pub(super) fn run(bench: &Bench<'_>) -> Result<Finding, Mistake> {
    let splits = [("even", "user-bernstein", 0.5), ("60:40", "user-letter", 0.6)];
    let peaks = bench.each(&splits, |&(name, policy, part)| {
        let peak = peak::find(&two_clusters(bench, policy, part), bench.tolerance() / 2.0)?.rate;
        bench.say(&format!("stages: {name}: {peak:.0} calls/s"));
        Ok(peak)
    })?;
    let rates = [1200.0, 1400.0, 1500.0, 1600.0, 1700.0, 1800.0, 1900.0];
    let jobs: Vec<(&str, &str, f64, f64)> = splits
        .iter()
        .flat_map(|&(name, policy, part)| rates.iter().map(move |&rate| (name, policy, part, rate)))
        .collect();
    let all = bench.each(&jobs, |&(name, policy, part, rate)| {
        let mut run = two_clusters(bench, policy, part);
        run.profile.rate = rate;
        let figures = simulate(&run)?;
        bench.say(&format!("stages: {name} at {rate}: {}", percent(figures.success())));
        Ok(figures)
    })?;
    let judged = bench.profile(1.0, Hold::NONE).judged.as_secs_f64();
    let mut table = Table::new(
        "Two clusters of 900 calls/s",
        &["users", "offered calls/s", "succeeded calls/s", "success %"],
    );
    let done = |figures: &Figures| figures.invites.answered as f64 / judged;
    for ((name, _, _, rate), figures) in jobs.iter().zip(&all) {
        table.row(vec![
            (*name).to_owned(),
            format!("{rate:.0}"),
            format!("{:.0}", done(figures)),
            format!("{:.3}", figures.success() * 100.0),
        ]);
    }
    let curves = splits
        .iter()
        .map(|&(name, _, _)| Curve {
            name: name.to_owned(),
            points: jobs
                .iter()
                .zip(&all)
                .filter(|((of, _, _, _), _)| *of == name)
                .map(|((_, _, _, rate), figures)| (*rate, done(figures)))
                .collect(),
        })
        .collect();
    let mut moves = Table::new(
        "Users that move when a cluster joins",
        &["policy", "clusters", "moved", "1/N of the old", "1/N of the new"],
    );
    let mut worst = 0.0_f64;
    let mut others = Vec::new();
    for policy in ["user", "user-bernstein", "user-sha1"] {
        for clusters in [2_u16, 4, 9] {
            let part = moved(bench, policy, clusters)?;
            let (old, new) = (1.0 / f64::from(clusters), 1.0 / f64::from(clusters + 1));
            if policy == "user" {
                worst = worst.max(part * f64::from(clusters));
            } else {
                others.push(format!("{policy} {clusters} -> {}: {}", clusters + 1, percent(part)));
            }
            moves.row(vec![
                policy.to_owned(),
                format!("{clusters} -> {}", clusters + 1),
                percent(part),
                percent(old),
                percent(new),
            ]);
        }
    }
    let value = |number: usize| peaks.get(number).copied().unwrap_or(0.0);
    let (even, skewed) = (value(0), value(1));
    Ok(Finding {
        name: "stages",
        question: "what does an uneven split of users cost, and who moves when a cluster joins?".into(),
        setup: vec![
            "Two clusters of one server with 900 calls/s each, which do not stand still; without pauses. Even: Bernstein's \
             hash of 10,000 user names. 60:40: by first letter, six users in ten under a to m. The first stage costs \
             nothing here."
                .into(),
        ],
        claims: vec![
            Claim::new(
                "L9",
                "evenly split, two clusters carry 1800 calls/s (at least 0.95 of it)",
                "1800",
                format!("{even:.0}"),
                even >= 0.95 * 1800.0,
                "Bernstein's hash of these names is not quite even, and at 99.99 % a queue must stay short",
            ),
            Claim::new(
                "L9",
                "split 60:40 they break at 1500 (900 / 0.6, within 5 %)",
                "drops from 1500",
                format!("{skewed:.0}"),
                (skewed - 1500.0).abs() <= 75.0,
                "the larger cluster is full at 900 calls/s; at 99.99 % it breaks a little before",
            ),
            Claim::new(
                "L9",
                "by rendezvous, at most 1/N of the users move when a cluster joins N others",
                "<= 1/N asked for (consistent hashing)",
                format!("{worst:.2} of 1/N at most; {}", others.join(", ")),
                worst <= 1.0,
                "a defect",
            ),
        ],
        controls: Vec::new(),
        tables: vec![table, moves],
        plots: vec![Plot {
            title: "Calls that succeed".into(),
            x: "calls/s offered".into(),
            y: "calls/s".into(),
            log_y: false,
            curves,
        }],
        took_s: 0,
    })
}

/// Users whose first letters are a to m in this part of all cases.
fn users(seed: u64, part: f64) -> Vec<String> {
    let mut rng = Rng::from_seed(seed);
    (0..USERS)
        .map(|number| {
            let letters: &[u8] = if rng.chance(part) { b"abcdefghijklm" } else { b"nopqrstuvwxyz" };
            let first = letters.get(rng.index(letters.len())).copied().unwrap_or(b'a');
            format!("{}user{number}", char::from(first))
        })
        .collect()
}

fn two_clusters(bench: &Bench<'_>, policy: &str, part: f64) -> Run {
    let mut run = bench.run(0, policy, bench.profile(1.0, Hold::NONE));
    run.servers = ["one", "two"]
        .map(|name| Server { speed: SPEED, cluster: Some(name.to_owned()), ..Server::default() })
        .to_vec();
    run.model.stalls = None;
    run.policy.letters = vec![
        Letters { from: b'a', to: b'm', cluster: Arc::from("one") },
        Letters { from: b'n', to: b'z', cluster: Arc::from("two") },
    ];
    run.profile.callees = Callees::Users(users(bench.seed, part));
    run
}

/// The part of users whose cluster changes when one joins.
fn moved(bench: &Bench<'_>, policy: &str, clusters: u16) -> Result<f64, Mistake> {
    let mut before = pool(bench, policy, clusters)?;
    let mut after = pool(bench, policy, clusters + 1)?;
    let users = users(bench.seed, 0.5);
    let mut count = 0_u32;
    for user in &users {
        let choice =
            Choice { call_id: b"c", user: Some(user.as_bytes()), method: Method::Invite, tried: &[] };
        let now = Instant::from_secs(1);
        count += u32::from(before.pick(now, &choice) != after.pick(now, &choice));
    }
    Ok(f64::from(count) / users.len() as f64)
}

fn pool(bench: &Bench<'_>, policy: &str, clusters: u16) -> Result<Pool, Mistake> {
    let destinations = (0..clusters)
        .map(|number| {
            Destination::new(&format!("c{number}"), Hop::udp(ListenerId(0), server_address(number)))
        })
        .collect();
    let settings = PoolSettings::new(
        "registrars",
        PolicySettings::new(policy),
        HealthSettings::default(),
        destinations,
    )?;
    let mut rng = Rng::from_seed(bench.seed);
    let key = HashKey::from_rng(&mut rng);
    Ok(Pool::new(Arc::new(settings), Arc::new(Board::new(clusters, 1)), 0, key, rng))
}
