//! The prepared messages of each workload.

use core::fmt::Write;

use crate::load::{Load, Workload};
use crate::template::Template;

/// Length of a token in a message: mark, run, slot, serial.
const TOKEN_BYTES: usize = 27;

/// The first request of a workload. `step` ends the branch and tells answers apart.
pub(crate) fn request(load: &Load, workload: Workload, step: char) -> Template {
    let Load { domain, caller_addr: local, callee_addr: callee, expires, .. } = load;
    let method = workload.method();
    let (uri, to) = match workload {
        Workload::Proxy200 | Workload::Redirect | Workload::Message | Workload::Subscribe => {
            (format!("sip:{{callee}}@{domain}"), format!("sip:{{callee}}@{domain}"))
        }
        Workload::Outbound => (format!("sip:{{callee}}@{callee}"), format!("sip:{{callee}}@{domain}")),
        Workload::Register => (format!("sip:{domain}"), format!("sip:{{caller}}@{domain}")),
        Workload::Options => (format!("sip:{domain}"), format!("sip:{domain}")),
        Workload::Publish => (format!("sip:{{caller}}@{domain}"), format!("sip:{{caller}}@{domain}")),
    };
    let via = load.transport.via_token();
    let contact = match workload {
        Workload::Register => format!("Contact: <sip:{{caller}}@{callee}>\r\nExpires: {expires}\r\n"),
        Workload::Proxy200 | Workload::Outbound | Workload::Redirect => {
            format!("Contact: <sip:{{caller}}@{local}>\r\n")
        }
        Workload::Subscribe => format!(
            "Contact: <sip:{{caller}}@{local}>\r\nEvent: presence\r\nAccept: application/pidf+xml\r\nExpires: {expires}\r\n"
        ),
        Workload::Publish => format!("Event: presence\r\nExpires: {expires}\r\n"),
        Workload::Options => "Accept: application/sdp\r\n".to_owned(),
        Workload::Message => String::new(),
    };
    let mut text = format!(
        "{method} {uri} SIP/2.0\r\n\
         Via: SIP/2.0/{via} {local};rport;branch=z9hG4bK{{token}}{step}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:{{caller}}@{domain}>;tag={{token}}\r\n\
         To: <{to}>\r\n\
         Call-ID: {{token}}@{ip}\r\n\
         CSeq: {{seq}} {method}\r\n\
         {contact}{{credentials}}",
        ip = host(load),
    );
    match workload {
        Workload::Proxy200 | Workload::Outbound | Workload::Redirect => {
            let longest = |name: fn(&crate::users::User) -> usize| {
                (0..).map_while(|place| load.users.get(place)).map(name).max().unwrap_or_default()
            };
            let user = longest(|user| user.name.len());
            let holes = text.matches("{token}").count() * (TOKEN_BYTES - "{token}".len());
            let names = (text.matches("{caller}").count() + text.matches("{callee}").count()) * user;
            let braces = text.matches("{caller}").count() * 8 + text.matches("{callee}").count() * 8;
            let fixed = "{seq}".len() - 1 + "{credentials}".len() + braces;
            let head = (text.len() + holes + names).saturating_sub(fixed);
            put_body(&mut text, "application/sdp", &sdp(load, load.invite_bytes.saturating_sub(head)));
        }
        Workload::Message => put_body(&mut text, "text/plain", "Are you there?\r\n"),
        Workload::Publish => put_body(
            &mut text,
            "application/pidf+xml",
            &format!(
                "<?xml version=\"1.0\"?>\r\n<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"pres:{domain}\">\
                 <tuple id=\"t1\"><status><basic>open</basic></status></tuple></presence>\r\n"
            ),
        ),
        Workload::Register | Workload::Options | Workload::Subscribe => {
            text.push_str("Content-Length: 0\r\n\r\n")
        }
    }
    Template::new(&text)
}

/// A REGISTER that removes every binding of the caller (RFC 3261 §10.2.2).
pub(crate) fn clearing(load: &Load, step: char) -> Template {
    let Load { domain, caller_addr: local, .. } = load;
    Template::new(&format!(
        "REGISTER sip:{domain} SIP/2.0\r\n\
         Via: SIP/2.0/{via} {local};rport;branch=z9hG4bK{{token}}{step}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:{{caller}}@{domain}>;tag={{token}}\r\n\
         To: <sip:{{caller}}@{domain}>\r\n\
         Call-ID: {{token}}@{ip}\r\n\
         CSeq: {{seq}} REGISTER\r\n\
         Contact: *\r\nExpires: 0\r\n{{credentials}}Content-Length: 0\r\n\r\n",
        via = load.transport.via_token(),
        ip = host(load),
    ))
}

fn put_body(text: &mut String, kind: &str, body: &str) {
    // Writing to a string cannot fail.
    let _ = write!(text, "Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

/// The host part of Call-IDs: the caller's address without port.
pub(crate) fn host(load: &Load) -> String {
    load.caller_addr.ip().to_string()
}

/// A session description (RFC 8866), filled so that it and its two header fields take `room` bytes, where that is
/// possible.
fn sdp(load: &Load, room: usize) -> String {
    let ip = load.caller_addr.ip();
    let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
    let mut body = format!(
        "v=0\r\no=- 1 1 IN {family} {ip}\r\ns=-\r\nc=IN {family} {ip}\r\nt=0 0\r\n\
         m=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    );
    let around = "Content-Type: application/sdp\r\nContent-Length: 123\r\n\r\n".len();
    let missing = room.saturating_sub(body.len() + around);
    if let Some(fill) = missing.checked_sub("a=x-fill:\r\n".len()) {
        let _ = write!(body, "a=x-fill:{}\r\n", "0".repeat(fill));
    }
    body
}

/// The body of a 200 to an INVITE, with its header fields.
pub(crate) fn answer_body(load_ip: core::net::IpAddr) -> String {
    let family = if load_ip.is_ipv4() { "IP4" } else { "IP6" };
    let mut text = String::new();
    put_body(
        &mut text,
        "application/sdp",
        &format!(
            "v=0\r\no=- 2 2 IN {family} {load_ip}\r\ns=-\r\nc=IN {family} {load_ip}\r\nt=0 0\r\n\
             m=audio 40002 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
        ),
    );
    text
}
