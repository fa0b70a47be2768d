//! The table of keys: one line of truth per key for the structs, the checker, the sample and the documents.
//!
//! A key's doc comment is what `docs/CONFIG.md` says of it; its default is written as TOML.

use crate::kind::Reload::{Live, Restart};
use crate::kind::{Key, Kind, Section, Word};
use crate::value::{Address, Cores, Destination, HostPort, ListenUri, Network, Secret, Value};
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The values of one table, by key; defaults are filled in, and only a key whose default is `none` may be absent.
pub(crate) type Values = BTreeMap<&'static str, Value>;

/// A field's type, made from the checked value of its key.
trait FromValue {
    fn from_value(value: Option<&Value>) -> Self;
}

macro_rules! from_value {
    ($($ty:ty: $pattern:pat => $read:expr;)*) => {$(
        impl FromValue for $ty {
            fn from_value(value: Option<&Value>) -> Self {
                match value {
                    Some($pattern) => $read,
                    other => unreachable!("the key table gives {other:?} for a {}", stringify!($ty)),
                }
            }
        }
    )*};
}

from_value! {
    bool: Value::Bool(value) => *value;
    u64: Value::Count(value) | Value::Size(value) => *value;
    u32: Value::Count(value) => u32::try_from(*value).unwrap_or(u32::MAX);
    u16: Value::Count(value) => u16::try_from(*value).unwrap_or(u16::MAX);
    u8: Value::Count(value) => u8::try_from(*value).unwrap_or(u8::MAX);
    usize: Value::Count(value) | Value::Size(value) => usize::try_from(*value).unwrap_or(usize::MAX);
    Duration: Value::Duration(value) => *value;
    String: Value::Text(value) => value.clone();
    PathBuf: Value::Text(value) => PathBuf::from(value);
    ListenUri: Value::Listen(value) => *value;
    HostPort: Value::HostPort(value) => value.clone();
    Address: Value::Address(value) => *value;
    Network: Value::Network(value) => *value;
    Cores: Value::Cores(value) => value.clone();
    Secret: Value::Secret(value) => value.clone();
    Destination: Value::Destination(value) => value.clone();
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<&Value>) -> Self {
        value.map(|value| T::from_value(Some(value)))
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Option<&Value>) -> Self {
        match value {
            Some(Value::List(values)) => values.iter().map(|value| T::from_value(Some(value))).collect(),
            other => unreachable!("the key table gives {other:?} for a list"),
        }
    }
}

/// An enum whose variants are a key's words.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($variant:ident = $word:literal, $what:literal;)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`: ", $what, ".")] $variant,)+
        }

        impl $name {
            pub(crate) const WORDS: &[Word] = &[$(Word { word: $word, what: $what }),+];
        }

        impl FromValue for $name {
            fn from_value(value: Option<&Value>) -> Self {
                match value {
                    $(Some(Value::Word($word)) => Self::$variant,)+
                    other => unreachable!("the key table gives {other:?} for {}", stringify!($name)),
                }
            }
        }
    };
}

/// A table of the file: the struct of its values and the description of its keys.
macro_rules! section {
    (
        $(#[doc = $doc:literal])+
        $name:ident = $table:literal, repeated: $repeated:literal {
            $($key:ident: $ty:ty = $default:tt, $kind:expr, $reload:ident, $what:literal, $reason:literal;)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            $(#[doc = $what] pub $key: $ty,)+
        }

        impl $name {
            pub(crate) const SECTION: Section = Section {
                name: $table,
                repeated: $repeated,
                what: concat!($($doc, "\n"),+),
                keys: &[$(Key {
                    name: stringify!($key),
                    kind: $kind,
                    default: stringify!($default),
                    reload: $reload,
                    what: $what,
                    reason: $reason,
                }),+],
            };

            pub(crate) fn build(values: &Values) -> Self {
                Self { $($key: FromValue::from_value(values.get(stringify!($key))),)+ }
            }
        }
    };
}

const fn millis(min: u64, max: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
}

const fn secs(min: u64, max: u64) -> Kind {
    Kind::Duration { min: Duration::from_secs(min), max: Duration::from_secs(max) }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

const fn list(of: &'static Kind, min: usize, max: usize) -> Kind {
    Kind::List { of, min, max }
}

const PATH: Kind = Kind::Path { max: 4_096 };

words! {
    /// How a shard gets the datagrams that are its own.
    Steer {
        Auto = "auto", "the kernel steers where it allows it, else shards hand over";
        Kernel = "kernel", "the kernel steers by Call-ID, or the start fails";
        HandOver = "hand-over", "the shard that received a datagram hands it over";
    }
}

words! {
    /// How a request is forwarded (RFC 3261 §16).
    ProxyMode {
        Auto = "auto", "state for forks, host names, credentials and 3xx answers to follow, none for the rest";
        Stateless = "stateless", "state for forks, host names and credentials only (RFC 3261 §16.11)";
        Stateful = "stateful", "always keeps a transaction";
        Redirect = "redirect", "answers 302 with the targets";
    }
}

words! {
    /// In which order several targets are tried.
    Fork {
        Parallel = "parallel", "all targets of one q value at a time";
        Serial = "serial", "one target at a time";
    }
}

words! {
    /// What to do with a Path that the phone does not know of.
    PathPolicy {
        Accept = "accept", "calls to the phone take it";
        RequireSupport = "require-support", "the REGISTER is refused with 421";
    }
}

words! {
    /// Who must prove who they are.
    Challenge {
        Outside = "outside", "everyone but `trusted` networks";
        Always = "always", "everyone, `trusted` networks too";
        Never = "never", "nobody";
    }
}

words! {
    /// What a digest hashes with (RFC 8760).
    Algorithm {
        Sha256 = "SHA-256", "RFC 7616";
        Md5 = "MD5", "RFC 2617, for older phones";
    }
}

words! {
    /// When a REGISTER is answered.
    Durability {
        Memory = "memory", "bindings are not stored";
        Async = "async", "the answer does not wait for the disk";
        Commit = "commit", "the answer waits until the disk has it";
    }
}

words! {
    /// What is logged; each level has the ones before it too.
    LogLevel {
        Error = "error", "what needs an operator now";
        Warn = "warn", "what may need one soon";
        Info = "info", "changes an operator acts on";
        Debug = "debug", "addresses and names too";
        Trace = "trace", "every message";
    }
}

words! {
    /// How a log line is written.
    LogFormat {
        Text = "text", "for people";
        Json = "json", "one object a line";
    }
}

words! {
    /// How a pool chooses the destination of a new call.
    PoolPolicy {
        Tlwl = "tlwl", "least work left: unanswered requests, an INVITE weighing more";
        Tjsq = "tjsq", "fewest unanswered requests";
        Cjsq = "cjsq", "fewest calls";
        TlwlLearned = "tlwl-learned", "as tlwl, with weights learned from response times";
        RoundRobin = "round-robin", "one after the other, by weight";
        Rendezvous = "rendezvous", "keyed hash of the Call-ID, exact weights, bounded load";
        Hash = "hash", "OpenSER's hash of the Call-ID";
        Fnv = "fnv", "FNV-1 of the Call-ID";
        Rwma = "rwma", "least weighted average of the last response times";
        User = "user", "keyed hash of the user, to clusters";
        UserBernstein = "user-bernstein", "Bernstein's hash of the user";
        UserSha1 = "user-sha1", "SHA-1 of the user";
        UserLetter = "user-letter", "the user's first letter, by `letters`";
    }
}

impl PoolPolicy {
    /// The policy's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::WORDS.get(self as usize).map_or("", |word| word.word)
    }

    /// Every policy's name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().map(|word| word.word)
    }
}

words! {
    /// How much of a call comes by this node.
    PoolPath {
        Via = "via", "all of it: it adds Via and Record-Route";
        NoVia = "no-via", "the first request: no Via and no Record-Route of ours; the destination answers callers itself";
        Transparent = "transparent", "the first request, under the caller's own address (needs the capability CAP_NET_ADMIN); the destination answers callers itself";
        RecordRoute = "record-route", "the first request and its responses; the destination's own Record-Route takes the rest";
        Redirect = "redirect", "nothing: callers get a 302 to the destination";
    }
}

impl PoolPath {
    /// The path's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::WORDS.get(self as usize).map_or("", |word| word.word)
    }
}

section! {
    /// Keys before any table.
    Top = "", repeated: false {
        domains: Vec<String> = ["localhost"], list(&Kind::Domain, 1, 1_024), Live,
            "The domains this node answers for: their users register here, and their requests are looked up.",
            "`localhost` makes the first call on one machine work and serves nobody else's.";
    }
}

section! {
    /// One address the node receives SIP on; repeat the table for more. A file without any listens on
    /// `udp:127.0.0.1:5060`.
    Listen = "listen", repeated: true {
        uri: ListenUri = "udp:127.0.0.1:5060", Kind::Listen, Restart,
            "Transport, address and port. UDP is what this build has.",
            "Loopback: a node that nobody configured is reachable by nobody else.";
        advertise: Option<HostPort> = none, Kind::HostPort, Restart,
            "The host and port that peers are told, in Via, Record-Route and Service-Route.",
            "Without it, peers are told the listener's own address; behind NAT or for `0.0.0.0` it must be given.";
    }
}

section! {
    /// The process: its name, threads and cores.
    Node = "node", repeated: false {
        name: String = "tandem", Kind::Domain, Restart,
            "The node's name, as the `node` label of every metric.",
            "One node needs no other; give each its own as soon as there are two.";
        shards: usize = 0, count(0, 256), Restart,
            "How many threads carry traffic. 0 is one for each core the process may use.",
            "A call's state lives in one shard without locks, so each core can carry calls alone.";
        pin_cores: Cores = false, Kind::Cores, Restart,
            "Pins each shard to a core: `true` in order, or a list of cores, one for each shard.",
            "On a shared machine the scheduler knows better; on a machine of its own pinning saves cache misses.";
        steer: Steer = "auto", Kind::OneOf(Steer::WORDS), Restart,
            "How a datagram gets to the shard that owns its call.",
            "Kernel steering saves one copy between threads but needs a capability that not every container has.";
        gather: Duration = "750us", Kind::Duration { min: Duration::ZERO, max: Duration::from_millis(5) }, Restart,
            "How long a shard lets datagrams gather before it reads on, where that pays. 0us: it reads each as it comes.",
            "Half the processor time of sparse traffic goes into waking up; less than a millisecond is heard by nobody.";
        name_servers: Vec<HostPort> = [], list(&Kind::HostPort, 0, 8), Restart,
            "The name servers to ask, as \"192.0.2.53:53\". None: the system's (`/etc/resolv.conf`).",
            "The system knows its name servers; a service catalogue that speaks DNS on a port of its own needs to be told.";
        server: String = "Tandem", Kind::Text { max: 64 }, Live,
            "The Server header field of the 200s of this node itself, to REGISTER and OPTIONS. Empty: no such field.",
            "Says what answered, without a version that would tell an attacker which holes to try.";
    }
}

section! {
    /// Forwarding of requests and responses (RFC 3261 §16).
    Proxy = "proxy", repeated: false {
        mode: ProxyMode = "auto", Kind::OneOf(ProxyMode::WORDS), Live,
            "How requests are forwarded.",
            "`auto` keeps state only where it is needed, which costs least.";
        fork: Fork = "parallel", Kind::OneOf(Fork::WORDS), Live,
            "The order in which several contacts of one user are tried.",
            "People expect all their phones to ring at once; q values still order groups of them.";
        record_route: bool = true, Kind::Bool, Live,
            "Stays in the path of a call's later requests (RFC 3261 §16.6 step 4).",
            "The signed Record-Route lets later requests of a call pass without a challenge.";
        recurse_redirects: bool = false, Kind::Bool, Live,
            "Follows a 3xx answer itself instead of passing it to the caller (RFC 3261 §16.7 step 4).",
            "A callee's answer should not make this node send calls to places of the callee's choice.";
        timer_c: Duration = "190s", secs(181, 3_600), Live,
            "How long an INVITE may ring without any sign of progress (timer C, RFC 3261 §16.6 step 11).",
            "RFC 3261 demands more than three minutes.";
        dialog_lifetime: Duration = "24h", secs(3_600, 31_536_000), Live,
            "How long the signed Record-Route of a call vouches for it, to the hour; then its requests are challenged like others.",
            "Longer than calls are. What is up for longer goes on: phones answer the challenge, trunks are `trusted`.";
        max_forwards: u8 = 70, count(1, 255), Live,
            "The Max-Forwards given to a request that came without (RFC 3261 §16.6 step 3).",
            "RFC 3261 recommends 70.";
        max_breadth: u8 = 60, count(1, 255), Live,
            "The Max-Breadth given to a request that came without (RFC 5393 §5.3.3).",
            "RFC 5393 recommends 60, which keeps a fork bomb small.";
        branches_max: usize = 16, count(1, 64), Live,
            "How many targets one request may be forwarded to, all forks and followed redirects together.",
            "More contacts than anyone has phones, few enough that one INVITE is no amplifier.";
    }
}

section! {
    /// The SIP timers (RFC 3261 §17, Table 4) and how many transactions are kept.
    Transaction = "transaction", repeated: false {
        t1: Duration = "500ms", millis(10, 5_000), Restart,
            "Estimate of the round-trip time; first retransmission interval. 64 times T1 gives up.",
            "RFC 3261 §17.1.1.1 recommends 500 ms; a smaller one only within a quick private network.";
        t2: Duration = "4s", millis(100, 32_000), Restart,
            "Longest retransmission interval of non-INVITE requests and INVITE responses.",
            "RFC 3261 Table 4.";
        t4: Duration = "5s", millis(0, 32_000), Restart,
            "How long a message may linger in the network.",
            "RFC 3261 Table 4.";
        live_max: usize = 1000000, count(64, 16_777_216), Restart,
            "How many transactions a shard keeps at a time, half of them received and half sent; beyond, new requests get 503 with Retry-After.",
            "Over UDP a finished one is kept 32 s, so this is some 7,000 calls a second; memory is used as it is needed.";
    }
}

section! {
    /// The registrar and its location service (RFC 3261 §10).
    Registrar = "registrar", repeated: false {
        enabled: bool = true, Kind::Bool, Live,
            "Accepts REGISTER for `domains`.",
            "Without it nobody could be called.";
        expires_min: Duration = "60s", secs(1, 3_600), Live,
            "The shortest binding that is granted; a shorter wish gets 423 (RFC 3261 §10.3 step 7).",
            "Phones behind NAT like to refresh each minute; more often is load without use. Above one hour is forbidden.";
        expires_default: Duration = "1h", secs(1, 604_800), Live,
            "How long a binding lives when the phone does not say.",
            "RFC 3261 §10.2.1.1 suggests one hour.";
        expires_max: Duration = "2h", secs(1, 604_800), Live,
            "The longest binding that is granted; a longer wish is cut.",
            "A phone that was unplugged is forgotten within two hours.";
        contacts_max: usize = 10, count(1, 64), Live,
            "How many contacts a user may have at a time.",
            "Every contact is a branch of each call to the user.";
        aors_max: usize = 2000000, count(1, 100_000_000), Restart,
            "How many users may have bindings at a time; beyond, REGISTER gets 503 with Retry-After.",
            "A million subscribers with room; an entry takes some 400 octets, used as it is needed.";
        binding_bytes_max: usize = "4KiB", size(256, 65_535), Live,
            "Octets of the contact, Call-ID, Path, instance and User-Agent of one binding together.",
            "Many times what phones send; it bounds what one user can make the node remember.";
        path: PathPolicy = "accept", Kind::OneOf(PathPolicy::WORDS), Live,
            "What becomes of the Path that an edge proxy adds to the REGISTER of a phone that does not list it as supported (RFC 3327 §5.3).",
            "The edge proxy is trusted, and a phone need not know of it to be called through it.";
        service_route: bool = false, Kind::Bool, Live,
            "Tells phones in the 200 to REGISTER to send requests by way of this node (RFC 3608).",
            "A phone that registers here mostly has this node as its outbound proxy already.";
    }
}

section! {
    /// One pool of servers that calls are spread over; repeat the table for more. A file without any is no balancer.
    Pool = "pool", repeated: true {
        name: String = "main", Kind::Domain, Live,
            "The pool's name, in metrics, in `tandem ctl pool` and in the routes of its calls.",
            "One pool needs no other.";
        hosts: Vec<String> = [], list(&Kind::Domain, 0, 1_024), Live,
            "The hosts of Request-URIs that are for this pool. None: everything that is for nobody else; one pool may say so.",
            "A balancer in front of one pool takes what comes.";
        policy: PoolPolicy = "tlwl", Kind::OneOf(PoolPolicy::WORDS), Live,
            "How the destination of a new call is chosen. Whatever belongs to a call follows it.",
            "Transaction least work left answers fastest and wastes least where servers differ.";
        destinations: Vec<Destination> = [], list(&Kind::Destination, 0, 10_000), Live,
            "The servers: `id` and `address`; where they differ `weight` (1; 0 takes no new calls), `capacity` (divides the load), `priority` (0; a higher one only while all lower ones are out) and `cluster`.",
            "A pool is its servers.";
        srv: Vec<String> = [], list(&Kind::Domain, 0, 16), Live,
            "Names whose SRV records list servers beside `destinations`, as \"_sip._udp.pool.example.com\": read again and again, each host and port a destination with the id `HOST-PORT`.",
            "Servers that come and go, as containers do, need no edit of a file.";
        srv_interval: Duration = "30s", secs(1, 86_400), Live,
            "How often they are read again at the latest; sooner where the records hold for less.",
            "A new server gets calls within half a minute, also where its records hold for a day.";
        invite_weight: u32 = 175, count(1, 10_000), Live,
            "What an INVITE weighs for `tlwl`, in hundredths of any other request.",
            "Measured by Jiang et al.: an INVITE costs 75 % more than a BYE.";
        bound_percent: u32 = 125, count(0, 10_000), Live,
            "How many hundredths of its fair share a destination may have under `rendezvous`; 0 is no bound.",
            "A quarter more than its share keeps nearly every call where the hash says.";
        samples: u16 = 20, count(1, 1_000), Live,
            "How many response times `rwma` averages.",
            "Jiang et al.";
        letters: Vec<String> = [], list(&Kind::Text { max: 128 }, 0, 26), Live,
            "First letters and the cluster that serves them, as `a-h=one`, for `user-letter`.",
            "Only that policy asks.";
        path: PoolPath = "via", Kind::OneOf(PoolPath::WORDS), Live,
            "How much of a call comes by this node.",
            "Load by what is in progress needs to see it end.";
        probe_interval: Duration = "3s", secs(0, 3_600), Live,
            "Time between OPTIONS probes of a destination. 0s: none, and only real traffic tells.",
            "A dead server is found within some seconds, at a cost of one small message.";
        probe_timeout: Duration = "1s", millis(10, 60_000), Live,
            "How long a probe may go unanswered; below `probe_interval`.",
            "A server that needs longer has more than enough to do.";
        rise: u32 = 2, count(1, 100), Live,
            "Answers in a row that bring a destination up.",
            "One good answer may be luck.";
        fall: u32 = 3, count(1, 100), Live,
            "Failures in a row that take it down.",
            "One lost datagram is no dead server.";
        passive_fall: u32 = 3, count(0, 1_000), Live,
            "Requests of real calls without any answer, in a row, that take it down. 0: they tell nothing.",
            "Real calls notice before the next probe does.";
        hold: Duration = "10s", secs(1, 3_600), Live,
            "How long a destination gets no new calls after a 503 without Retry-After, or where nobody probes it.",
            "Long enough to breathe, short enough to be missed little.";
        hold_max: Duration = "5m", secs(1, 86_400), Live,
            "The longest time that a Retry-After can ask for.",
            "A server that says an hour may be wrong.";
        slow_start: Duration = "30s", secs(0, 3_600), Live,
            "Over this time a destination that came back grows to its full share.",
            "A cold server that gets all at once goes down again.";
        failover_codes: Vec<u16> = [500, 502, 503, 504], list(&count(400, 599), 0, 64), Live,
            "Answers to a first request that send it on to the next destination.",
            "They speak of the server; a 486 or 6xx is the callee's word and never tried elsewhere.";
        failover_timeout: Duration = "2s", millis(0, 60_000), Live,
            "How long a destination may say nothing at all to a first request before the next one gets it. 0ms: for ever.",
            "Three transmissions of the caller fit in; a living server answers 100 at once.";
        tries_max: u8 = 3, count(1, 16), Live,
            "How many destinations one request may be sent to. 1: no failover.",
            "If three servers fail it, the fourth would too.";
        retry_percent: u32 = 20, count(0, 1_000), Live,
            "Second tries for each hundred first ones, beyond ten for a start.",
            "A pool that fails altogether must not get three times its load.";
    }
}

section! {
    /// What holds for all pools.
    Balancer = "balancer", repeated: false {
        calls_max: u32 = 1000000, count(64, 100_000_000), Restart,
            "Calls and requests that a shard keeps at a time, with those just over; beyond, new calls get 503 with Retry-After.",
            "Each takes less than 400 octets, used as it is needed.";
        copies_max: u32 = 65536, count(0, 16_777_216), Restart,
            "First requests that a shard keeps a copy of, until one rings, for failover; beyond, they go without.",
            "Thirty seconds of two thousand silent calls a second.";
        destinations_max: u16 = 1024, count(2, 65_000), Restart,
            "Destinations that a pool may have, those counted that left and still have calls.",
            "More than anyone runs; a row takes some hundred octets.";
        call_max: Duration = "12h", secs(60, 604_800), Live,
            "After how long without a sign of life a call weighs nothing any more. Its messages still find their way.",
            "Longer than people talk; session timers refresh what lasts.";
        ringing_max: Duration = "190s", secs(181, 3_600), Live,
            "The same for an INVITE that rings (RFC 3261 §16.6 step 11).",
            "RFC 3261 demands more than three minutes.";
        trying_max: Duration = "40s", secs(33, 600), Live,
            "The same for a request without any answer, an ACK or the answer to a BYE.",
            "64 times T1 is 32 s; then nobody repeats it.";
        expired_for: Duration = "34s", secs(33, 600), Live,
            "How long a call that is over is remembered, for its strays and a second try with credentials.",
            "64 times T1 is 32 s, the age of the oldest retransmission.";
    }
}

section! {
    /// Who must prove who they are, and how (RFC 7616, RFC 8760).
    Auth = "auth", repeated: false {
        realm: Option<String> = none, Kind::Text { max: 128 }, Live,
            "The realm of every challenge.",
            "Without it the realm is the domain of the request, so that each domain has its own users.";
        challenge: Challenge = "outside", Kind::OneOf(Challenge::WORDS), Live,
            "Who is challenged. Requests inside a call carry our signed Record-Route and are not.",
            "Default deny: no open relay.";
        trusted: Vec<Network> = [], list(&Kind::Network, 0, 1_024), Live,
            "Networks whose requests are not challenged: trunks and neighbour proxies.",
            "A source address is proof only in a network you rule.";
        algorithms: Vec<Algorithm> = ["SHA-256", "MD5"], list(&Kind::OneOf(Algorithm::WORDS), 1, 2), Restart,
            "The digests that are offered, best first (RFC 8760 §2.4).",
            "SHA-256 first; many phones know only MD5.";
        nonce_lifetime: Duration = "5m", secs(10, 86_400), Restart,
            "How long a challenge may be answered; afterwards the phone is told `stale` and tries again.",
            "Short enough to make a captured answer useless, long enough to spare phones a round trip.";
        secret: Option<Secret> = none, Kind::Secret, Restart,
            "The key that signs nonces and routes, the same on all nodes that share calls.",
            "Without it, the key is in `secret_file`.";
        secret_file: PathBuf = "tandem.secret", PATH, Restart,
            "The file with that key in hexadecimal; made at the first start, readable by its owner only.",
            "A key that outlives a restart keeps calls in progress from being challenged.";
        previous_secret: Option<Secret> = none, Kind::Secret, Restart,
            "The key before this one: what it signed in the routes of calls that are up is believed, and nothing is signed under it.",
            "A key that nobody changed has none. Leave it in until the calls of its time are over, see `dialog_lifetime`.";
        previous_secret_file: Option<PathBuf> = none, PATH, Restart,
            "The file with that previous key.",
            "To change keys, move `secret_file` here; the next start makes a new one.";
        guesses_free: u32 = 5, count(1, 1_000), Restart,
            "How many wrong passwords a source may try without delay; each further one doubles the wait.",
            "Room for a phone with a stale password, none for a search.";
        guess_delay_max: Duration = "15m", secs(1, 86_400), Restart,
            "The longest such wait.",
            "Ninety-six guesses a day find no password; a source that lately proved itself waits 2 s at most.";
        guess_forgiven_after: Duration = "10m", secs(1, 86_400), Restart,
            "After how long without another one wrong password is forgotten.",
            "A user who mistyped is free again soon.";
    }
}

section! {
    /// Where users and bindings are kept: in memory, and in an SQLite file.
    Store = "store", repeated: false {
        path: PathBuf = "tandem.db", PATH, Restart,
            "The SQLite file, made at the first start; relative to the working directory.",
            "Started by hand, it lies where you stand; the packaged unit's working directory is its state directory.";
        durability: Durability = "async", Kind::OneOf(Durability::WORDS), Restart,
            "When a REGISTER is answered: before, or after the disk has its bindings. Users are always stored.",
            "A crash loses at most the last batch, which phones refresh; `commit` loses nothing and answers later.";
        queue_max: usize = 65536, count(64, 16_777_216), Restart,
            "How many bindings may wait for the disk; beyond, REGISTER gets 503 with Retry-After.",
            "More than a slow disk takes in a second.";
        batch_max: usize = 1024, count(1, 1_000_000), Restart,
            "How many users' bindings one transaction of the database may take.",
            "Past a thousand a batch gains little and keeps those who wait for it waiting.";
        batch_wait: Duration = "100ms", millis(0, 10_000), Restart,
            "How long changes gather before they are written. Under `commit` nothing waits for this.",
            "Shares one disk flush among many phones; a crash loses no more than this under `async`.";
    }
}

section! {
    /// What one message may be; what is larger is refused, whatever it says.
    SipLimits = "limits", repeated: false {
        message_bytes_max: usize = "65535B", size(1_024, 65_535), Live,
            "Octets of a message.",
            "As many as a datagram can have.";
        start_line_bytes_max: usize = "4KiB", size(256, 65_535), Live,
            "Octets of the first line.",
            "Longer than any real URI.";
        header_bytes_max: usize = "8KiB", size(256, 65_535), Live,
            "Octets of one header field with its continuation lines.",
            "Identity tokens are the longest in use, at a few KiB.";
        headers_max: usize = 128, count(16, 1_024), Live,
            "Header field lines of a message.",
            "Real messages have fewer than fifty.";
        values_max: usize = 64, count(8, 255), Live,
            "Values of Via, and of Route, Record-Route and Contact each.",
            "Nearly as many as the 70 hops that Max-Forwards allows; no real path has a tenth of them.";
        token_bytes_max: usize = "256B", size(64, 4_096), Live,
            "Octets of a Call-ID, tag, branch or other identifier.",
            "Identifiers are copied into tables, so their size is memory.";
    }
}

section! {
    /// Metrics and health over HTTP, and the socket of `tandem ctl`.
    Admin = "admin", repeated: false {
        listen: Address = "127.0.0.1:8060", Kind::Address, Restart,
            "Where `/metrics`, `/healthz` and `/readyz` are served.",
            "Loopback, since it asks for no password.";
        socket: PathBuf = "tandem.sock", Kind::Path { max: 107 }, Restart,
            "The Unix socket of `tandem ctl`, open to the node's own user only; relative to the working directory.",
            "Started by hand, it lies where you stand; a Unix socket's path has at most 107 octets.";
        drain: Duration = "30s", secs(0, 86_400), Live,
            "How long calls in progress may take to finish after SIGTERM before the node exits.",
            "Nearly the 32 s after which an unanswered transaction gives up; service managers kill after 90 s.";
    }
}

section! {
    /// The log, written to standard error.
    Log = "log", repeated: false {
        level: LogLevel = "info", Kind::OneOf(LogLevel::WORDS), Live,
            "What is logged. No address and no user is named above `debug`.",
            "What an operator acts on, nothing for each message.";
        format: LogFormat = "text", Kind::OneOf(LogFormat::WORDS), Restart,
            "How a line is written.",
            "Text is read by people and the journal; JSON by collectors.";
    }
}

/// Every table and key, in the order in which they are shown.
pub const SECTIONS: &[Section] = &[
    Top::SECTION,
    Listen::SECTION,
    Node::SECTION,
    Proxy::SECTION,
    Transaction::SECTION,
    Registrar::SECTION,
    Pool::SECTION,
    Balancer::SECTION,
    Auth::SECTION,
    Store::SECTION,
    SipLimits::SECTION,
    Admin::SECTION,
    Log::SECTION,
];
