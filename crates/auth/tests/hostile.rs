//! Credentials that must not pass, and those that must: RFC 3261 §22, RFC 7616 §3.4, RFC 8760.
//!
//! Each hostile case changes one thing in an exchange that is otherwise good, so nothing else can be what stops it.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use tandem_auth::{
    Algorithm, Challenge, Challenger, ChallengerConfig, Credentials, Ha1, NonceCounts, Outcome, Party,
    Refusal, Request, ResponseInput, Staleness, Users, respond,
};
use tandem_base::{HashKey, Instant, Rng};

const REALM: &[u8] = b"example.com";
const URI: &[u8] = b"sip:example.com";
const UNIX_MS: u64 = 1_800_000_000_000;

struct Bench {
    challenger: Challenger,
    users: Users,
    counts: NonceCounts,
    rng: Rng,
    now: Instant,
}

/// What the peer does; by default all that is right.
#[derive(Clone)]
struct Peer<'a> {
    method: &'a [u8],
    uri: &'a [u8],
    user: &'a [u8],
    password: &'a [u8],
    algorithm: Algorithm,
    nc: u32,
    edit: fn(String) -> String,
}

const ALICE: Peer<'_> = Peer {
    method: b"REGISTER",
    uri: URI,
    user: b"alice",
    password: b"secret",
    algorithm: Algorithm::Sha256,
    nc: 1,
    edit: |value| value,
};

impl Bench {
    fn new() -> Self {
        Self::with(ChallengerConfig { unix_ms_at_zero: UNIX_MS, ..ChallengerConfig::default() }, [7; 16])
    }

    fn with(config: ChallengerConfig, key: [u8; 16]) -> Self {
        let key = HashKey::from_bytes(key);
        let users = Users::new(&key, 0);
        users.insert(b"alice@example.com", Ha1::from_password(b"alice", REALM, b"secret"));
        let old = Ha1::from_password(b"old", REALM, b"secret");
        users.insert(b"old@example.com", Ha1 { sha256: None, ..old });
        let challenger = Challenger::new(&key, config);
        let counts = NonceCounts::new(&key, 1 << 10, challenger.unix_ms(Instant::ZERO));
        Self { challenger, users, counts, rng: Rng::from_seed(1), now: Instant::from_secs(100) }
    }

    fn challenge(&mut self, realm: &[u8], stale: bool) -> String {
        let mut lines = Vec::new();
        self.challenger.write_challenges(self.now, Party::Uas, realm, stale, &mut self.rng, &mut lines);
        String::from_utf8(lines).unwrap()
    }

    fn check(&self, value: &str) -> Option<Outcome> {
        let credentials = Credentials::parse(value.as_bytes()).ok()?;
        let request = Request { method: b"REGISTER", uri: URI, realm: REALM };
        Some(self.challenger.check(self.now, request, &credentials, &self.users, &self.counts))
    }

    /// One challenge answered once.
    fn run(&mut self, peer: &Peer<'_>) -> Option<Outcome> {
        let challenge = self.challenge(REALM, false);
        self.check(&answer(&challenge, peer))
    }
}

fn answer(lines: &str, peer: &Peer<'_>) -> String {
    let mut values = lines.lines().map(|line| line.split_once(": ").unwrap().1);
    let challenge = values.find_map(|value| {
        let challenge = Challenge::parse(value.as_bytes()).unwrap();
        (challenge.algorithm == peer.algorithm).then_some(challenge)
    });
    let challenge = challenge.unwrap();
    let ha1 = Ha1::from_password(peer.user, challenge.realm.raw(), peer.password);
    let Peer { method, uri, user, nc, .. } = *peer;
    let mut value = Vec::new();
    assert!(respond(
        &challenge,
        ResponseInput { method, uri, user, ha1: &ha1, cnonce: b"0a4f113b", nc },
        &mut value
    ));
    (peer.edit)(String::from_utf8(value).unwrap())
}

#[test]
fn the_right_password_passes_under_either_algorithm_and_in_any_formal_dress() {
    let edits: [fn(String) -> String; 8] = [
        |value| value,
        |value| value.replace(", ", ",\r\n "),
        |value| value.replace("qop=auth", "qop=\"auth\""),
        |value| value.replace("algorithm=SHA-256", "algorithm=\"sha-256\""),
        |value| value.replace("algorithm=MD5, ", ""),
        |value| format!("{value}, opaque=\"x\", auth-param=1"),
        |value| value.replace("\"alice\"", "\"al\\ice\""),
        |value| {
            let (head, tail) = value.split_once("response=\"").unwrap();
            let (response, tail) = tail.split_once('"').unwrap();
            format!("{head}response=\"{}\"{tail}", response.to_uppercase())
        },
    ];
    for edit in edits {
        for algorithm in [Algorithm::Sha256, Algorithm::Md5] {
            let mut bench = Bench::new();
            let peer = Peer { algorithm, edit, ..ALICE };
            assert_eq!(bench.run(&peer), Some(Outcome::Accepted), "{}", edit("..".to_owned()));
        }
    }
}

/// One thing wrong each. `None`: not even credentials.
#[test]
fn one_thing_wrong_is_enough() {
    use Outcome::{Failed, Stale, Unknown};
    let wrong = Some(Failed(Refusal::WrongResponse));
    let foreign = Some(Stale(Staleness::Foreign));
    let other_uri = Some(Failed(Refusal::OtherUri));
    let edited = |edit| Peer { edit, ..ALICE };
    let cases: Vec<(&str, Peer<'_>, Option<Outcome>)> = vec![
        ("password", Peer { password: b"Secret", ..ALICE }, wrong),
        ("empty password", Peer { password: b"", ..ALICE }, wrong),
        ("password of another length", Peer { password: b"secret ", ..ALICE }, wrong),
        ("method signed", Peer { method: b"INVITE", ..ALICE }, wrong),
        ("method in lower case", Peer { method: b"register", ..ALICE }, wrong),
        ("uri signed", Peer { uri: b"sip:example.org", ..ALICE }, other_uri),
        ("uri with a parameter more", Peer { uri: b"sip:example.com;x", ..ALICE }, other_uri),
        ("uri in capitals", Peer { uri: b"SIP:example.com", ..ALICE }, other_uri),
        ("uri swapped after signing", edited(|v| v.replace("sip:example.com", "sip:example.org")), other_uri),
        ("uri hidden by an escape", edited(|v| v.replace("sip:example.com", "sip:ex\\ample.com")), other_uri),
        ("no such user", Peer { user: b"mallory", ..ALICE }, Some(Unknown)),
        ("user in capitals", Peer { user: b"Alice", ..ALICE }, Some(Unknown)),
        ("user with domain", Peer { user: b"alice@example.com", ..ALICE }, Some(Unknown)),
        ("user swapped after signing", edited(|v| v.replace("\"alice\"", "\"old\"")), Some(Unknown)),
        (
            "md5-only user, swapped",
            Peer { algorithm: Algorithm::Md5, edit: |v| v.replace("\"alice\"", "\"old\""), ..ALICE },
            wrong,
        ),
        (
            "realm swapped",
            edited(|v| v.replace("realm=\"example.com\"", "realm=\"example.org\"")),
            Some(Failed(Refusal::OtherRealm)),
        ),
        (
            "realm in capitals",
            edited(|v| v.replace("realm=\"example.com\"", "realm=\"Example.com\"")),
            Some(Failed(Refusal::OtherRealm)),
        ),
        ("nonce changed after signing", edited(|v| v.replace(" nonce=\"M", " nonce=\"N")), wrong),
        ("nonce emptied", edited(|v| drop_value(&v, "nonce=\"")), None),
        ("cnonce changed", edited(|v| v.replace("0a4f113b", "0a4f113c")), wrong),
        ("cnonce missing", edited(|v| v.replace("cnonce=\"0a4f113b\", ", "")), None),
        ("cnonce emptied", edited(|v| v.replace("0a4f113b", "")), None),
        ("nc changed", edited(|v| v.replace("nc=00000001", "nc=00000002")), wrong),
        ("nc short", edited(|v| v.replace("nc=00000001", "nc=1")), None),
        ("nc long", edited(|v| v.replace("nc=00000001", "nc=000000001")), None),
        ("nc zero", Peer { nc: 0, ..ALICE }, None),
        ("nc negative", edited(|v| v.replace("nc=00000001", "nc=-0000001")), None),
        ("nc missing", edited(|v| v.replace(", nc=00000001", "")), None),
        ("nc beyond what is tracked", Peer { nc: 1 << 24, ..ALICE }, Some(Stale(Staleness::Replayed))),
        ("nc at its largest", Peer { nc: u32::MAX, ..ALICE }, Some(Stale(Staleness::Replayed))),
        ("qop missing", edited(|v| v.replace("qop=auth, ", "")), None),
        ("qop auth-int", edited(|v| v.replace("qop=auth", "qop=auth-int")), None),
        ("qop and nc and cnonce missing", edited(|v| v.split(", cnonce").next().unwrap().to_owned()), None),
        ("response emptied", edited(|v| drop_value(&v, "response=\"")), None),
        ("response short", edited(|v| v.replace("response=\"", "response=\"\", x=\"")), None),
        ("response one digit off", edited(flip_response), wrong),
        (
            "response of zeros",
            edited(|v| {
                let (head, tail) = v.split_once("response=\"").unwrap();
                format!("{head}response=\"{}\"{}", "0".repeat(64), tail.split_once('"').unwrap().1)
            }),
            wrong,
        ),
        ("response with a digit more", edited(|v| v.replace("response=\"", "response=\"0")), None),
        (
            "response not hexadecimal",
            edited(|v| {
                let (head, tail) = v.split_once("response=\"").unwrap();
                format!("{head}response=\"{}\"{}", "z".repeat(64), tail.split_once('"').unwrap().1)
            }),
            None,
        ),
        ("algorithm swapped", edited(|v| v.replace("SHA-256", "MD5")), None),
        ("algorithm missing", edited(|v| v.replace(", algorithm=SHA-256", "")), None),
        ("algorithm -sess", edited(|v| v.replace("SHA-256", "SHA-256-sess")), None),
        ("algorithm unknown", edited(|v| v.replace("SHA-256", "SHA-512-256")), None),
        (
            "algorithm swapped with a digest of its length",
            Peer {
                algorithm: Algorithm::Md5,
                edit: |v| v.replace("algorithm=MD5", "algorithm=SHA-256"),
                ..ALICE
            },
            None,
        ),
        ("username twice", edited(|v| format!("{v}, username=\"alice\"")), None),
        ("response twice", edited(|v| format!("{v}, response=\"{}\"", "0".repeat(64))), None),
        ("nonce twice", edited(|v| format!("{v}, nonce=\"x\"")), None),
        ("scheme Basic", edited(|v| v.replace("Digest", "Basic")), None),
        ("username missing", edited(|v| v.replace("username=", "user=")), None),
        ("username*", edited(|v| v.replace("username=", "username*=")), None),
        ("userhash", edited(|v| format!("{v}, userhash=true")), None),
        ("NUL in username", edited(|v| v.replace("alice", "alice\0")), None),
        ("quote left open", edited(|v| format!("{v}, opaque=\"")), None),
        ("cut in the middle", edited(|v| v[..v.len() / 2].to_owned()), None),
    ];
    for (name, peer, expected) in cases {
        assert_eq!(Bench::new().run(&peer), expected, "{name}");
    }
    // A nonce of our form that is not ours.
    let mut bench = Bench::new();
    let lines = bench.challenge(REALM, false);
    let forged = lines.replace("nonce=\"", "nonce=\"x").replace("\", alg", "y\", alg");
    assert_eq!(bench.check(&answer(&forged, &ALICE)), foreign);
    assert_eq!(bench.check(&answer(&forged, &Peer { password: b"x", ..ALICE })), wrong);
}

fn drop_value(value: &str, key: &str) -> String {
    let (head, tail) = value.split_once(key).unwrap();
    format!("{head}{key}\"{}", tail.split_once('"').unwrap().1)
}

fn flip_response(value: String) -> String {
    let (head, tail) = value.split_once("response=\"").unwrap();
    let (first, rest) = tail.split_at(1);
    format!("{head}response=\"{}{rest}", if first == "0" { "1" } else { "0" })
}

/// The digest of another Request-URI under the name of ours.
#[test]
fn a_digest_for_another_uri_does_not_serve_ours() {
    let peer =
        Peer { uri: b"sip:example.org", edit: |v| v.replace("sip:example.org", "sip:example.com"), ..ALICE };
    assert_eq!(Bench::new().run(&peer), Some(Outcome::Failed(Refusal::WrongResponse)));
}

#[test]
fn a_nonce_serves_rising_counts_within_its_lifetime_and_then_is_stale() {
    let mut bench = Bench::new();
    let lines = bench.challenge(REALM, false);
    let used = |nc| answer(&lines, &Peer { nc, ..ALICE });
    let replayed = Some(Outcome::Stale(Staleness::Replayed));
    assert_eq!(bench.check(&used(2)), Some(Outcome::Accepted));
    assert_eq!(bench.check(&used(2)), replayed);
    assert_eq!(bench.check(&used(1)), replayed);
    bench.now += Duration::from_millis(299_999);
    assert_eq!(bench.check(&used(3)), Some(Outcome::Accepted));
    bench.now += Duration::from_millis(1);
    assert_eq!(bench.check(&used(4)), Some(Outcome::Stale(Staleness::Expired)));
    // Stale is said only to who knows the password.
    let guess = answer(&lines, &Peer { nc: 5, password: b"guess", ..ALICE });
    assert_eq!(bench.check(&guess), Some(Outcome::Failed(Refusal::WrongResponse)));
    // A wrong digest uses up no count.
    let lines = bench.challenge(REALM, true);
    assert!(lines.lines().all(|line| line.ends_with(", stale=TRUE")));
    let guess = answer(&lines, &Peer { nc: 9, password: b"guess", ..ALICE });
    assert_eq!(bench.check(&guess), Some(Outcome::Failed(Refusal::WrongResponse)));
    assert_eq!(bench.check(&answer(&lines, &ALICE)), Some(Outcome::Accepted));
}

#[test]
fn a_nonce_of_another_node_passes_if_its_key_is_ours_and_its_clock_is_near() {
    let config = |unix_ms_at_zero| ChallengerConfig { unix_ms_at_zero, ..ChallengerConfig::default() };
    for (key, ahead_ms, outcome) in [
        ([7; 16], 0, Outcome::Accepted),
        ([7; 16], 4_000, Outcome::Accepted),
        ([7; 16], 6_000, Outcome::Stale(Staleness::Expired)),
        ([8; 16], 0, Outcome::Stale(Staleness::Foreign)),
    ] {
        let lines = Bench::with(config(UNIX_MS + ahead_ms), key).challenge(REALM, false);
        assert_eq!(Bench::new().check(&answer(&lines, &ALICE)), Some(outcome), "{ahead_ms}");
    }
}

/// What was accepted before a restart is forgotten; so its nonce must be refused.
#[test]
fn a_replay_across_a_restart_is_refused() {
    let mut bench = Bench::new();
    let lines = bench.challenge(REALM, false);
    let value = answer(&lines, &ALICE);
    assert_eq!(bench.check(&value), Some(Outcome::Accepted));
    bench.now += Duration::from_secs(1);
    let restarted =
        NonceCounts::new(&HashKey::from_bytes([7; 16]), 1 << 10, bench.challenger.unix_ms(bench.now));
    bench.counts = restarted;
    assert_eq!(bench.check(&value), Some(Outcome::Stale(Staleness::Replayed)));
}

/// Nodes that share a key read each other's nonces, so that a request may be challenged by one and proved to another,
/// but do not tell each other which counts were used: what was overheard at one node passes once at each other one,
/// until the nonce is old.
#[test]
fn a_replay_at_another_node_passes_once_there_and_not_after_the_nonces_time() {
    let (mut one, other, mut late) = (Bench::new(), Bench::new(), Bench::new());
    let value = answer(&one.challenge(REALM, false), &ALICE);
    assert_eq!(one.check(&value), Some(Outcome::Accepted));
    assert_eq!(one.check(&value), Some(Outcome::Stale(Staleness::Replayed)));
    assert_eq!(other.check(&value), Some(Outcome::Accepted));
    assert_eq!(other.check(&value), Some(Outcome::Stale(Staleness::Replayed)));
    late.now += ChallengerConfig::default().nonce_lifetime;
    assert_eq!(late.check(&value), Some(Outcome::Stale(Staleness::Expired)));
    let foreign =
        Bench::with(ChallengerConfig { unix_ms_at_zero: UNIX_MS, ..ChallengerConfig::default() }, [8; 16]);
    assert_eq!(foreign.check(&value), Some(Outcome::Stale(Staleness::Foreign)), "under a key of its own");
}

#[test]
fn a_nonce_made_for_another_realm_of_ours_is_foreign() {
    let mut bench = Bench::new();
    let lines = bench.challenge(b"example.org", false).replace("example.org", "example.com");
    assert_eq!(bench.check(&answer(&lines, &ALICE)), Some(Outcome::Stale(Staleness::Foreign)));
}

#[test]
fn sha_256_is_offered_first_and_only_what_is_offered_is_accepted() {
    let mut bench = Bench::new();
    let lines = bench.challenge(REALM, false);
    let offered: Vec<_> = lines.lines().map(|line| line.split("algorithm=").nth(1).unwrap()).collect();
    assert_eq!(offered, ["SHA-256, qop=\"auth\"", "MD5, qop=\"auth\""]);
    assert!(lines.starts_with("WWW-Authenticate: Digest realm=\"example.com\", nonce=\""));
    assert!(lines.ends_with("\r\n") && !lines.contains("stale"));
    // The user whose import knew MD5 only.
    let old = Peer { user: b"old", algorithm: Algorithm::Md5, ..ALICE };
    assert_eq!(bench.run(&old), Some(Outcome::Accepted));
    assert_eq!(bench.run(&Peer { algorithm: Algorithm::Sha256, ..old }), Some(Outcome::Unknown));
    let strong = ChallengerConfig {
        algorithms: vec![Algorithm::Sha256],
        unix_ms_at_zero: UNIX_MS,
        ..ChallengerConfig::default()
    };
    let strong = Bench::with(strong, [7; 16]);
    let downgraded = answer(&bench.challenge(REALM, false), &Peer { algorithm: Algorithm::Md5, ..ALICE });
    assert_eq!(strong.check(&downgraded), Some(Outcome::Failed(Refusal::AlgorithmNotOffered)));
}
