//! Targets by NAPTR and SRV (RFC 3263 §4.1, §4.2): a name without a port becomes every server it names, by weight.
//!
//! A load wants all servers of the best priority at once, each with its share, where a user agent wants one to try
//! first; that is why the order of RFC 2782 is not drawn here. Left out: fail-over to worse priorities during a run.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};

use crate::load::Target;

/// Most servers of one name.
const SERVERS_MAX: usize = 64;

/// The servers of `host` for SIP over UDP: by NAPTR and SRV, else by SRV alone, else its first address at port 5060.
///
/// `server` is asked instead of the system's name servers. At most four seconds a name.
///
/// # Errors
///
/// What is wrong with the name or the name server, as one line.
pub fn targets(host: &str, server: Option<SocketAddr>, weight: u32) -> Result<Vec<Target>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let resolver = resolver(server)?;
        let limit = Duration::from_secs(4);
        let found = tokio::time::timeout(limit, look_up(&resolver, host, weight)).await;
        found.unwrap_or_else(|_| Err("no name server answered within 4 s".to_owned()))
    })
}

fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, String> {
    let builder = match server {
        Some(server) => {
            let mut connection = ConnectionConfig::udp();
            connection.port = server.port();
            let name_server = NameServerConfig::new(server.ip(), true, vec![connection]);
            let config = ResolverConfig::from_name_servers(vec![name_server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
        None => TokioResolver::builder_tokio().map_err(|error| error.to_string())?,
    };
    builder.build().map_err(|error| error.to_string())
}

async fn look_up(resolver: &TokioResolver, host: &str, weight: u32) -> Result<Vec<Target>, String> {
    let host = host.trim_end_matches('.');
    let service = naptr(resolver, host).await.unwrap_or_else(|| format!("_sip._udp.{host}."));
    let mut found = Vec::new();
    for (share, port, name) in services(resolver, &service).await {
        for ip in addresses(resolver, &name).await.into_iter().take(1) {
            found.push(Target { addr: SocketAddr::new(ip, port), weight: share.max(1) * weight });
        }
    }
    if found.is_empty() {
        let first = addresses(resolver, &format!("{host}.")).await.into_iter().next();
        let ip = first.ok_or("has neither SRV records with addresses nor an address")?;
        found.push(Target { addr: SocketAddr::new(ip, 5060), weight });
    }
    found.truncate(SERVERS_MAX);
    Ok(found)
}

/// The SRV name of the best NAPTR record for SIP over UDP: lowest order, then lowest preference (RFC 3403 §4.1).
async fn naptr(resolver: &TokioResolver, host: &str) -> Option<String> {
    let lookup = resolver.lookup(format!("{host}."), RecordType::NAPTR).await.ok()?;
    let records = lookup
        .answers()
        .iter()
        .filter_map(|record| if let RData::NAPTR(naptr) = &record.data { Some(naptr) } else { None });
    let ours =
        records.filter(|n| n.services.eq_ignore_ascii_case(b"SIP+D2U") && n.flags.eq_ignore_ascii_case(b"s"));
    ours.min_by_key(|n| (n.order, n.preference)).map(|n| n.replacement.to_utf8())
}

/// Weight, port and host of the SRV records of the best priority.
async fn services(resolver: &TokioResolver, name: &str) -> Vec<(u32, u16, String)> {
    let Ok(lookup) = resolver.srv_lookup(name).await else { return Vec::new() };
    let records: Vec<_> = lookup
        .answers()
        .iter()
        .filter_map(|record| if let RData::SRV(srv) = &record.data { Some(srv) } else { None })
        .collect();
    let best = records.iter().map(|srv| srv.priority).min();
    let best = records.iter().filter(|srv| Some(srv.priority) == best);
    best.map(|srv| (u32::from(srv.weight), srv.port, srv.target.to_utf8())).collect()
}

async fn addresses(resolver: &TokioResolver, name: &str) -> Vec<IpAddr> {
    let Ok(lookup) = resolver.lookup_ip(name).await else { return Vec::new() };
    let mut found: Vec<IpAddr> = lookup.iter().collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn octet(length: usize) -> u8 {
        u8::try_from(length).unwrap()
    }

    fn put_name(out: &mut Vec<u8>, name: &str) {
        for label in name.trim_end_matches('.').split('.').filter(|label| !label.is_empty()) {
            out.push(octet(label.len()));
            out.extend_from_slice(label.as_bytes());
        }
        out.push(0);
    }

    /// A name server of three record types (RFC 1035 §4.1, RFC 2782, RFC 3403) that ends with the socket's timeout.
    fn serve(socket: &UdpSocket) {
        socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let mut query = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut query) {
            let mut end = 12;
            let mut name = String::new();
            while query[end] != 0 {
                let label = usize::from(query[end]);
                name +=
                    &format!("{}.", String::from_utf8_lossy(&query[end + 1..=end + label]).to_lowercase());
                end += label + 1;
            }
            let kind = u16::from_be_bytes([query[end + 1], query[end + 2]]);
            let mut datas: Vec<Vec<u8>> = Vec::new();
            match (name.as_str(), kind) {
                ("example.test.", 35) => {
                    for (order, service, to) in [
                        (20, "SIP+D2U", "no.test."),
                        (10, "SIP+D2U", "_s.test."),
                        (5, "SIP+D2T", "tcp.test."),
                    ] {
                        let mut data = vec![0, order, 0, 0, 1, b's', octet(service.len())];
                        data.extend_from_slice(service.as_bytes());
                        data.push(0);
                        put_name(&mut data, to);
                        datas.push(data);
                    }
                }
                ("_s.test.", 33) => {
                    for (priority, weight, port, to) in
                        [(1, 3, 70, "a.test."), (1, 1, 71, "b.test."), (2, 9, 72, "a.test.")]
                    {
                        let mut data = vec![0, priority, 0, weight, 0, port];
                        put_name(&mut data, to);
                        datas.push(data);
                    }
                }
                ("a.test.", 1) => datas.push(vec![10, 0, 0, 1]),
                ("b.test.", 1) => datas.push(vec![10, 0, 0, 2]),
                _ => {}
            }
            let mut answer = query[..end + 5].to_vec();
            answer[2..4].copy_from_slice(&[0x84, 0]);
            answer[4..12].copy_from_slice(&[0, 1, 0, octet(datas.len()), 0, 0, 0, 0]);
            for data in datas {
                answer.extend_from_slice(&[0xc0, 12]);
                answer.extend_from_slice(&kind.to_be_bytes());
                answer.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, octet(data.len())]);
                answer.extend_from_slice(&data);
            }
            assert!(length >= end + 5);
            socket.send_to(&answer, peer).unwrap();
        }
    }

    /// The NAPTR of the lowest order for UDP leads to the SRV records; those of priority 1 share 3 : 1.
    #[test]
    fn a_name_becomes_its_best_servers_by_weight() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        std::thread::spawn(move || serve(&socket));
        let found = targets("example.test", Some(server), 1).unwrap();
        let target = |text: &str, weight| Target { addr: text.parse().unwrap(), weight };
        assert_eq!(found, [target("10.0.0.1:70", 3), target("10.0.0.2:71", 1)]);
        let plain = targets("b.test", Some(server), 2).unwrap();
        assert_eq!(plain, [target("10.0.0.2:5060", 2)]);
        assert!(targets("nowhere.test", Some(server), 1).is_err());
    }
}
