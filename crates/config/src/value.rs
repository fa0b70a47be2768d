//! The values a key can have, how they are read from a string and how they are shown.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use tandem_sip::Transport;

/// One checked value; its `Display` is TOML that reads back as the same value, except for a [`Secret`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A number of things.
    Count(u64),
    /// A time span.
    Duration(Duration),
    /// A number of octets.
    Size(u64),
    /// Text, a name or a path.
    Text(String),
    /// One of the key's words.
    Word(&'static str),
    /// A listener.
    Listen(ListenUri),
    /// A host and port that others can reach.
    HostPort(HostPort),
    /// An address to listen on, or `off`.
    Address(Address),
    /// A network.
    Network(Network),
    /// Which cores the shards are pinned to.
    Cores(Cores),
    /// A key that is never shown.
    Secret(Secret),
    /// A server of a pool.
    Destination(Destination),
    /// Several values.
    List(Vec<Self>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Count(value) => write!(f, "{value}"),
            Self::Duration(value) => write!(f, "\"{}\"", show_duration(*value)),
            Self::Size(value) => write!(f, "\"{}\"", show_size(*value)),
            Self::Text(value) => write!(f, "{}", quote(value)),
            Self::Word(value) => write!(f, "\"{value}\""),
            Self::Listen(value) => write!(f, "\"{value}\""),
            Self::HostPort(value) => write!(f, "\"{value}\""),
            Self::Address(value) => write!(f, "\"{value}\""),
            Self::Network(value) => write!(f, "\"{value}\""),
            Self::Cores(value) => write!(f, "{value}"),
            Self::Destination(value) => write!(f, "{value}"),
            Self::Secret(_) => f.write_str("\"(hidden)\""),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A TOML basic string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// What is wrong with a value, and what to write instead.
pub(crate) type Wrong = (String, String);

fn wrong<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, Wrong> {
    Err((what.into(), remedy.into()))
}

/// In microseconds.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Reads `500ms`, `32s`, `5m`, `2h` or `1d`.
pub(crate) fn read_duration(text: &str) -> Result<Duration, Wrong> {
    let (digits, unit) = split_unit(text);
    let (Ok(number), Some((_, factor))) =
        (digits.parse::<u64>(), DURATION_UNITS.into_iter().find(|(name, _)| *name == unit))
    else {
        return wrong(
            format!("{} is not a duration", quote(text)),
            r#"write a whole number and us, ms, s, m, h or d, as "500ms" or "32s""#,
        );
    };
    Ok(Duration::from_micros(number.saturating_mul(factor)))
}

/// The shortest spelling without rounding.
pub(crate) fn show_duration(duration: Duration) -> String {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let (unit, factor) = DURATION_UNITS
        .into_iter()
        .rev()
        .find(|(_, factor)| micros != 0 && micros.is_multiple_of(*factor))
        .unwrap_or(("s", 1_000_000));
    format!("{}{unit}", micros / factor)
}

const SIZE_UNITS: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads `512B`, `64KiB`, `1MiB` or `2GiB`.
pub(crate) fn read_size(text: &str) -> Result<u64, Wrong> {
    let (digits, unit) = split_unit(text);
    if let (Ok(number), Some((_, factor))) =
        (digits.parse::<u64>(), SIZE_UNITS.into_iter().find(|(name, _)| *name == unit))
    {
        return Ok(number.saturating_mul(factor));
    }
    let remedy = match (unit.to_ascii_lowercase().as_str(), digits) {
        ("k" | "kb" | "kib", digits) if !digits.is_empty() => {
            format!("write \"{digits}KiB\" (1,024 octets each)")
        }
        ("m" | "mb" | "mib", digits) if !digits.is_empty() => {
            format!("write \"{digits}MiB\" (1,048,576 octets each)")
        }
        ("g" | "gb" | "gib", digits) if !digits.is_empty() => format!("write \"{digits}GiB\""),
        _ => r#"write a whole number and B, KiB, MiB or GiB, as "64KiB""#.to_owned(),
    };
    wrong(format!("{} is not a size", quote(text)), remedy)
}

/// The shortest spelling without rounding.
pub(crate) fn show_size(octets: u64) -> String {
    let (unit, factor) = SIZE_UNITS
        .into_iter()
        .rev()
        .find(|(_, factor)| octets != 0 && octets.is_multiple_of(*factor))
        .unwrap_or(("B", 1));
    format!("{}{unit}", octets / factor)
}

fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Where the node listens: `udp:127.0.0.1:5060` or `udp:[::1]:5060`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenUri {
    /// How the bytes travel; UDP in this build.
    pub transport: Transport,
    /// The local address and port.
    pub address: SocketAddr,
}

impl fmt::Display for ListenUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

pub(crate) fn read_listen(text: &str) -> Result<ListenUri, Wrong> {
    const FORM: &str = r#"write "udp:ADDRESS:PORT", as "udp:127.0.0.1:5060" or "udp:[::1]:5060""#;
    let Some((scheme, rest)) = text.split_once(':') else {
        return wrong(format!("{} names no transport", quote(text)), FORM);
    };
    match Transport::from_token(scheme.as_bytes()) {
        Some(Transport::Udp) => {}
        Some(other) => {
            return wrong(
                format!("{other} is not available yet in this build"),
                format!("write \"udp:{rest}\""),
            );
        }
        None if rest.parse::<u16>().is_ok() || text.parse::<SocketAddr>().is_ok() => {
            return wrong(format!("{} names no transport", quote(text)), format!("write \"udp:{text}\""));
        }
        None => return wrong(format!("{} is not a transport", quote(scheme)), FORM),
    }
    let address = match rest.parse::<SocketAddr>() {
        Ok(address) => address,
        Err(_) => return wrong_address(rest, "udp:", 5060),
    };
    if address.port() == 0 {
        return wrong(
            "port 0 lets the system choose, and nobody could dial it",
            format!("write \"udp:{}\"", SocketAddr::new(address.ip(), 5060)),
        );
    }
    if address.ip().is_multicast() {
        return wrong(format!("{} is a multicast address", address.ip()), "write an address of this machine");
    }
    Ok(ListenUri { transport: Transport::Udp, address })
}

fn wrong_address<T>(text: &str, scheme: &str, port: u16) -> Result<T, Wrong> {
    if !text.contains('[')
        && let Some((host, port)) = text.rsplit_once(':')
        && let (Ok(ip @ IpAddr::V6(_)), Ok(port)) = (host.parse::<IpAddr>(), port.parse::<u16>())
    {
        let remedy = format!("write \"{scheme}{}\"", SocketAddr::new(ip, port));
        return wrong("an IPv6 address needs brackets before its port", remedy);
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        let remedy = format!("write \"{scheme}{}\"", SocketAddr::new(ip, port));
        return wrong(format!("{} has no port", quote(text)), remedy);
    }
    let example = format!("\"{scheme}127.0.0.1:{port}\"");
    if text.bytes().any(|byte| byte.is_ascii_alphabetic()) && !text.contains('[') {
        let what = format!("{} is a name; a listener needs an address", quote(text));
        return wrong(what, format!("write the address of an interface, as {example}"));
    }
    let remedy = format!("write an address and a port, as {example} or \"{scheme}[::1]:{port}\"");
    wrong(format!("{} is not an address and port", quote(text)), remedy)
}

/// A host name or address and a port, as others reach it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HostPort {
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port, never zero.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A server of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Its name, unique in the pool.
    pub id: String,
    /// Where its messages go.
    pub address: HostPort,
    /// What divides its load, in any unit that all of the pool share.
    pub capacity: Option<u32>,
    /// Its share of new calls.
    pub weight: u16,
    /// Lower ones are used first.
    pub priority: u8,
    /// The cluster it is a member of.
    pub cluster: Option<String>,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, address, capacity, weight, priority, cluster } = self;
        write!(f, "{{ id = {}, address = \"{address}\"", quote(id))?;
        if let Some(capacity) = capacity {
            write!(f, ", capacity = {capacity}")?;
        }
        if *weight != 1 {
            write!(f, ", weight = {weight}")?;
        }
        if *priority != 0 {
            write!(f, ", priority = {priority}")?;
        }
        if let Some(cluster) = cluster {
            write!(f, ", cluster = {}", quote(cluster))?;
        }
        f.write_str(" }")
    }
}

/// Reads a server of a pool; the first of its mistakes is told.
pub(crate) fn read_destination(keys: &toml::de::DeTable<'_>) -> Result<Destination, Wrong> {
    const KEYS: &str = "known here: id, address, capacity, weight, priority, cluster";
    let (mut id, mut address, mut cluster) = (None, None, None);
    let (mut capacity, mut weight, mut priority) = (None, 1, 0);
    for (key, value) in keys {
        let (key, value) = (key.get_ref().as_ref(), value.get_ref());
        let text = || {
            value.as_str().ok_or_else(|| {
                (format!("{key} is {}", crate::kind::type_name(value)), format!("write {key} = \"...\""))
            })
        };
        let number = |min: u64, max: u64| {
            let number = crate::kind::integer(value).filter(|n| (min..=max).contains(n));
            number.ok_or_else(|| {
                (format!("{key} is out of range"), format!("write {key} as a number from {min} to {max}"))
            })
        };
        match key {
            "id" => id = Some(read_id(key, text()?)?),
            "cluster" => cluster = Some(read_id(key, text()?)?),
            "address" => address = Some(read_host_port(text()?)?),
            "capacity" => capacity = Some(u32::try_from(number(1, 1_000_000_000)?).unwrap_or(u32::MAX)),
            "weight" => weight = u16::try_from(number(0, 65_535)?).unwrap_or(u16::MAX),
            "priority" => priority = u8::try_from(number(0, 254)?).unwrap_or(u8::MAX),
            _ => return wrong(format!("a destination has no key {}", quote(key)), KEYS),
        }
    }
    let Some(id) = id else {
        return wrong(
            "the destination has no id",
            "add id = \"...\": a name of its own, kept when its address changes",
        );
    };
    let Some(address) = address else {
        return wrong(format!("destination {} has no address", quote(&id)), "add address = \"HOST:PORT\"");
    };
    Ok(Destination { id, address, capacity, weight, priority, cluster })
}

/// A server of a pool by its id and address, as a command names it; all else at its default.
///
/// # Errors
///
/// What is wrong, and what to do.
pub fn read_destination_parts(id: &str, address: &str) -> Result<Destination, (String, String)> {
    Ok(Destination {
        id: read_id("id", id)?,
        address: read_host_port(address)?,
        capacity: None,
        weight: 1,
        priority: 0,
        cluster: None,
    })
}

/// An id stands in metrics, commands and logs.
fn read_id(key: &str, text: &str) -> Result<String, Wrong> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if text.is_empty() || text.len() > 64 || !text.chars().all(is_good) {
        return wrong(
            format!("{} is no {key}", quote(text)),
            "write 1 to 64 letters, digits, `-`, `_`, `.` or `:`",
        );
    }
    Ok(text.to_owned())
}

pub(crate) fn read_host_port(text: &str) -> Result<HostPort, Wrong> {
    const FORM: &str = r#"write "HOST:PORT", as "sip.example.org:5060" or "[2001:db8::1]:5060""#;
    if let Ok(address) = text.parse::<SocketAddr>()
        && address.port() != 0
        && !address.ip().is_unspecified()
    {
        return Ok(HostPort { host: address.ip().to_string(), port: address.port() });
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return wrong(
            format!("{} has no port", quote(text)),
            format!("write \"{}\"", SocketAddr::new(ip, 5060)),
        );
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return match read_domain(text) {
            Ok(_) => wrong(format!("{} has no port", quote(text)), format!("write \"{text}:5060\"")),
            Err(_) => wrong(format!("{} is not a host and port", quote(text)), FORM),
        };
    };
    match (port.parse::<u16>(), read_domain(host)) {
        (Ok(port @ 1..), Ok(host)) if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) => wrong(
            format!("{host} is not an address that others can reach"),
            format!("write the public address, as \"192.0.2.1:{port}\""),
        ),
        (Ok(port @ 1..), Ok(host)) => Ok(HostPort { host, port }),
        (Ok(0) | Err(_), _) => {
            wrong(format!("{} is not a port", quote(port)), "write a port from 1 to 65535")
        }
        (_, Err(_)) => wrong(format!("{} is not a host and port", quote(text)), FORM),
    }
}

/// A host name of letters, digits, `-` and `.`, or an address literal; lower-cased, since domains compare so
/// (RFC 3261 §19.1.4). A trailing dot is dropped.
pub(crate) fn read_domain(text: &str) -> Result<String, Wrong> {
    const FORM: &str = r#"write a host name or address alone, as "example.org""#;
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(ip.to_string());
    }
    if text.starts_with("sip:") || text.starts_with("sips:") || text.contains('@') {
        return wrong(format!("{} is a URI, not a domain", quote(text)), FORM);
    }
    if let Some((host, port)) = text.rsplit_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && read_domain(host).is_ok()
    {
        return wrong(format!("{} has a port", quote(text)), format!("write \"{host}\""));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 253 && name.split('.').all(label) {
        Ok(name.to_ascii_lowercase())
    } else {
        wrong(format!("{} is not a domain", quote(text)), FORM)
    }
}

/// Where an administrative listener stands, if anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// No listener.
    Off,
    /// A TCP address and port.
    On(SocketAddr),
}

impl Address {
    /// The address, unless it is off.
    #[must_use]
    pub const fn get(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::On(address) => Some(address),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On(address) => write!(f, "{address}"),
        }
    }
}

pub(crate) fn read_address(text: &str) -> Result<Address, Wrong> {
    if text == "off" {
        return Ok(Address::Off);
    }
    match text.parse::<SocketAddr>() {
        Ok(address) => Ok(Address::On(address)),
        Err(_) => wrong_address(text, "", 8060),
    }
}

/// An IPv4 or IPv6 network in CIDR form, its host bits zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    /// The network's first address.
    pub address: IpAddr,
    /// How many leading bits count.
    pub prefix: u8,
}

impl Network {
    /// Whether `ip` lies inside; an IPv4-mapped IPv6 address counts as the IPv4 address it carries.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        masked(ip.to_canonical(), self.prefix) == Some(self.address)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn masked(ip: IpAddr, prefix: u8) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) if prefix <= 32 => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            Some(IpAddr::V4((ip.to_bits() & mask).into()))
        }
        IpAddr::V6(ip) if prefix <= 128 => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            Some(IpAddr::V6((ip.to_bits() & mask).into()))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

pub(crate) fn read_network(text: &str) -> Result<Network, Wrong> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let prefix = if ip.is_ipv4() { 32 } else { 128 };
        return wrong(
            format!("{} has no prefix length", quote(text)),
            format!("write \"{ip}/{prefix}\" for this address alone"),
        );
    }
    let parsed = text
        .split_once('/')
        .and_then(|(ip, prefix)| {
            Some((ip.parse::<IpAddr>().ok()?.to_canonical(), prefix.parse::<u8>().ok()?))
        })
        .and_then(|(ip, prefix)| Some((ip, prefix, masked(ip, prefix)?)));
    match parsed {
        Some((ip, prefix, network)) if ip == network => Ok(Network { address: network, prefix }),
        Some((_, prefix, network)) => wrong(
            format!("{} has bits beyond its prefix", quote(text)),
            format!("write \"{network}/{prefix}\""),
        ),
        None => wrong(
            format!("{} is not a network", quote(text)),
            r#"write ADDRESS/BITS, as "10.0.0.0/8" or "2001:db8::/32""#,
        ),
    }
}

/// Which cores the shards are pinned to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cores {
    /// The scheduler decides.
    Unpinned,
    /// Shard *i* on the *i*-th core the process may use.
    InOrder,
    /// Shard *i* on the *i*-th core of this list.
    List(Vec<u16>),
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpinned => f.write_str("false"),
            Self::InOrder => f.write_str("true"),
            Self::List(cores) => write!(f, "{cores:?}"),
        }
    }
}

/// Key material. Neither `Debug` nor the shown configuration reveals it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Octets in a secret: as many as SHA-256 gives.
    pub const BYTES: usize = 32;

    /// Reads 64 hexadecimal digits; `None` for anything else. White space around them is ignored.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() != 2 * Self::BYTES || !text.is_ascii() {
            return None;
        }
        let digits: Option<Vec<u8>> =
            text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        Some(Self(
            digits?
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
                .collect(),
        ))
    }

    /// The 32 octets.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}
