//! `tandem ctl pool`: what the balancer has, and what an operator wants of it.

use crate::cli::PoolCommand;
use crate::control::client::Client;
use crate::control::protocol::{
    DestinationEntry, DnsEntry, PoolEntry, PoolState, Request, WeightEntry, WhyEntry,
};
use crate::ctl::{CtlError, Show, node, table};
use serde_json::json;
use std::io::{self, Write};

/// Asks or tells.
pub(crate) fn run(client: &mut Client, command: &PoolCommand, show: Show) -> Result<(), CtlError> {
    let state = |destination: &String, state| Request::PoolState { destination: destination.clone(), state };
    let request = match command {
        PoolCommand::List { pool } => return list(client, pool.as_deref(), show),
        PoolCommand::Why { call_id } => return why(client, call_id, show),
        PoolCommand::Drain { destination } => state(destination, PoolState::Draining),
        PoolCommand::Resume { destination } => state(destination, PoolState::Active),
        PoolCommand::Disable { destination } => state(destination, PoolState::Disabled),
        PoolCommand::Weight { destination, weight } => {
            Request::PoolWeight { destination: destination.clone(), weight: *weight }
        }
        PoolCommand::Remove { destination } => Request::PoolRemove { destination: destination.clone() },
        PoolCommand::Add { destination, address, weight, capacity, priority, cluster } => Request::PoolAdd {
            destination: destination.clone(),
            address: address.clone(),
            weight: *weight,
            capacity: *capacity,
            priority: *priority,
            cluster: cluster.clone(),
        },
    };
    node::tell(client, &request, show)
}

fn list(client: &mut Client, pool: Option<&str>, show: Show) -> Result<(), CtlError> {
    let pools: Vec<PoolEntry> = client.ask_for(&Request::PoolList { pool: pool.map(ToOwned::to_owned) })?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match show {
        Show::Json => pools.iter().try_for_each(|pool| writeln!(out, "{}", json!(pool)))?,
        Show::Text => write_pools(&mut out, &pools)?,
    }
    Ok(out.flush()?)
}

fn write_pools(out: &mut impl Write, pools: &[PoolEntry]) -> io::Result<()> {
    let rows: Vec<_> =
        pools.iter().flat_map(|pool| pool.destinations.iter().map(|one| row(&pool.pool, one))).collect();
    if pools.is_empty() {
        return writeln!(out, "this node has no pool");
    }
    for PoolEntry { pool, policy, generation, dns, weights, weight_bounds_thousandths, .. } in pools {
        let dns = match dns {
            Some(DnsEntry { stale_secs: Some(secs), because }) => format!(
                ", DNS stale for {}: {}",
                table::duration(*secs),
                because.as_deref().unwrap_or("it does not answer")
            ),
            Some(DnsEntry { stale_secs: None, .. }) => ", DNS answers".to_owned(),
            None => String::new(),
        };
        let (pool, policy) = (table::clean(pool), table::clean(policy));
        writeln!(out, "pool {pool}: {policy}, generation {generation}{}", table::clean(&dns))?;
        if !weights.is_empty() {
            let each: Vec<String> = weights.iter().map(weight).collect();
            let bounds = weight_bounds_thousandths.map_or_else(String::new, |(least, most)| {
                format!("; learned within {} and {}", decimal(least), decimal(most))
            });
            writeln!(out, "  a request weighs: {}{bounds}", table::clean(&each.join(", ")))?;
        }
    }
    let heads = [
        "DESTINATION",
        "ADDRESS",
        "STATE",
        "CALLS",
        "REQUESTS",
        "WORK",
        "WEIGHT",
        "PRIORITY",
        "SINCE",
        "BECAUSE",
    ];
    table::write(out, heads, &rows)
}

fn weight(one: &WeightEntry) -> String {
    let (least, most) = (decimal(one.least_thousandths), decimal(one.most_thousandths));
    let figure = if least == most { least } else { format!("{least} to {most}") };
    let how = if one.learned_by_shards > 0 { "learned" } else { "given" };
    format!("{} {figure} ({how})", one.method)
}

fn decimal(thousandths: u32) -> String {
    format!("{}.{:02}", thousandths / 1000, thousandths % 1000 / 10)
}

fn row(pool: &str, one: &DestinationEntry) -> [String; 10] {
    let state = match (one.leaving, one.held_secs) {
        (true, _) => "leaving".to_owned(),
        (false, Some(secs)) if one.state == "active" => format!("held {}", table::duration(secs)),
        (false, _) => one.state.clone(),
    };
    let share = if one.share_thousandths < 1000 {
        format!("{} ({} %)", one.weight, one.share_thousandths / 10)
    } else {
        one.weight.to_string()
    };
    let work = format!("{}.{:02}", one.work_thousandths / 1000, one.work_thousandths % 1000 / 10);
    [
        format!("{pool}/{}", one.id),
        one.address.clone(),
        state,
        one.calls.to_string(),
        one.requests.to_string(),
        work,
        share,
        one.priority.to_string(),
        table::duration(one.since_secs),
        one.reason.clone(),
    ]
}

fn why(client: &mut Client, call_id: &str, show: Show) -> Result<(), CtlError> {
    let request = Request::PoolWhy { call_id: call_id.to_owned() };
    if show == Show::Json {
        return node::tell(client, &request, show);
    }
    let why: WhyEntry = client.ask_for(&request)?;
    Ok(write_why(&mut io::stdout().lock(), &why)?)
}

fn write_why(out: &mut impl Write, why: &WhyEntry) -> io::Result<()> {
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row =
        |name: &str, value: Option<String>| rows.extend(value.map(|value| [name.to_owned(), value]));
    row("destination", why.destination.clone());
    row("address", why.address.clone());
    row("state", why.state.clone());
    row("came", why.since_secs.map(|secs| format!("{} ago", table::duration(secs))));
    row("calls ahead", why.ahead.map(|ahead| ahead.to_string()));
    row("cause", why.cause.clone());
    row("because", why.explanation.clone());
    table::write(out, ["pool", &table::clean(&why.pool)], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_listed_with_state_load_and_reason() {
        let one = DestinationEntry {
            id: "a".to_owned(),
            address: "192.0.2.1:5060".to_owned(),
            state: "active".to_owned(),
            reason: "it answers probes".to_owned(),
            since_secs: 61,
            held_secs: None,
            calls: 12,
            requests: 2,
            work_thousandths: 2750,
            figure: Some(2.75),
            weight: 4,
            share_thousandths: 500,
            capacity: None,
            priority: 0,
            leaving: false,
        };
        let held = DestinationEntry { held_secs: Some(7), share_thousandths: 1000, ..one.clone() };
        let pool = PoolEntry {
            pool: "media".to_owned(),
            policy: "tlwl".to_owned(),
            generation: 3,
            dns: Some(DnsEntry { stale_secs: Some(12), because: Some("no name server answers".to_owned()) }),
            weights: vec![
                WeightEntry {
                    method: "INVITE".to_owned(),
                    least_thousandths: 2100,
                    most_thousandths: 2400,
                    learned_by_shards: 2,
                },
                WeightEntry {
                    method: "others".to_owned(),
                    least_thousandths: 1000,
                    most_thousandths: 1000,
                    learned_by_shards: 0,
                },
            ],
            weight_bounds_thousandths: Some((250, 4000)),
            destinations: vec![one, held],
        };
        let mut out = Vec::new();
        write_pools(&mut out, &[pool]).expect("a vector takes all");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "pool media: tlwl, generation 3, DNS stale for 12 s: no name server answers");
        assert_eq!(
            lines[1],
            "  a request weighs: INVITE 2.10 to 2.40 (learned), others 1.00 (given); learned within 0.25 and 4.00"
        );
        assert!(lines[3].contains("active    12     2         2.75  4 (50 %)"), "{text}");
        assert!(lines[4].contains("held 7 s  12"), "{text}");
    }
}
