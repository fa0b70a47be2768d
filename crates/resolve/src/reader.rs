//! SRV and address records for those who keep what they read: asked anew each time, told with how long they hold.
//!
//! A [`Resolver`](crate::Resolver) answers "where does this request go now" out of a cache. A [`Reader`] answers "what
//! does DNS say at this moment, and when is it worth asking again", so it has no cache; and it tells an answer of
//! "nothing" from no answer at all. Left out: NAPTR, as there.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, Record};

use crate::{SrvRecord, TIMEOUT};

/// What DNS says, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer<T> {
    /// What was asked for, never empty, in no order.
    pub found: Vec<T>,
    /// The shortest time to live among the records; zero is allowed and means "ask again at once".
    pub ttl: Duration,
}

/// Why there is no [`Answer`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Silence {
    /// A name server answered that there are no such records.
    #[error("{0} has no {1} record")]
    NoRecords(String, &'static str),
    /// No name server answered in time, or none that could.
    #[error("no name server answers for {0}: {1}")]
    NoAnswer(String, String),
}

/// See the module.
pub struct Reader {
    client: TokioResolver,
}

impl Reader {
    /// Asks `servers`, by UDP and where that is too small by TCP; the system's name servers if there are none.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The system's configuration can't be read or names no server.
    pub fn new(servers: &[SocketAddr]) -> io::Result<Self> {
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio().map_err(io::Error::other)?
        } else {
            TokioResolver::builder_with_config(config(servers), TokioRuntimeProvider::default())
        };
        builder.options_mut().cache_size = 0;
        let client = builder.build().map_err(io::Error::other)?;
        Ok(Self { client })
    }

    /// The SRV records of `name`, as `_sip._udp.example.com`. A target of `.` is among them: it says that the service
    /// is decidedly not available (RFC 2782).
    ///
    /// # Errors
    ///
    /// [`Silence`], after 4 s at the latest.
    pub async fn services(&self, name: &str) -> Result<Answer<SrvRecord>, Silence> {
        let absolute = format!("{}.", name.trim_end_matches('.'));
        let lookup = in_time(name, "SRV", self.client.srv_lookup(absolute)).await?;
        answer(name, "SRV", lookup.answers(), |record| {
            // An answer may hold other records beside those asked for, as the CNAME that led to them.
            let RData::SRV(srv) = &record.data else { return None };
            let target = srv.target.to_utf8();
            Some(SrvRecord { priority: srv.priority, weight: srv.weight, port: srv.port, target })
        })
    }

    /// The addresses of `host`, of both families, by `/etc/hosts` and DNS.
    ///
    /// # Errors
    ///
    /// [`Silence`], after 4 s at the latest.
    pub async fn addresses(&self, host: &str) -> Result<Answer<IpAddr>, Silence> {
        let lookup = in_time(host, "A or AAAA", self.client.lookup_ip(host)).await?;
        answer(host, "A or AAAA", lookup.as_lookup().answers(), |record| record.data.ip_addr())
    }
}

/// A configuration of these name servers alone.
pub(crate) fn config(servers: &[SocketAddr]) -> ResolverConfig {
    let server = |server: &SocketAddr| {
        let connection = |protocol| {
            let mut connection = ConnectionConfig::new(protocol);
            connection.port = server.port();
            connection
        };
        let connections = vec![connection(ProtocolConfig::Udp), connection(ProtocolConfig::Tcp)];
        NameServerConfig::new(server.ip(), true, connections)
    };
    ResolverConfig::from_name_servers(servers.iter().map(server).collect())
}

async fn in_time<T>(
    name: &str,
    kind: &'static str,
    asked: impl Future<Output = Result<T, hickory_resolver::net::NetError>>,
) -> Result<T, Silence> {
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(lookup)) => Ok(lookup),
        Ok(Err(error)) if error.is_no_records_found() => Err(Silence::NoRecords(name.to_owned(), kind)),
        Ok(Err(error)) => Err(Silence::NoAnswer(name.to_owned(), error.to_string())),
        Err(_) => Err(Silence::NoAnswer(name.to_owned(), format!("{} s are over", TIMEOUT.as_secs()))),
    }
}

fn answer<T>(
    name: &str,
    kind: &'static str,
    records: &[Record],
    read: impl Fn(&Record) -> Option<T>,
) -> Result<Answer<T>, Silence> {
    let found: Vec<T> = records.iter().filter_map(read).collect();
    if found.is_empty() {
        return Err(Silence::NoRecords(name.to_owned(), kind));
    }
    let ttl = records.iter().map(|record| record.ttl).min().unwrap_or_default();
    Ok(Answer { found, ttl: Duration::from_secs(u64::from(ttl)) })
}
