//! From a host name to addresses, in the order to try them: RFC 3263 §4.2 for a transport that is known.
//!
//! The packets' path never waits here: a shard asks the control thread, which asks a [`Resolver`]. Left out: NAPTR
//! (§4.1), which chooses among transports, while this build speaks one.

mod order;
mod reader;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::proto::rr::RData;
use tandem_base::Rng;
use tandem_sip::Transport;

pub use order::{SrvRecord, order};
pub use reader::{Answer, Reader, Silence};

/// How many addresses of one name are tried at most.
const ADDRESSES_MAX: usize = 16;

/// How long one look-up may take before the name counts as unknown.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Asks the system's name servers, through a cache that keeps answers for as long as they say.
pub struct Resolver {
    client: TokioResolver,
    rng: Mutex<Rng>,
}

impl Resolver {
    /// A resolver by the system's configuration (`/etc/resolv.conf`, `/etc/hosts`); `seed` draws among SRV weights.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The configuration can't be read or names no server.
    pub fn from_system(seed: u64) -> io::Result<Self> {
        let client =
            TokioResolver::builder_tokio().and_then(|builder| builder.build()).map_err(io::Error::other)?;
        Ok(Self { client, rng: Mutex::new(Rng::from_seed(seed)) })
    }

    /// A resolver that asks `servers`; the system's if there are none.
    ///
    /// # Errors
    ///
    /// As [`Resolver::from_system`].
    pub fn new(servers: &[SocketAddr], seed: u64) -> io::Result<Self> {
        match servers {
            [] => Self::from_system(seed),
            servers => Self::with_config(reader::config(servers), seed),
        }
    }

    /// A resolver that asks the servers of `config` only.
    ///
    /// # Errors
    ///
    /// The configuration is not usable.
    pub fn with_config(config: ResolverConfig, seed: u64) -> io::Result<Self> {
        let provider = hickory_resolver::net::runtime::TokioRuntimeProvider::default();
        let client =
            TokioResolver::builder_with_config(config, provider).build().map_err(io::Error::other)?;
        Ok(Self { client, rng: Mutex::new(Rng::from_seed(seed)) })
    }

    /// The addresses of `host`, in the order to try them; none if it has none or no server answers in time.
    ///
    /// With a port its A and AAAA records are meant; without, its SRV records for `transport`, and failing those its
    /// addresses at the default port (RFC 3263 §4.2).
    pub async fn addresses(&self, host: &str, port: Option<u16>, transport: Transport) -> Vec<SocketAddr> {
        let found = tokio::time::timeout(TIMEOUT, self.look_up(host, port, transport)).await;
        found.unwrap_or_default()
    }

    async fn look_up(&self, host: &str, port: Option<u16>, transport: Transport) -> Vec<SocketAddr> {
        if let Some(port) = port {
            return self.hosts(host, port).await;
        }
        let targets = self.services(host, transport).await;
        if targets.is_empty() {
            return self.hosts(host, transport.default_port()).await;
        }
        let mut addresses = Vec::new();
        for SrvRecord { target, port, .. } in targets {
            addresses.extend(self.hosts(&target, port).await);
            if addresses.len() >= ADDRESSES_MAX {
                addresses.truncate(ADDRESSES_MAX);
                break;
            }
        }
        addresses
    }

    async fn services(&self, host: &str, transport: Transport) -> Vec<SrvRecord> {
        let name = match transport {
            Transport::Udp => format!("_sip._udp.{host}."),
            Transport::Tcp => format!("_sip._tcp.{host}."),
            Transport::Tls => format!("_sips._tcp.{host}."),
            Transport::Ws => format!("_sip._ws.{host}."),
            Transport::Wss => format!("_sips._ws.{host}."),
        };
        let Ok(lookup) = self.client.srv_lookup(name).await else { return Vec::new() };
        let records = lookup.answers().iter().filter_map(|record| {
            // An answer may hold other records beside those asked for.
            let RData::SRV(srv) = &record.data else { return None };
            Some(SrvRecord {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_utf8(),
            })
        });
        let records = records.collect();
        order(records, &mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn hosts(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        let Ok(lookup) = self.client.lookup_ip(host).await else { return Vec::new() };
        let mut addresses: Vec<IpAddr> = lookup.iter().take(ADDRESSES_MAX).collect();
        // What the listener can't reach is passed over by the proxy; IPv4 first spares most of those turns.
        addresses.sort_by_key(|ip| ip.is_ipv6());
        addresses.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
    }
}
