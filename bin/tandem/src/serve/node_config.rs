//! From the operator's configuration to the node's.

use anyhow::Context as _;
use std::sync::Arc;
use tandem_config::{self as operator, Config};
use tandem_node as node;
use tandem_proxy as proxy;
use tandem_registrar as registrar;

/// What every shard is told.
///
/// # Errors
///
/// Never for a checked configuration; a listener that the proxy does not take is told by its address.
pub(crate) fn node_config(
    config: &Config,
    balance: Option<Arc<tandem_balance::Config>>,
) -> anyhow::Result<Arc<node::Config>> {
    let listeners = listeners(config)?;
    let domains = node::Domains::new(&config.domains).context("no domain is configured")?;
    // A pool that takes everything else takes this node's own addresses too; without domains nobody registers here.
    let takes_rest = config.pools.iter().any(|pool| pool.hosts.is_empty());
    let serves_users = config.registrar.enabled && !(takes_rest && config.domains == ["localhost"]);
    let registrar = serves_users.then(|| policy(config, &listeners));
    let forward = proxy_config(config);
    Ok(Arc::new(node::Config {
        mode: match config.proxy.mode {
            operator::ProxyMode::Auto => node::Mode::Auto,
            operator::ProxyMode::Stateless => node::Mode::Stateless,
            operator::ProxyMode::Stateful => node::Mode::Stateful,
            operator::ProxyMode::Redirect => node::Mode::Redirect,
        },
        proxy: forward,
        transaction: transaction(config),
        registrar,
        balance,
        auth: auth(&config.auth),
        limits: limits(&config.limits),
        durability: match config.store.durability {
            operator::Durability::Memory => node::Durability::Memory,
            operator::Durability::Async => node::Durability::Async,
            operator::Durability::Commit => node::Durability::Commit,
        },
        persist_in_flight_max: u32::try_from(config.store.queue_max).unwrap_or(u32::MAX),
        server: config.node.server.clone().into_bytes(),
        listeners,
        domains,
    }))
}

pub(crate) fn listeners(config: &Config) -> anyhow::Result<node::Listeners> {
    let listener = |listen: &operator::Listen| {
        let operator::ListenUri { transport, address } = listen.uri;
        let advertise = listen.advertise.as_ref().map(ToString::to_string);
        node::Listener::new(transport, address, advertise.as_deref())
            .with_context(|| format!("{} cannot be told to peers", listen.uri))
    };
    Ok(node::Listeners::new(config.listen.iter().map(listener).collect::<anyhow::Result<_>>()?))
}

fn proxy_config(config: &Config) -> proxy::Config {
    let operator::Proxy {
        fork,
        record_route,
        recurse_redirects,
        timer_c,
        dialog_lifetime,
        max_forwards,
        max_breadth,
        ..
    } = config.proxy;
    proxy::Config {
        fork: match fork {
            operator::Fork::Parallel => proxy::Fork::Parallel,
            operator::Fork::Serial => proxy::Fork::Serial,
        },
        record_route,
        recurse_redirects,
        timer_c,
        dialog_lifetime,
        max_forwards,
        max_breadth: u32::from(max_breadth),
        branches_max: config.proxy.branches_max,
        contexts_max: half(config.transaction.live_max),
    }
}

fn transaction(config: &Config) -> tandem_transaction::Config {
    let operator::Transaction { t1, t2, t4, live_max } = config.transaction;
    tandem_transaction::Config { t1, t2, t4, servers_max: half(live_max), clients_max: half(live_max) }
}

/// Half of the transactions are received, half are sent.
fn half(live_max: usize) -> u32 {
    u32::try_from(live_max / 2).unwrap_or(u32::MAX)
}

fn policy(config: &Config, listeners: &node::Listeners) -> registrar::Policy {
    let operator::Registrar { expires_min, expires_default, expires_max, .. } = config.registrar;
    let first = listeners.iter().next().filter(|_| config.registrar.service_route);
    registrar::Policy {
        expires_default,
        expires_min,
        expires_max,
        contacts_max: config.registrar.contacts_max,
        binding_bytes_max: config.registrar.binding_bytes_max,
        path: match config.registrar.path {
            operator::PathPolicy::Accept => registrar::PathPolicy::Accept,
            operator::PathPolicy::RequireSupport => registrar::PathPolicy::RequireSupport,
        },
        service_route: first.map(|first| [b"<sip:", first.sent_by(), b";lr>"].concat()).unwrap_or_default(),
    }
}

fn auth(auth: &operator::Auth) -> node::Auth {
    let network =
        |network: &operator::Network| node::Network { address: network.address, prefix: network.prefix };
    let free = u16::try_from(auth.guesses_free).unwrap_or(u16::MAX);
    let defaults = tandem_auth::GuessLimits::default();
    node::Auth {
        challenge: match auth.challenge {
            operator::Challenge::Outside => node::Challenge::Outside,
            operator::Challenge::Always => node::Challenge::Always,
            operator::Challenge::Never => node::Challenge::Never,
        },
        trusted: auth.trusted.iter().map(network).collect(),
        realm: auth.realm.clone().map(String::into_bytes),
        guesses: tandem_auth::GuessLimits {
            source_free: free,
            source_delay_max: auth.guess_delay_max,
            // It takes several sources to slow a user down.
            aor_free: free.saturating_mul(4),
            aor_delay_max: defaults.aor_delay_max.min(auth.guess_delay_max),
            forgiven_after: auth.guess_forgiven_after,
            ..defaults
        },
    }
}

pub(crate) fn limits(limits: &operator::SipLimits) -> tandem_sip::Limits {
    tandem_sip::Limits {
        message_bytes_max: limits.message_bytes_max,
        start_line_bytes_max: limits.start_line_bytes_max,
        header_bytes_max: limits.header_bytes_max,
        headers_max: limits.headers_max,
        values_max: limits.values_max,
        token_bytes_max: limits.token_bytes_max,
    }
}

/// What the challenger is told, `unix_ms_at_zero` being the wall clock at the process' start.
pub(crate) fn challenger_config(
    auth: &operator::Auth,
    unix_ms_at_zero: u64,
) -> tandem_auth::ChallengerConfig {
    let algorithm = |algorithm: &operator::Algorithm| match algorithm {
        operator::Algorithm::Sha256 => tandem_auth::Algorithm::Sha256,
        operator::Algorithm::Md5 => tandem_auth::Algorithm::Md5,
    };
    tandem_auth::ChallengerConfig {
        nonce_lifetime: auth.nonce_lifetime,
        algorithms: auth.algorithms.iter().map(algorithm).collect(),
        unix_ms_at_zero,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/CONFIG.md promises the core's own bounds as defaults where it has them.
    #[test]
    fn the_documented_defaults_are_the_cores() {
        let config = node_config(&Config::default(), None).expect("the default is sound");
        assert_eq!(config.limits, tandem_sip::Limits::default());
        let core = tandem_transaction::Config::default();
        let (ours, own) = (config.transaction, core);
        assert_eq!((ours.t1, ours.t2, ours.t4), (own.t1, own.t2, own.t4));
        assert_eq!(config.server, b"Tandem");
        assert!(config.registrar.as_ref().is_some_and(|policy| policy.service_route.is_empty()));
    }

    #[test]
    fn a_service_route_names_the_advertised_listener() {
        let text = "[[listen]]\nuri = \"udp:0.0.0.0:5060\"\nadvertise = \"sip.example.org:5070\"\n\
                    [registrar]\nservice_route = true\n";
        let (config, _) = Config::check(text, "f").expect("sound");
        let config = node_config(&config, None).expect("sound");
        let policy = config.registrar.as_ref().expect("it registers");
        assert_eq!(policy.service_route, b"<sip:sip.example.org:5070;lr>");
    }
}
