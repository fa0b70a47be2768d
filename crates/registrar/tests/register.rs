//! REGISTER as it comes from the wire: the flows of RFC 3665 §2, the rules of RFC 3261 §10.3, Path and Service-Route.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use tandem_base::{HashKey, Instant};
use tandem_registrar::{Locations, PathPolicy, Policy, Refusal, Register};
use tandem_sip::{Hop, Index, Limits, ListenerId, Message};

const BOB: &[u8] = b"bob@biloxi.example.com";

/// A location service, a policy and a clock.
struct Bench {
    locations: Locations,
    policy: Policy,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let locations = Locations::new(HashKey::from_bytes([1; 16]), 100);
        Self { locations, policy: Policy::default(), now: Instant::from_secs(1000) }
    }

    /// Registers bob with these header field lines; answers the lines of the 200.
    fn register(&self, call_id: &str, cseq: u32, lines: &str) -> Result<String, Refusal> {
        let text = format!(
            "REGISTER sips:ss2.biloxi.example.com SIP/2.0\r\n\
             Via: SIP/2.0/TLS client.biloxi.example.com:5061;branch=z9hG4bKnashds7\r\n\
             Max-Forwards: 70\r\nFrom: Bob <sips:bob@biloxi.example.com>;tag=a73kszlfl\r\n\
             To: Bob <sips:bob@biloxi.example.com>\r\nCall-ID: {call_id}\r\nCSeq: {cseq} REGISTER\r\n\
             {lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Index::default();
        let message = Message::parse(text.as_bytes(), &mut index, &Limits::default()).unwrap();
        assert_eq!(message.defect(), None);
        let hop = Hop::udp(ListenerId(0), "192.0.2.4:5062".parse().unwrap());
        let request = Register::from_message(&message, Some(hop))?;
        let mut out = Vec::new();
        self.locations.register(self.now, &self.policy, BOB, &request, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn bindings(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.locations.lookup(BOB, self.now, |b| all.push(String::from_utf8(b.contact.to_vec()).unwrap()));
        all
    }
}

const CONTACT: &str = "Contact: <sips:bob@client.biloxi.example.com>\r\n";

/// RFC 3665 §2.1.
#[test]
fn a_new_registration_is_granted_an_hour() {
    let bench = Bench::new();
    let ok = bench.register("1j9FpLxk3uxtm8tn@biloxi.example.com", 1, CONTACT).unwrap();
    assert_eq!(ok, "Contact: <sips:bob@client.biloxi.example.com>;expires=3600\r\n");
    assert_eq!(
        bench.locations.lookup(BOB, bench.now, |b| assert_eq!(b.received.unwrap().peer.port(), 5062)),
        1
    );
}

/// RFC 3665 §2.2: bob changes his list; the second contact joins the first.
#[test]
fn an_update_of_the_contact_list_adds_to_it() {
    let bench = Bench::new();
    bench.register("c@h", 1, CONTACT).unwrap();
    let ok = bench.register("c@h", 2, "Contact: mailto:bob@biloxi.example.com\r\n").unwrap();
    assert!(ok.contains("<mailto:bob@biloxi.example.com>;expires=3600\r\n"), "{ok}");
    assert!(ok.contains("<sips:bob@client.biloxi.example.com>;expires=3600\r\n"), "{ok}");
}

/// RFC 3665 §2.3: without Contact, the list comes back and stays.
#[test]
fn a_fetch_answers_the_list_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.register("c@h", 1, CONTACT).unwrap();
    bench.now += Duration::from_secs(600);
    let ok = bench.register("c@h", 2, "").unwrap();
    assert_eq!(ok, "Contact: <sips:bob@client.biloxi.example.com>;expires=3000\r\n");
    assert_eq!(bench.register("c@h", 2, CONTACT).map(|_| bench.bindings().len()), Ok(1));
}

/// RFC 3665 §2.4.
#[test]
fn a_wildcard_with_expires_zero_cancels_the_registration() {
    let bench = Bench::new();
    bench.register("c@h", 1, CONTACT).unwrap();
    assert_eq!(bench.register("c@h", 2, "Contact: *\r\nExpires: 0\r\n").as_deref(), Ok(""));
    assert_eq!((bench.bindings().len(), bench.locations.aors()), (0, 0));
}

/// RFC 3261 §10.3 step 6.
#[test]
fn a_wildcard_in_any_other_company_is_a_400_and_removes_nothing() {
    let bench = Bench::new();
    bench.register("c@h", 1, CONTACT).unwrap();
    for lines in [
        "Contact: *\r\n",
        "Contact: *\r\nExpires: 1\r\n",
        "Contact: *\r\nExpires: none\r\n",
        "Contact: *, <sip:b@h>\r\nExpires: 0\r\n",
        "Contact: <sip:b@h>\r\nContact: *\r\nExpires: 0\r\n",
        "Contact: *\r\nContact: *\r\nExpires: 0\r\n",
    ] {
        assert_eq!(bench.register("c@h", 2, lines), Err(Refusal::WildcardMisuse), "{lines}");
    }
    assert_eq!(bench.register("c@h", 1, "Contact: *\r\nExpires: 0\r\n"), Err(Refusal::OutOfOrder));
    assert_eq!(bench.bindings().len(), 1);
    assert_eq!(Refusal::WildcardMisuse.status(), 400);
}

/// RFC 3261 §10.3 step 7: the Contact's own time goes before the Expires header field; what can't be read is an hour.
#[test]
fn each_contact_gets_its_own_time_and_zero_removes_it() {
    let bench = Bench::new();
    let ok = bench.register(
        "c@h",
        1,
        "Contact: <sip:a@h>;expires=100;q=0.3, <sip:b@h>;q=0.7\r\nContact: <sip:c@h>;expires=what;q=.5\r\nExpires: 200\r\n",
    );
    let want = "Contact: <sip:b@h>;q=0.7;expires=200\r\n\
                Contact: <sip:c@h>;q=0.5;expires=3600\r\n\
                Contact: <sip:a@h>;q=0.3;expires=100\r\n";
    assert_eq!(ok.as_deref(), Ok(want));
    let ok = bench.register("c@h", 2, "Contact: <sip:b@h>;expires=0\r\n").unwrap();
    assert!(!ok.contains("sip:b@h") && ok.contains("sip:a@h"), "{ok}");
}

/// RFC 3261 §10.3 step 7: only what is shorter than an hour may be refused as too brief.
#[test]
fn too_brief_an_interval_is_a_423_with_min_expires() {
    let mut bench = Bench::new();
    bench.policy.expires_min = Duration::from_secs(7200);
    let refusal = bench.register("c@h", 1, "Contact: <sip:a@h>;expires=3599\r\n").unwrap_err();
    let mut lines = Vec::new();
    refusal.write_lines(&mut lines);
    assert_eq!((refusal.status(), lines.as_slice()), (423, &b"Min-Expires: 7200\r\n"[..]));
    assert!(bench.register("c@h", 1, "Contact: <sip:a@h>;expires=3600\r\n").is_ok());
    let long = bench.register("c@h", 2, "Contact: <sip:a@h>;expires=4294967295\r\n").unwrap();
    assert!(long.contains(";expires=86400\r\n"), "{long}");
}

/// THREATS 8: the same Call-ID with a lower CSeq, or the same CSeq and another wish, leaves the store as it was.
#[test]
fn an_out_of_order_request_changes_nothing_and_its_repetition_is_answered_again() {
    let bench = Bench::new();
    let first = bench.register("c@h", 5, "Contact: <sip:a@h>;expires=100\r\n").unwrap();
    for (cseq, lines) in [
        (4, "Contact: <sip:a@h>;expires=100\r\n"),
        (5, "Contact: <sip:a@h>;expires=0\r\n"),
        (5, "Contact: <sip:a@h>;expires=200\r\n"),
        (5, "Contact: <sip:a@h>;expires=100;q=0.1\r\n"),
        (4, "Contact: <sip:new@h>, <sip:a@h>;expires=0\r\n"),
    ] {
        assert_eq!(bench.register("c@h", cseq, lines), Err(Refusal::OutOfOrder), "{cseq} {lines}");
    }
    assert_eq!(bench.bindings(), ["sip:a@h"]);
    assert_eq!(bench.register("c@h", 5, "Contact: <sip:a@h>;expires=100\r\n"), Ok(first));
    // A rebooted phone has a new Call-ID and starts to count anew.
    assert!(bench.register("other@h", 1, "Contact: <sip:a@h>;expires=0\r\n").is_ok());
    assert!(bench.bindings().is_empty());
}

/// RFC 3261 §19.1.4 decides which contacts are one. F1: the same contact through another proxy is one record.
#[test]
fn two_spellings_of_one_contact_are_one_binding() {
    let bench = Bench::new();
    bench.register("c@h", 1, "Contact: <sip:%61lice@Host.example.com;transport=udp>\r\n").unwrap();
    bench.register("d@h", 1, "Contact: <sip:alice@hOST.example.com;Transport=UDP>\r\n").unwrap();
    assert_eq!(bench.bindings(), ["sip:alice@hOST.example.com;Transport=UDP"]);
    bench.register("d@h", 2, "Contact: <sip:Alice@host.example.com;transport=udp>\r\n").unwrap();
    assert_eq!(bench.bindings().len(), 2);
    let ok = bench.register("d@h", 3, "Contact: <sip:x@h>;q=0.1, <sip:x@H>;q=0.2\r\n").unwrap();
    assert!(ok.contains("<sip:x@H>;q=0.2") && !ok.contains("q=0.1"), "{ok}");
}

/// THREATS 17: the fork of one address-of-record is bounded where its targets come from.
#[test]
fn too_many_contacts_are_a_403_and_none_of_them_stays() {
    let mut bench = Bench::new();
    bench.policy.contacts_max = 2;
    bench.register("c@h", 1, "Contact: <sip:a@h>\r\n").unwrap();
    let refusal = bench.register("c@h", 2, "Contact: <sip:b@h>, <sip:c@h>\r\n").unwrap_err();
    assert_eq!((refusal, refusal.status()), (Refusal::TooManyContacts, 403));
    assert_eq!(bench.bindings(), ["sip:a@h"]);
    bench.register("c@h", 2, "Contact: <sip:a@h>;expires=0, <sip:b@h>, <sip:c@h>\r\n").unwrap();
    bench.policy.binding_bytes_max = 50;
    let long = format!("Contact: <sip:{}@h>\r\n", "x".repeat(50));
    assert_eq!(bench.register("c@h", 3, &long), Err(Refusal::TooLarge));
    // What expired does not count.
    bench.now += Duration::from_secs(3600);
    assert!(bench.register("c@h", 4, "Contact: <sip:d@h>, <sip:e@h>\r\n").is_ok());
}

/// RFC 3327 §5.3, RFC 3608 §6.
#[test]
fn path_is_kept_with_the_binding_and_echoed_to_a_phone_that_knows_it() {
    let mut bench = Bench::new();
    bench.policy.service_route = b"<sip:home.example.com;lr>".to_vec();
    let path = "Path: <sip:p2.example.com;lr>, <sip:p1.example.com;lr>\r\nPath: <sip:p0.example.com;lr>\r\n";
    let ok = bench.register("c@h", 1, &format!("{CONTACT}{path}Supported: gruu, path\r\n")).unwrap();
    let joined = "<sip:p2.example.com;lr>,<sip:p1.example.com;lr>,<sip:p0.example.com;lr>";
    assert!(ok.ends_with(&format!("Path: {joined}\r\nService-Route: <sip:home.example.com;lr>\r\n")), "{ok}");
    bench.locations.lookup(BOB, bench.now, |b| assert_eq!(b.path, joined.as_bytes()));

    let ok = bench.register("c@h", 2, &format!("{CONTACT}{path}")).unwrap();
    assert!(!ok.contains("Path:"), "{ok}");
    bench.policy.path = PathPolicy::RequireSupport;
    let refusal = bench.register("c@h", 3, &format!("{CONTACT}{path}")).unwrap_err();
    let mut lines = Vec::new();
    refusal.write_lines(&mut lines);
    assert_eq!((refusal.status(), lines.as_slice()), (421, &b"Require: path\r\n"[..]));
}

/// RFC 5626 §4.1: a registrar that has no use for them hands instance and reg-id back as they came.
#[test]
fn instance_and_reg_id_come_back() {
    let bench = Bench::new();
    let contact =
        "Contact: <sip:a@h>;reg-id=1;+sip.instance=\"<urn:uuid:0C67446E-F1A1-11D9-94D3-000A95A0E128>\"\r\n";
    let ok = bench.register("c@h", 1, contact).unwrap();
    let want = ";+sip.instance=\"<urn:uuid:0C67446E-F1A1-11D9-94D3-000A95A0E128>\";reg-id=1\r\n";
    assert!(ok.ends_with(want), "{ok}");
}

#[test]
fn a_contact_that_breaks_the_grammar_is_a_400() {
    let bench = Bench::new();
    for lines in [
        "Contact: <sip:>\r\n",
        "Contact: bob\r\n",
        "Contact: <sip:a@h>;q=2\r\n",
        "Contact: <sip:a@h>;+sip.instance=\"a\\\"b\"\r\n",
        "Contact: <sip:a@h>\r\nPath: what\r\n",
    ] {
        assert_eq!(bench.register("c@h", 1, lines), Err(Refusal::Malformed), "{lines}");
    }
    assert_eq!(bench.locations.aors(), 0);
}
