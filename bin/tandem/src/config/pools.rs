//! `tandem config import`: Kamailio's and OpenSIPS's destinations as `[[pool]]` tables.
//!
//! Read are a `dispatcher.list`, and the tables `dispatcher` and `load_balancer` in a dump or an SQLite file. What our
//! tables have no word for is told in a comment beside the row, so that nothing is lost unseen. The script that those
//! servers run is not read: the policy is ours by default.

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tandem_config::{Destination, HostPort};
use tandem_sip::{Transport, Uri};
use tandem_store::{ImportFile, Item, RawRow, Source as _, Table};

/// The port of a SIP URI without one (RFC 3261 §19.1.2).
const PORT: u16 = 5060;

/// One row, in the words of whoever it comes from.
#[derive(Debug, Default)]
struct Row<'a> {
    line: u64,
    set: &'a str,
    uri: &'a str,
    /// Kamailio: bits of the state; higher priorities first; `name=value` pairs.
    flags: &'a str,
    priority: &'a str,
    attrs: &'a str,
    /// OpenSIPS: `name=calls` pairs.
    resources: &'a str,
    description: &'a str,
}

/// A destination with the priority that its source gave, and what has to be told about it.
#[derive(Debug)]
struct Found {
    destination: Destination,
    priority: i64,
    remarks: Vec<String>,
}

/// All pools by name, and rows that make no destination.
#[derive(Debug, Default)]
struct Pools {
    pools: BTreeMap<String, Vec<Found>>,
    left_out: Vec<String>,
}

/// The pools of a file, as configuration.
pub(crate) fn import(file: &Path) -> anyhow::Result<String> {
    let mut pools = Pools::default();
    let text = std::fs::read(file).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    match std::str::from_utf8(&text) {
        Ok(text) if is_list(text) => pools.take_list(text),
        _ => pools.take_tables(file)?,
    }
    if pools.pools.is_empty() {
        let why = pools.left_out.first().map_or("it names no destination", String::as_str);
        anyhow::bail!(
            "{}: no pool in it: {why}; give a dispatcher.list, or a dump or an SQLite file with a table `dispatcher` or \
             `load_balancer`",
            file.display()
        );
    }
    Ok(pools.write(&file.display().to_string()))
}

/// Whether the first line that says anything begins as a destination of `dispatcher.list` does.
fn is_list(text: &str) -> bool {
    lines(text).next().is_some_and(|(_, line)| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|set| set.parse::<u32>().is_ok())
            && words.next().is_some_and(|uri| uri.starts_with("sip"))
    })
}

/// Lines with their numbers, comments and empty ones left out.
fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let all = (1..).zip(text.lines().map(str::trim));
    all.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Pools {
    fn take_list(&mut self, text: &str) {
        for (number, line) in lines(text) {
            let mut words = line.split_whitespace();
            let mut next = || words.next().unwrap_or_default();
            let (set, uri, flags, priority, attrs) = (next(), next(), next(), next(), next());
            self.take(&Row { line: number, set, uri, flags, priority, attrs, ..Row::default() });
        }
    }

    fn take_tables(&mut self, file: &Path) -> anyhow::Result<()> {
        let items = tandem_store::run(async {
            let mut source = ImportFile::open(file, Table::POOLS).await?;
            let mut items = Vec::new();
            while let Some(item) = source.next().await? {
                items.push(item);
            }
            Ok::<_, String>(items)
        });
        for item in items?.map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))? {
            match item {
                Item::Row(row) => match row_of(&row) {
                    Ok(row) => self.take(&row),
                    Err(why) => self.left_out.push(format!("row {}: {why}", row.line)),
                },
                Item::Broken { table, line, why } => {
                    self.left_out.push(format!("line {line}, table {}: {why}", table.name()));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, row: &Row<'_>) {
        match found(row) {
            Ok(mut found) => {
                let prefix = if row.resources.is_empty() { "set" } else { "group" };
                let pool = self.pools.entry(format!("{prefix}{}", row.set)).or_default();
                let taken: BTreeSet<&str> = pool.iter().map(|one| one.destination.id.as_str()).collect();
                let mut id = found.destination.id.clone();
                for number in 2.. {
                    if !taken.contains(id.as_str()) {
                        break;
                    }
                    id = format!("{}-{number}", found.destination.id);
                }
                found.destination.id = id;
                pool.push(found);
            }
            Err(why) => self.left_out.push(format!("line {}, {}: {why}", row.line, row.uri)),
        }
    }

    fn write(&self, file: &str) -> String {
        let mut text =
            format!("# The destinations of {file}. `tandem check` reads this file as `serve` would.\n");
        for why in &self.left_out {
            let _ = writeln!(text, "# Left out: {}", one_line(why));
        }
        for (at, (name, all)) in self.pools.iter().enumerate() {
            let _ = writeln!(text, "\n[[pool]]\nname = \"{name}\"");
            if at > 0 {
                text.push_str("# Whose calls are these? One pool may go without.\nhosts = [\"");
                let _ = writeln!(text, "{name}.invalid\"]");
            }
            text.push_str("destinations = [\n");
            // Theirs: the highest first. Ours: the lowest.
            let ranks: BTreeSet<i64> = all.iter().map(|one| -one.priority).collect();
            for one in all {
                let rank = ranks.iter().position(|&rank| rank == -one.priority).unwrap_or_default();
                let priority = u8::try_from(rank).unwrap_or(u8::MAX);
                let _ = write!(text, "  {},", Destination { priority, ..one.destination.clone() });
                if !one.remarks.is_empty() {
                    let _ = write!(text, " # {}", one_line(&one.remarks.join("; ")));
                }
                text.push('\n');
            }
            text.push_str("]\n");
        }
        text
    }
}

/// Their text in a comment of ours must not begin a line of its own.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn row_of(row: &RawRow) -> Result<Row<'_>, &'static str> {
    let line = row.line;
    let (attrs, description) = (row.text("attrs")?, row.text("description")?);
    Ok(match row.table {
        Table::LoadBalancer => Row {
            line,
            set: row.text("group_id")?,
            uri: row.text("dst_uri")?,
            resources: row.text("resources")?,
            attrs,
            description,
            ..Row::default()
        },
        Table::Dispatcher | Table::Subscriber | Table::Location => Row {
            line,
            set: row.text("setid")?,
            uri: row.text("destination")?,
            flags: row.text("flags")?,
            priority: row.text("priority")?,
            attrs,
            description,
            ..Row::default()
        },
    })
}

fn found(row: &Row<'_>) -> Result<Found, String> {
    if row.set.is_empty() || !row.set.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(format!("`{}` names no set", row.set));
    }
    let uri = Uri::parse(row.uri.as_bytes()).filter(Uri::is_sip).ok_or("this is no SIP URI")?;
    match uri.transport() {
        Ok(None | Some(Transport::Udp)) => {}
        Ok(Some(other)) => return Err(format!("pools speak UDP, and this asks for {other}")),
        Err(_) => return Err("an unknown transport".to_owned()),
    }
    let host = String::from_utf8_lossy(uri.host).trim_matches(['[', ']']).to_ascii_lowercase();
    let address = HostPort { host, port: uri.port.unwrap_or(PORT) };
    let (mut id, mut weight, mut capacity, mut remarks) = (None, 1, None, Vec::new());
    for (name, value) in pairs(row.attrs) {
        match name {
            "duid" if is_id(value) => id = Some(value.to_owned()),
            "weight" | "rweight" => match value.parse() {
                Ok(share) => weight = share,
                Err(_) => remarks.push(format!("{name}={value} is no weight")),
            },
            "maxload" => capacity = value.parse().ok().filter(|&calls: &u32| calls > 0),
            _ => remarks.push(format!("was {name}={value}")),
        }
    }
    let resources: Vec<_> = pairs(row.resources).collect();
    if let [(_, first), rest @ ..] = resources.as_slice() {
        match first.parse() {
            Ok(calls) => capacity = Some(calls).filter(|&calls| calls > 0),
            Err(_) => remarks.push(format!("was resources {}", row.resources)),
        }
        if !rest.is_empty() {
            remarks.push(format!("capacity is the first of {}", row.resources));
        }
    }
    let flags: u32 = row.flags.parse().unwrap_or(0);
    if flags & (1 | 4) != 0 {
        weight = 0;
        remarks.push(if flags & 4 != 0 { "was disabled" } else { "was inactive" }.to_owned());
    }
    if !row.description.is_empty() {
        remarks.push(row.description.to_owned());
    }
    let id = id.unwrap_or_else(|| format!("{}-{}", address.host.replace(':', "."), address.port));
    let destination = Destination { id, address, capacity, weight, priority: 0, cluster: None };
    Ok(Found { destination, priority: row.priority.parse().unwrap_or(0), remarks })
}

/// `name=value;name=value`
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.trim_matches('"').split(';').filter_map(|pair| pair.trim().split_once('='))
}

fn is_id(text: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(name: &str, text: &str) -> String {
        let file = std::env::temp_dir().join(format!("tandem-pools-{}-{name}", std::process::id()));
        std::fs::write(&file, text).expect("a temporary file");
        let read = import(&file);
        std::fs::remove_file(&file).expect("it was just written");
        read.expect("there are pools in it")
    }

    /// What `tandem check` would say.
    fn pools(text: &str) -> Vec<tandem_config::Pool> {
        match tandem_config::Config::check(text, "imported") {
            Ok((config, _)) => config.pools,
            Err(mistakes) => panic!("{text}\n{mistakes:?}"),
        }
    }

    #[test]
    fn a_dispatcher_list_becomes_a_pool_for_each_set() {
        let text = imported(
            "list",
            "# gateways\n1 sip:192.0.2.1:5080 0 10 duid=gw1;weight=60;socket=udp:192.0.2.9:5060\n\
             1 sip:192.0.2.2 1 10 rweight=40\n1 sip:[2001:db8::1]:5070;transport=udp 8 5 maxload=120\n\
             2 sip:media.example.org 0\n2 sip:192.0.2.7;transport=tls 0\nnonsense\n",
        );
        let pools = pools(&text);
        assert_eq!((pools[0].name.as_str(), pools[1].name.as_str()), ("set1", "set2"), "{text}");
        let all: Vec<_> = pools[0].destinations.iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                r#"{ id = "gw1", address = "192.0.2.1:5080", weight = 60 }"#,
                r#"{ id = "192.0.2.2-5060", address = "192.0.2.2:5060", weight = 0 }"#,
                r#"{ id = "2001.db8..1-5070", address = "[2001:db8::1]:5070", capacity = 120, priority = 1 }"#,
            ]
        );
        assert_eq!(pools[1].destinations.len(), 1);
        for told in ["was socket=udp:192.0.2.9:5060", "was inactive", "asks for tls", "Left out: line 7"] {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn rows_of_the_load_balancer_table_become_pools_with_capacities() {
        let text = imported(
            "dump",
            "CREATE TABLE `load_balancer` (`id` int, `group_id` int, `dst_uri` char(128), `resources` char(255), \
             `probe_mode` int, `attrs` char(255), `description` char(128));\n\
             INSERT INTO `load_balancer` VALUES (1,4,'sip:192.0.2.1:5080','pstn=32;vm=10',2,NULL,'Berlin\\n[[pool]]'),\
             (2,4,'sip:192.0.2.1:5080','pstn=64',2,'','');\n",
        );
        let pools = pools(&text);
        assert_eq!((pools.len(), pools[0].name.as_str()), (1, "group4"), "{text}");
        let all: Vec<_> = pools[0].destinations.iter().map(|one| (one.id.as_str(), one.capacity)).collect();
        assert_eq!(all, [("192.0.2.1-5080", Some(32)), ("192.0.2.1-5080-2", Some(64))]);
    }

    #[test]
    fn a_file_without_pools_is_refused_with_what_to_give_instead() {
        let file = std::env::temp_dir().join(format!("tandem-pools-{}-none", std::process::id()));
        std::fs::write(&file, "hello\n").expect("a temporary file");
        let said = import(&file).expect_err("nothing in it").to_string();
        std::fs::remove_file(&file).expect("it was just written");
        assert!(said.contains("dispatcher.list"), "{said}");
    }
}
