//! Memory: bytes of a live and of a finished transaction, a million bindings, and how soon they are back.

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::driver::{Driver, Load};
use crate::kinds::{Job, Subject};
use crate::report::thousands;
use crate::server::{Place, Server};

/// What was found. A forwarded request is one transaction here: its server side and its client side together.
#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    live: Vec<Bytes>,
    finished: Vec<Bytes>,
    bindings: Bindings,
}

/// Growth of resident memory over a number of transactions.
#[derive(Debug, Serialize)]
struct Bytes {
    subject: Subject,
    transactions: u64,
    grown_bytes: u64,
}

/// A million users, one binding each.
#[derive(Debug, Serialize)]
struct Bindings {
    count: u64,
    rss_bytes: u64,
    /// Resident memory after a restart that read them back.
    rss_restarted_bytes: u64,
    /// From start to the first answer, all bindings there.
    load_seconds: f64,
}

impl Bytes {
    #[expect(clippy::cast_precision_loss, reason = "bytes and counts of one machine fit a double")]
    fn each(&self) -> f64 {
        self.grown_bytes as f64 / self.transactions.max(1) as f64
    }
}

impl Memory {
    /// As a table.
    #[expect(clippy::cast_precision_loss, reason = "bytes of one machine fit a double")]
    pub(crate) fn write(&self, text: &mut String) {
        text.push_str("\n| Memory | bytes a transaction | transactions |\n|---|---|---|\n");
        for (state, rows) in [("ringing", &self.live), ("finished", &self.finished)] {
            for row in rows {
                let _ = writeln!(
                    text,
                    "| {}, {state} | {} | {} |",
                    row.subject.title(),
                    thousands(row.each()),
                    thousands(row.transactions as f64)
                );
            }
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            text,
            "\n{} bindings: {:.0} MiB resident; {:.0} MiB after a restart, which took {:.1} s to the first answer.",
            thousands(self.bindings.count as f64),
            mib(self.bindings.rss_bytes),
            mib(self.bindings.rss_restarted_bytes),
            self.bindings.load_seconds
        );
    }
}

/// Measures all of it.
pub(crate) fn measure(place: &Place, driver: &Driver, quick: bool) -> Result<Memory> {
    let subjects = [Subject::KamailioStateful, Subject::TandemStateful];
    let calls = if quick { 20_000 } else { 100_000 };
    let mut memory =
        Memory { live: Vec::new(), finished: Vec::new(), bindings: bindings(place, driver, quick)? };
    for subject in subjects {
        memory.live.push(live(place, subject, calls)?);
        memory.finished.push(finished(place, driver, subject, calls)?);
    }
    Ok(memory)
}

/// Calls that ring: INVITEs by hand, to a callee that sends 180 and never answers.
fn live(place: &Place, subject: Subject, calls: u32) -> Result<Bytes> {
    let server = Server::start(place, subject)?;
    let callee = UdpSocket::bind(server.callee())?;
    let caller = UdpSocket::bind("127.0.0.1:0")?;
    for socket in [&callee, &caller] {
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    }
    register(&server, &caller)?;
    // The first call makes the server allocate what it allocates once.
    ring(&server, &caller, &callee, 0)?;
    let before = server.rss()?;
    for call in 1..=calls {
        ring(&server, &caller, &callee, call)?;
    }
    let grown_bytes = server.rss()?.saturating_sub(before);
    eprintln!("memory   {:24} {calls} calls ring: {} bytes", subject.name(), grown_bytes);
    Ok(Bytes { subject, transactions: u64::from(calls), grown_bytes })
}

/// Calls at a moderate rate, all over within the time a finished transaction is remembered (32 s; Kamailio: 5 s).
fn finished(place: &Place, driver: &Driver, subject: Subject, calls: u32) -> Result<Bytes> {
    let server = Server::start(place, subject)?;
    let load = |calls: f64| Load {
        job: Job::Proxy200,
        rate: 5_000.0,
        warm_up: Duration::ZERO,
        window: Duration::from_secs_f64(calls / 5_000.0),
    };
    driver.run(&server, &load(100.0))?;
    let before = server.rss()?;
    // Kamailio forgets after 5 s what it has finished, so only so many are there at the end.
    let kept = if subject == Subject::KamailioStateful { calls.min(20_000) } else { calls };
    driver.run(&server, &load(f64::from(kept)))?;
    let grown_bytes = server.rss()?.saturating_sub(before);
    eprintln!("memory   {:24} {kept} calls finished: {} bytes", subject.name(), grown_bytes);
    // A call is two transactions: INVITE and BYE.
    Ok(Bytes { subject, transactions: u64::from(kept) * 2, grown_bytes })
}

fn bindings(place: &Place, driver: &Driver, quick: bool) -> Result<Bindings> {
    let count: u64 = if quick { 100_000 } else { 1_000_000 };
    let dir = std::env::temp_dir().join(format!("tandem-bench-{}-bindings", std::process::id()));
    let server = Server::start_in(place, Subject::TandemRegistrar, &dir, "async")?;
    let (target, users) = (format!("sip:{}", server.addr), count.to_string());
    // Every user is registered before the load, and that is all that is wanted of it.
    let load = ["--target", &target, "--users", &users, "--rate", "100", "--for", "1s"];
    driver.call(&["stone", "proxy200"].iter().chain(&load).map(|&arg| arg.to_owned()).collect::<Vec<_>>())?;
    sleep(Duration::from_secs(5)); // for the writer to catch up
    let rss_bytes = server.rss()?;
    server.keep();
    let started = now();
    let server = Server::start_in(place, Subject::TandemRegistrar, &dir, "async")?;
    let load_seconds = (now() - started).as_secs_f64();
    sleep(Duration::from_secs(1));
    let rss_restarted_bytes = server.rss()?;
    drop(server);
    eprintln!(
        "memory   {count} bindings: {rss_bytes} bytes, {rss_restarted_bytes} after {load_seconds:.2} s"
    );
    Ok(Bindings { count, rss_bytes, rss_restarted_bytes, load_seconds })
}

/// Makes the callee known.
fn register(server: &Server, socket: &UdpSocket) -> Result<()> {
    let local = socket.local_addr()?;
    let request = format!(
        "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bKreg\r\nMax-Forwards: 70\r\n\
         From: <sip:callee@localhost>;tag=reg\r\nTo: <sip:callee@localhost>\r\nCall-ID: reg@bench\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:callee@{}>;expires=3600\r\nContent-Length: 0\r\n\r\n",
        server.callee()
    );
    exchange(socket, server.addr, &request, "SIP/2.0 200")
}

/// One call up to its 180.
fn ring(server: &Server, caller: &UdpSocket, callee: &UdpSocket, call: u32) -> Result<()> {
    let local = caller.local_addr()?;
    let invite = format!(
        "INVITE sip:callee@localhost SIP/2.0\r\nVia: SIP/2.0/UDP {local};rport;branch=z9hG4bKlive{call}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:caller@localhost>;tag=live{call}\r\nTo: <sip:callee@localhost>\r\n\
         Call-ID: live-{call}@bench\r\nCSeq: 1 INVITE\r\nContact: <sip:caller@{local}>\r\n\
         Content-Type: application/sdp\r\nContent-Length: 129\r\n\r\n\
         v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n\
         a=rtpmap:0 PCMU/8000\r\na=sendrecv\r\n"
    );
    let (head, body) = invite.split_once("\r\n\r\n").context("an INVITE has a body")?;
    let invite =
        head.replace("Content-Length: 129", &format!("Content-Length: {}", body.len())) + "\r\n\r\n" + body;
    caller.send_to(invite.as_bytes(), server.addr)?;
    let mut buffer = [0; 8192];
    let (length, from) = callee.recv_from(&mut buffer).context("no INVITE arrived at the callee")?;
    let ringing = ringing(buffer.get(..length).unwrap_or_default());
    callee.send_to(ringing.as_bytes(), from)?;
    wait_for(caller, "SIP/2.0 180")
}

/// The 180 to a request: its Via, From, To, Call-ID, CSeq and Record-Route.
fn ringing(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let mut answer = String::from("SIP/2.0 180 Ringing\r\n");
    for line in head.lines().skip(1) {
        let name = line.split(':').next().unwrap_or_default().trim();
        match name {
            "Via" | "From" | "Call-ID" | "CSeq" | "Record-Route" => {
                let _ = write!(answer, "{line}\r\n");
            }
            "To" => {
                let _ = write!(answer, "{line};tag=callee\r\n");
            }
            _ => {}
        }
    }
    answer.push_str("Contact: <sip:callee@127.0.0.1>\r\nContent-Length: 0\r\n\r\n");
    answer
}

fn exchange(socket: &UdpSocket, to: SocketAddr, request: &str, wanted: &str) -> Result<()> {
    socket.send_to(request.as_bytes(), to)?;
    wait_for(socket, wanted)
}

fn wait_for(socket: &UdpSocket, wanted: &str) -> Result<()> {
    let mut buffer = [0; 8192];
    loop {
        let length = socket.recv(&mut buffer).with_context(|| format!("no `{wanted}` came"))?;
        if buffer.get(..length).unwrap_or_default().starts_with(wanted.as_bytes()) {
            return Ok(());
        }
    }
}

/// The time, for one span.
#[expect(clippy::disallowed_methods, reason = "a bench measures time; nothing here is simulated")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ringing_answer_repeats_what_routes_it_back() {
        let request = b"INVITE sip:c@h SIP/2.0\r\nVia: a\r\nVia: b\r\nFrom: x\r\nTo: y\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n\r\nv=0";
        let answer = ringing(request);
        assert!(
            answer.contains("Via: a\r\nVia: b\r\n") && answer.contains("To: y;tag=callee\r\n"),
            "{answer}"
        );
    }
}
