//! What a REGISTER does to the bindings of its address-of-record: RFC 3261 §10.3 steps 6 to 8.
//!
//! [`register`] is a pure function from the old record to the new one, all or nothing: a request that is refused for
//! one of its contacts changes none. Steps 1 to 5 (routing, Require, authentication, authorisation, the canonical
//! address-of-record) are the node's and [`crate::write_canonical_aor`]'s.
//!
//! Where the RFC leaves a choice: too many contacts are a 403, since retrying does not help; the out-of-order CSeq of
//! step 7 is a 500, as a dialog would answer it (§12.2.2); the identical request once more, whose transaction is
//! already forgotten, changes nothing and is answered as the first was.

use core::time::Duration;
use tandem_base::Instant;
use tandem_sip::{Hop, Uri};

use crate::locations::Change;
use crate::{Binding, Q_DEFAULT, Record, RecordBuilder};

/// What the registrar grants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How long a binding lives when the phone does not say.
    pub expires_default: Duration,
    /// The shortest time granted: a shorter wish is a 423, unless it is an hour or more.
    pub expires_min: Duration,
    /// The longest time granted: a longer wish is cut to it.
    pub expires_max: Duration,
    /// How many bindings one address-of-record may have.
    pub contacts_max: usize,
    /// How many octets the URI, Call-ID, Path, instance and User-Agent of one binding may take together.
    pub binding_bytes_max: usize,
    /// What to do with a Path that the phone does not know of.
    pub path: PathPolicy,
    /// The Service-Route of every 200 (RFC 3608), a comma-separated list; empty for none.
    pub service_route: Vec<u8>,
}

impl Default for Policy {
    /// An hour by default, a minute to a day by wish, ten contacts of 4 KiB.
    fn default() -> Self {
        Self {
            expires_default: Duration::from_secs(3600),
            expires_min: Duration::from_secs(60),
            expires_max: Duration::from_secs(86_400),
            contacts_max: 10,
            binding_bytes_max: 4096,
            path: PathPolicy::Accept,
            service_route: Vec::new(),
        }
    }
}

/// What to do with a Path header field when the phone does not list `path` in Supported (RFC 3327 §5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathPolicy {
    /// Store it: the edge proxy that put it there is trusted, and the phone need not know. The 200 echoes Path only
    /// to a phone that supports it.
    #[default]
    Accept,
    /// Refuse with 421 and `Require: path`, so that no phone is bound by a route it can't see.
    RequireSupport,
}

/// A REGISTER, as far as the registrar looks at it.
#[derive(Clone, Debug)]
pub struct Register<'a> {
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq number.
    pub cseq: u32,
    /// The Expires header field.
    pub expires: Option<Duration>,
    /// What it asks for.
    pub contacts: Contacts<'a>,
    /// The Path values as one comma-separated list; empty if there is none.
    pub path: Vec<u8>,
    /// Whether Supported lists `path`.
    pub supports_path: bool,
    /// The User-Agent header field; empty if absent.
    pub user_agent: &'a [u8],
    /// The hop it came by.
    pub received: Option<Hop>,
}

/// The Contact header fields of a REGISTER.
#[derive(Clone, Debug)]
pub enum Contacts<'a> {
    /// None: the bindings are only asked for (RFC 3261 §10.2.3).
    Fetch,
    /// `*`: all bindings go (RFC 3261 §10.2.2).
    All,
    /// These.
    Each(Vec<ContactWish<'a>>),
}

/// One Contact of a REGISTER.
#[derive(Clone, Copy, Debug)]
pub struct ContactWish<'a> {
    /// Its URI, without angle brackets.
    pub uri: &'a [u8],
    /// Its `q` parameter in thousandths.
    pub q: Option<u16>,
    /// Its `expires` parameter.
    pub expires: Option<Duration>,
    /// Its `+sip.instance` parameter without the quotes; empty if absent.
    pub instance: &'a [u8],
    /// Its `reg-id` parameter; 0 if absent.
    pub reg_id: u32,
}

/// Why a REGISTER is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A Contact, Expires or Path header field that can't be read, or no sip, sips or other URI in a Contact.
    Malformed,
    /// `*` beside another contact, or with an Expires other than zero (RFC 3261 §10.3 step 6).
    WildcardMisuse,
    /// Shorter than this registrar grants (RFC 3261 §10.3 step 7).
    IntervalTooBrief {
        /// The shortest time granted.
        min: Duration,
    },
    /// The binding was set by a later request of the same Call-ID (RFC 3261 §10.3 step 7).
    OutOfOrder,
    /// More bindings than [`Policy::contacts_max`].
    TooManyContacts,
    /// A binding larger than [`Policy::binding_bytes_max`].
    TooLarge,
    /// A Path, and a phone that does not support it, under [`PathPolicy::RequireSupport`].
    PathUnsupported,
    /// The location service is full.
    LocationsFull,
}

impl Refusal {
    /// The status code of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::WildcardMisuse => 400,
            Self::TooManyContacts => 403,
            Self::TooLarge => 413,
            Self::PathUnsupported => 421,
            Self::IntervalTooBrief { .. } => 423,
            Self::OutOfOrder => 500,
            Self::LocationsFull => 503,
        }
    }

    /// The reason phrase of the answer.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "Malformed Contact, Expires or Path",
            Self::WildcardMisuse => "Wildcard Contact Not Alone With Expires 0",
            Self::TooManyContacts => "Too Many Contacts",
            Self::TooLarge => "Contact Too Large",
            Self::PathUnsupported => "Extension Required",
            Self::IntervalTooBrief { .. } => "Interval Too Brief",
            Self::OutOfOrder => "CSeq Out of Order",
            Self::LocationsFull => "Registrar Full",
        }
    }
}

/// What [`register`] decided.
#[derive(Debug)]
pub enum Outcome {
    /// The bindings stay: a fetch, or a request seen before.
    Unchanged,
    /// These are the bindings now; `None` if none is left.
    Changed(Option<Record>),
}

impl Outcome {
    /// Whether the record of the address-of-record changes.
    #[must_use]
    pub const fn is_change(&self) -> bool {
        matches!(self, Self::Changed(_))
    }

    /// The record as it will be, given what it was.
    #[must_use]
    pub const fn record<'a>(&'a self, old: Option<&'a Record>) -> Option<&'a Record> {
        match self {
            Self::Unchanged => old,
            Self::Changed(new) => new.as_ref(),
        }
    }
}

impl From<Outcome> for Change {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Unchanged => Self::Keep,
            Outcome::Changed(record) => record.into(),
        }
    }
}

/// What [`crate::Locations::register`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registered {
    /// Whether the record changed and must be persisted.
    pub changed: bool,
    /// How many bindings there are now.
    pub bindings: usize,
}

/// Processes a REGISTER for the address-of-record `aor`, whose bindings are `record` (RFC 3261 §10.3 steps 6 to 8).
///
/// # Errors
///
/// The [`Refusal`] that names the answer; the bindings must stay as they are then.
pub fn register(
    now: Instant,
    policy: &Policy,
    aor: &[u8],
    record: Option<&Record>,
    request: &Register<'_>,
) -> Result<Outcome, Refusal> {
    let live = record.into_iter().flat_map(|record| record.live(now));
    match &request.contacts {
        Contacts::Fetch => Ok(Outcome::Unchanged),
        Contacts::All => {
            if request.expires != Some(Duration::ZERO) {
                return Err(Refusal::WildcardMisuse);
            }
            for binding in live {
                if binding.call_id == request.call_id && request.cseq <= binding.cseq {
                    return Err(Refusal::OutOfOrder);
                }
            }
            Ok(if record.is_some() { Outcome::Changed(None) } else { Outcome::Unchanged })
        }
        Contacts::Each(wishes) => {
            if !request.path.is_empty() && !request.supports_path && policy.path == PathPolicy::RequireSupport
            {
                return Err(Refusal::PathUnsupported);
            }
            let mut builder = RecordBuilder::new(aor);
            live.for_each(|binding| builder.push(binding));
            let mut changed = false;
            // Bindings of this very request, which a second spelling of the same contact in it may overwrite.
            let mut ours: Vec<&[u8]> = Vec::new();
            for wish in wishes {
                changed |= apply(now, policy, request, wish, &mut builder, &mut ours)?;
            }
            if builder.bindings().len() > policy.contacts_max {
                return Err(Refusal::TooManyContacts);
            }
            Ok(if changed { Outcome::Changed(builder.finish()) } else { Outcome::Unchanged })
        }
    }
}

/// Applies one Contact; returns whether it changed anything.
fn apply<'a>(
    now: Instant,
    policy: &Policy,
    request: &'a Register<'_>,
    wish: &ContactWish<'a>,
    builder: &mut RecordBuilder<'a>,
    ours: &mut Vec<&'a [u8]>,
) -> Result<bool, Refusal> {
    let granted = grant_expires(wish.expires.or(request.expires), policy)?;
    let binding = Binding {
        contact: wish.uri,
        q: wish.q.unwrap_or(Q_DEFAULT),
        expires_at: now + granted,
        updated_at: now,
        call_id: request.call_id,
        cseq: request.cseq,
        path: &request.path,
        received: request.received,
        instance: wish.instance,
        reg_id: wish.reg_id,
        user_agent: request.user_agent,
    };
    let bytes = [binding.contact, binding.call_id, binding.path, binding.instance, binding.user_agent];
    if bytes.iter().map(|part| part.len()).sum::<usize>() > policy.binding_bytes_max {
        return Err(Refusal::TooLarge);
    }
    let bindings = builder.bindings_mut();
    let place = bindings.iter().position(|old| is_same_contact(old.contact, wish.uri));
    let Some((place, old)) = place.and_then(|place| bindings.get_mut(place).map(|old| (place, old))) else {
        if granted > Duration::ZERO {
            builder.push(binding);
            ours.push(wish.uri);
        }
        return Ok(granted > Duration::ZERO);
    };
    if old.call_id == request.call_id && request.cseq <= old.cseq && !ours.contains(&old.contact) {
        return if request.cseq == old.cseq && is_repeat(old, &binding, granted) {
            Ok(false)
        } else {
            Err(Refusal::OutOfOrder)
        };
    }
    if granted > Duration::ZERO {
        *old = binding;
        ours.push(wish.uri);
    } else {
        bindings.remove(place);
    }
    Ok(true)
}

/// Whether `new` says what `old` was set by: the same request once more.
fn is_repeat(old: &Binding<'_>, new: &Binding<'_>, granted: Duration) -> bool {
    // The kept times are whole seconds, one rounded up and one down.
    let kept = old.expires_at.saturating_since(old.updated_at);
    old.contact == new.contact && old.q == new.q && kept.abs_diff(granted) <= Duration::from_secs(1)
}

/// Whether two contacts are one binding: RFC 3261 §19.1.4, octet by octet for what is no SIP URI.
fn is_same_contact(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((Uri::parse(a), Uri::parse(b)), (Some(a), Some(b)) if a.is_equal(&b))
}

/// Decides how long a binding lives, counted from the moment the REGISTER is processed.
///
/// `asked` is the Contact's `expires` parameter or else the Expires header field; `None` takes
/// [`Policy::expires_default`]. The answer never passes [`Policy::expires_max`], and `Duration::ZERO` means "remove
/// the binding". Source: RFC 3261 §10.3 step 7.
///
/// # Errors
///
/// [`Refusal::IntervalTooBrief`] (a 423 with Min-Expires) if `asked` is above zero, below one hour and below
/// [`Policy::expires_min`].
pub fn grant_expires(asked: Option<Duration>, policy: &Policy) -> Result<Duration, Refusal> {
    const HOUR: Duration = Duration::from_secs(3600);
    let wish = match asked {
        Some(Duration::ZERO) => return Ok(Duration::ZERO),
        Some(asked) if asked < HOUR && asked < policy.expires_min => {
            return Err(Refusal::IntervalTooBrief { min: policy.expires_min });
        }
        Some(asked) => asked,
        None => policy.expires_default,
    };
    Ok(wish.min(policy.expires_max))
}
