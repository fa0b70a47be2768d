// The 49 messages of RFC 4475 and the 12 of RFC 5118: what the parser finds, and what an element must do with them.
// Included by path, so that tests of other crates that put the same files on the wire read the same table.

use Outcome::{Answer, Drop, Process};
use Parse::{Defect, Fine};

/// What `Message::parse` makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parse {
    /// No defect.
    Fine,
    /// A message with a defect of this label and, were it a request, this status code.
    Defect(&'static str, u16),
    /// Not even answerable.
    Refused(&'static str),
}

/// What an element does with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing about the message stands in its way: it is forwarded, challenged, registered or answered on its
    /// merits, and never with 400, 416, 420, 483, 505 or 513.
    Process,
    /// An answer with this status code.
    Answer(u16),
    /// Silence: an answer that is not ours to forward, or nothing usable.
    Drop,
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The file's name without its suffix, as the RFC has it.
    pub(crate) name: &'static str,
    /// Where it is described.
    pub(crate) section: &'static str,
    /// Its octets.
    pub(crate) bytes: &'static [u8],
    /// What this crate finds.
    pub(crate) parse: Parse,
    /// What a proxy may do; any one of these is right.
    pub(crate) proxy: &'static [Outcome],
    /// What a registrar may do with it (or, for a request that is no REGISTER, what a proxy in front of one may).
    pub(crate) registrar: &'static [Outcome],
}

macro_rules! cases {
    ($folder:literal, $rfc:literal: $($name:literal $section:literal, $parse:expr, $proxy:expr, $registrar:expr;)*) => {
        &[$(Case {
            name: $name,
            section: concat!($rfc, " §", $section),
            bytes: include_bytes!(concat!($folder, "/", $name, ".dat")),
            parse: $parse,
            proxy: &$proxy,
            registrar: &$registrar,
        }),*]
    };
}

/// RFC 4475. Where the RFC lets an element be liberal, both ways are listed.
pub(crate) const RFC_4475: &[Case] = cases! { "rfc4475", "RFC 4475":
    "wsinv" "3.1.1.1", Fine, [Process], [Process];
    "intmeth" "3.1.1.2", Fine, [Process], [Process];
    "esc01" "3.1.1.3", Fine, [Process], [Process];
    "escnull" "3.1.1.4", Fine, [Process], [Process];
    "esc02" "3.1.1.5", Fine, [Process], [Process];
    "lwsdisp" "3.1.1.6", Fine, [Process], [Process];
    "longreq" "3.1.1.7", Fine, [Process], [Process];
    "dblreq" "3.1.1.8", Fine, [Process], [Process];
    "semiuri" "3.1.1.9", Fine, [Process], [Process];
    "transports" "3.1.1.10", Fine, [Process], [Process];
    "mpart01" "3.1.1.11", Fine, [Process], [Process];
    "unreason" "3.1.1.12", Fine, [Drop], [Drop];
    "noreason" "3.1.1.13", Fine, [Drop], [Drop];
    "badinv01" "3.1.2.1", Defect("header_value", 400), [Answer(400)], [Answer(400)];
    "clerr" "3.1.2.2", Defect("content_length", 400), [Answer(400)], [Answer(400)];
    "ncl" "3.1.2.3", Defect("content_length", 400), [Answer(400)], [Answer(400)];
    "scalar02" "3.1.2.4", Defect("header_value", 400), [Answer(400)], [Answer(400)];
    "scalarlg" "3.1.2.5", Defect("header_value", 400), [Drop], [Drop];
    "quotbal" "3.1.2.6", Fine, [Process, Answer(400)], [Process, Answer(400)];
    "ltgtruri" "3.1.2.7", Defect("start_line", 400), [Answer(400)], [Answer(400)];
    "lwsruri" "3.1.2.8", Defect("start_line", 400), [Answer(400)], [Answer(400)];
    "lwsstart" "3.1.2.9", Defect("start_line", 400), [Answer(400)], [Answer(400)];
    "trws" "3.1.2.10", Defect("start_line", 400), [Answer(400)], [Answer(400)];
    // The Route in the Request-URI must not be followed; refusing it is as good (§3.1.2.11).
    "escruri" "3.1.2.11", Fine, [Process, Answer(400)], [Process, Answer(400)];
    "baddate" "3.1.2.12", Fine, [Process, Answer(400)], [Process, Answer(400)];
    "regbadct" "3.1.2.13", Fine, [Process, Answer(400)], [Answer(400)];
    "badaspec" "3.1.2.14", Fine, [Process, Answer(400)], [Process, Answer(400)];
    "baddn" "3.1.2.15", Fine, [Process, Answer(400)], [Process, Answer(400)];
    // The version of the start line counts; the Via says 7.0 as well, and is read far enough to answer.
    "badvers" "3.1.2.16", Defect("version", 505), [Answer(505)], [Answer(505)];
    "mismatch01" "3.1.2.17", Defect("method_mismatch", 400), [Answer(400)], [Answer(400)];
    "mismatch02" "3.1.2.18", Defect("method_mismatch", 400), [Answer(400), Answer(501)], [Answer(400), Answer(501)];
    "bigcode" "3.1.2.19", Defect("start_line", 400), [Drop], [Drop];
    // A cookie with nothing behind it makes no branch unique: matched as RFC 2543 peers are.
    "badbranch" "3.2.1", Fine, [Process, Answer(400)], [Process, Answer(400)];
    "insuf" "3.3.1", Defect("header_missing", 400), [Answer(400)], [Answer(400)];
    "unkscm" "3.3.2", Fine, [Answer(416)], [Answer(416)];
    "novelsc" "3.3.3", Fine, [Answer(416)], [Answer(416)];
    "unksm2" "3.3.4", Fine, [Process], [Answer(400)];
    "bext01" "3.3.5", Fine, [Answer(420)], [Answer(420)];
    "invut" "3.3.6", Fine, [Process], [Process];
    "regaut01" "3.3.7", Fine, [Process], [Process];
    "multi01" "3.3.8", Defect("header_repeated", 400), [Answer(400)], [Answer(400)];
    "mcl01" "3.3.9", Defect("header_repeated", 400), [Answer(400)], [Answer(400)];
    "bcast" "3.3.10", Fine, [Drop], [Drop];
    // An OPTIONS that runs out at us may be answered in its target's place (RFC 3261 §16.3 step 3).
    "zeromf" "3.3.11", Fine, [Answer(483), Answer(200)], [Answer(483), Answer(200)];
    "cparam01" "3.3.12", Fine, [Process], [Process];
    "cparam02" "3.3.13", Fine, [Process], [Process];
    "regescrt" "3.3.14", Fine, [Process], [Process];
    "sdp01" "3.3.15", Fine, [Process], [Process];
    "inv2543" "3.4.1", Fine, [Process], [Process];
};

/// RFC 5118. The RFC's archive has bare LF line ends, no blank line behind §4.10's two messages, and three wrong
/// Content-Lengths; the files have them as they would travel, and nothing else is changed.
pub(crate) const RFC_5118: &[Case] = cases! { "rfc5118", "RFC 5118":
    "ipv6-good" "4.1", Fine, [Process], [Process];
    // `sip:2001:db8::10` has the Request-URI's octets; what it means is found by who routes it.
    "ipv6-bad" "4.2", Fine, [Answer(400)], [Answer(400)];
    "port-ambiguous" "4.3", Fine, [Process], [Process];
    "port-unambiguous" "4.4", Fine, [Process], [Process];
    "via-received-param-with-delim" "4.5", Fine, [Process], [Process];
    "via-received-param-no-delim" "4.5", Fine, [Process], [Process];
    "ipv6-in-sdp" "4.6", Fine, [Process], [Process];
    "mult-ip-in-header" "4.7", Fine, [Process], [Process];
    "mult-ip-in-sdp" "4.8", Fine, [Process], [Process];
    "ipv4-mapped-ipv6" "4.9", Fine, [Process], [Process];
    "ipv6-bug-abnf-3-colons" "4.10", Fine, [Process], [Process];
    "ipv6-correct-abnf-2-colons" "4.10", Fine, [Process], [Process];
};

/// All 61.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    RFC_4475.iter().chain(RFC_5118)
}
