//! From SRV records to a pool's destinations: RFC 2782 as a balancer reads it.
//!
//! A client of RFC 2782 draws one server to try first; a balancer wants all of them at once, each with its share. So
//! priorities become the pool's priorities and weights its weights, and a host and port is a destination, whatever
//! else runs on that host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tandem_balance::Destination;
use tandem_resolve::SrvRecord;
use tandem_sip::{Hop, ListenerId};

/// What DNS said last of each name.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    pub(crate) services: BTreeMap<String, Vec<SrvRecord>>,
    pub(crate) hosts: BTreeMap<String, Vec<IpAddr>>,
}

impl Known {
    /// The hosts that the records of `names` point to.
    pub(crate) fn targets(&self, names: &[String]) -> BTreeSet<String> {
        self.records(names).map(host).collect()
    }

    fn records(&self, names: &[String]) -> impl Iterator<Item = &SrvRecord> {
        let records = names.iter().filter_map(|name| self.services.get(name)).flatten();
        // A target of "." says that the service is not offered.
        records.filter(|record| record.port != 0 && is_host_name(&host(record)))
    }

    /// The destinations that the records of `names` make, at most `max`, those of the first priorities.
    ///
    /// A host with several addresses is one destination at one of them: at the one that `before` uses as long as DNS
    /// offers it, else at the first that a listener reaches. A host without any is left out.
    pub(crate) fn destinations(
        &self,
        names: &[String],
        before: &[Destination],
        max: usize,
        listener: impl Fn(SocketAddr) -> Option<ListenerId>,
    ) -> Vec<Destination> {
        let mut records: Vec<&SrvRecord> = self.records(names).collect();
        records.sort_by(|a, b| {
            (a.priority, host(a), a.port, b.weight).cmp(&(b.priority, host(b), b.port, a.weight))
        });
        let tiers = tiers(records.iter().map(|record| record.priority).collect());
        let mut taken = BTreeSet::new();
        let mut found = Vec::new();
        for record in records {
            if found.len() >= max {
                break;
            }
            let id = format!("{}-{}", host(record), record.port);
            let Some(addresses) = self.hosts.get(&host(record)) else { continue };
            let mut addresses = addresses.clone();
            addresses.sort_by_key(|ip| (ip.is_ipv6(), *ip));
            let in_use = before.iter().find(|one| one.id.as_str() == id).map(|one| one.hop.peer);
            let reached = addresses.into_iter().filter_map(|ip| {
                let peer = SocketAddr::new(ip, record.port);
                Some((peer, listener(peer)?))
            });
            let reached: Vec<_> = reached.collect();
            let stays = reached.iter().find(|(peer, _)| Some(*peer) == in_use);
            let Some(&(peer, listener)) = stays.or(reached.first()) else { continue };
            if !taken.insert(id.clone()) {
                continue; // the same host and port again, of a later priority
            }
            found.push(Destination {
                // "Very small" in RFC 2782, where 0 is "no calls" here: its algorithm draws a weight of 0 in one of
                // (sum of weights + 1) cases, which is what a weight of 1 gets.
                weight: record.weight.max(1),
                tier: tiers.get(&record.priority).copied().unwrap_or(u8::MAX),
                ..Destination::new(&id, Hop::udp(listener, peer))
            });
        }
        found
    }
}

fn host(record: &SrvRecord) -> String {
    record.target.trim_end_matches('.').to_ascii_lowercase()
}

/// An id stands in metrics, commands and logs.
fn is_host_name(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Priorities are the pool's own as far as these go; higher ones keep their order at the end of the scale.
fn tiers(priorities: BTreeSet<u16>) -> BTreeMap<u16, u8> {
    let mut limit = u8::MAX;
    let mut tiers = BTreeMap::new();
    for priority in priorities.into_iter().rev() {
        let tier = u8::try_from(priority).unwrap_or(u8::MAX).min(limit);
        tiers.insert(priority, tier);
        limit = tier.saturating_sub(1);
    }
    tiers
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "_sip._udp.pool.example.com";

    fn record(priority: u16, weight: u16, target: &str, port: u16) -> SrvRecord {
        SrvRecord { priority, weight, port, target: target.to_owned() }
    }

    fn known(records: Vec<SrvRecord>, hosts: &[(&str, &[&str])]) -> Known {
        let ips = |ips: &[&str]| ips.iter().map(|ip| ip.parse().expect("an address")).collect();
        Known {
            services: [(NAME.to_owned(), records)].into(),
            hosts: hosts.iter().map(|(host, all)| ((*host).to_owned(), ips(all))).collect(),
        }
    }

    fn read(known: &Known, before: &[Destination], max: usize) -> Vec<Destination> {
        let listener = |peer: SocketAddr| peer.is_ipv4().then_some(ListenerId(0));
        known.destinations(&[NAME.to_owned()], before, max, listener)
    }

    fn told(found: &[Destination]) -> Vec<String> {
        let tell = |one: &Destination| format!("{} {} {}*{}", one.id, one.hop.peer, one.tier, one.weight);
        found.iter().map(tell).collect()
    }

    /// Kambourakis et al., §3.1: shares of 60, 20, 10 and 10 %, and a backup.
    fn papers() -> Known {
        let records = vec![
            record(20, 0, "backup.example.com.", 5060),
            record(10, 10, "small2.example.com.", 5066),
            record(10, 60, "Big.example.com.", 5060),
            record(10, 20, "medium.example.com.", 5060),
            record(10, 10, "small2.example.com.", 5060),
        ];
        let hosts: &[(&str, &[&str])] = &[
            ("big.example.com", &["192.0.2.1"]),
            ("medium.example.com", &["192.0.2.2"]),
            ("small2.example.com", &["192.0.2.3"]),
            ("backup.example.com", &["192.0.2.4"]),
        ];
        known(records, hosts)
    }

    #[test]
    fn the_papers_records_are_five_destinations_two_of_them_on_one_host() {
        let found = read(&papers(), &[], 10);
        assert_eq!(
            told(&found),
            [
                "big.example.com-5060 192.0.2.1:5060 10*60",
                "medium.example.com-5060 192.0.2.2:5060 10*20",
                "small2.example.com-5060 192.0.2.3:5060 10*10",
                "small2.example.com-5066 192.0.2.3:5066 10*10",
                "backup.example.com-5060 192.0.2.4:5060 20*1",
            ]
        );
        // Where there is room for less, the backup goes first.
        assert_eq!(told(&read(&papers(), &[], 4)), told(&found[..4]));
        let hosts = papers().targets(&[NAME.to_owned()]);
        assert_eq!(
            hosts.into_iter().collect::<Vec<_>>(),
            ["backup", "big", "medium", "small2"].map(|name| format!("{name}.example.com"))
        );
    }

    #[test]
    fn a_service_that_is_not_offered_and_a_host_that_nothing_reaches_are_no_destinations() {
        let records = vec![
            record(1, 1, ".", 0),
            record(1, 1, "six.example.com.", 5060),
            record(1, 1, "unknown.example.com.", 5060),
            record(1, 1, "bad name\\.example.com.", 5060),
        ];
        let known = known(
            records,
            &[("six.example.com", &["2001:db8::1"]), ("bad name\\.example.com", &["192.0.2.1"])],
        );
        assert_eq!(told(&read(&known, &[], 10)), Vec::<String>::new());
    }

    #[test]
    fn an_address_in_use_stays_while_dns_offers_it_whatever_the_order() {
        let records = || vec![record(1, 1, "a.example.com.", 5060)];
        let first = read(&known(records(), &[("a.example.com", &["192.0.2.9", "192.0.2.5"])]), &[], 10);
        assert_eq!(told(&first), ["a.example.com-5060 192.0.2.5:5060 1*1"]);
        let more = known(records(), &[("a.example.com", &["192.0.2.1", "192.0.2.5"])]);
        assert_eq!(told(&read(&more, &first, 10)), told(&first));
        let moved = known(records(), &[("a.example.com", &["192.0.2.7"])]);
        assert_eq!(told(&read(&moved, &first, 10)), ["a.example.com-5060 192.0.2.7:5060 1*1"]);
    }

    #[test]
    fn priorities_beyond_the_scale_keep_their_order_and_a_repeated_server_its_first_one() {
        let records = vec![
            record(65_535, 1, "d.example.com.", 1),
            record(300, 1, "c.example.com.", 1),
            record(254, 1, "b.example.com.", 1),
            record(3, 7, "a.example.com.", 1),
            record(300, 9, "a.example.com.", 1),
        ];
        let hosts: Vec<(String, Vec<IpAddr>)> = ["a", "b", "c", "d"]
            .iter()
            .map(|name| (format!("{name}.example.com"), vec!["192.0.2.1".parse().expect("an address")]))
            .collect();
        let known =
            Known { services: [(NAME.to_owned(), records)].into(), hosts: hosts.into_iter().collect() };
        let found = read(&known, &[], 10);
        let told: Vec<_> = found.iter().map(|one| (one.tier, one.weight)).collect();
        assert_eq!(told, [(3, 7), (253, 1), (254, 1), (255, 1)]);
    }
}
