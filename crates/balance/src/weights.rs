//! What requests weigh at a pool at the moment, for operators: by method, given or learned, and within which bounds.

use tandem_sip::Method;

use crate::Work;

/// What the requests of one method weigh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MethodWeight {
    /// The method; [`Method::Other`] is every method that is not listed by name.
    pub method: Method,
    /// Its weight, in thousandths of a plain request.
    pub work: Work,
    /// Whether it was learned from response times; else it was given.
    pub learned: bool,
}

impl MethodWeight {
    /// The method's token, and `others` for those without a line of their own.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if matches!(self.method, Method::Other) { "others" } else { self.method.as_str() }
    }
}

/// What requests weigh, for a policy that weighs them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights {
    /// INVITE and BYE first, then what weighs otherwise than the rest, at last the rest as [`Method::Other`].
    pub each: Vec<MethodWeight>,
    /// The least and the most that can be learned; `None` where all weights are given.
    pub bounds: Option<(Work, Work)>,
}

impl Weights {
    /// The table of what `of` says of each method; a method that weighs as the rest has no line.
    pub(crate) fn new(bounds: Option<(Work, Work)>, of: impl Fn(Method) -> (Work, bool)) -> Self {
        let line = |method| {
            let (work, learned) = of(method);
            MethodWeight { method, work, learned }
        };
        let rest = line(Method::Other);
        let mut each = vec![line(Method::Invite), line(Method::Bye)];
        let differs = |one: &MethodWeight| (one.work, one.learned) != (rest.work, rest.learned);
        let further = Method::KNOWN.into_iter().filter(|method| *method != Method::Invite);
        each.extend(further.filter(|method| *method != Method::Bye).map(line).filter(differs));
        each.push(rest);
        Self { each, bounds }
    }
}
