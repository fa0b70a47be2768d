//! A scenario as it was understood: steps in order, nothing left to look up by name.

use core::time::Duration;

use regex::bytes::Regex;

use super::text::Text;

/// A scenario, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its `name`.
    pub name: String,
    /// What is done, in order.
    pub(crate) steps: Vec<Step>,
    /// Names of the variables; their places are used in the steps.
    pub(crate) variables: Vec<String>,
}

impl Scenario {
    /// Whether it begins by sending, as a calling end does.
    #[must_use]
    pub fn calls(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.does, Does::Send { .. })) && {
            let first =
                self.steps.iter().find(|step| matches!(step.does, Does::Send { .. } | Does::Receive { .. }));
            first.is_some_and(|step| matches!(step.does, Does::Send { .. }))
        }
    }
}

/// One element.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) does: Does,
    /// Where it goes on, if not at the following step; `test` names a variable that must be true for that.
    pub(crate) next: Option<usize>,
    pub(crate) test: Option<usize>,
    pub(crate) actions: Vec<Action>,
    /// Line of the element, from 1.
    pub(crate) line: usize,
}

/// What an element does.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// `<send>`.
    Send { text: Text, retrans: Option<Duration> },
    /// `<recv>`.
    Receive {
        expects: Expects,
        optional: bool,
        routes: bool,
        auth: bool,
        timeout: Option<Duration>,
        on_timeout: Option<usize>,
    },
    /// `<pause>`, `<timewait>`.
    Pause(Length),
    /// `<nop>`, and `<label>`.
    Nothing,
}

/// What a `<recv>` waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expects {
    /// `response="200"`.
    Response(u16),
    /// `request="INVITE"`.
    Request(String),
}

/// How long a pause lasts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Length {
    /// As the command line says.
    Default,
    /// `milliseconds`.
    Fixed(Duration),
    /// `distribution="uniform" min max`, in milliseconds.
    Uniform(f64, f64),
    /// `distribution="normal" mean stdev`.
    Normal(f64, f64),
    /// `distribution="exponential" mean`.
    Exponential(f64),
}

/// Where an `<ereg>` looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    Message,
    Header(String),
    Body,
}

/// One `<action>` child.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// `<ereg>`; the places of the variables for the match and its groups.
    Match { regex: Regex, place: Where, check: bool, inverse: bool, into: Vec<usize> },
    /// `<assign>` and the arithmetic; the right side is a number or a variable.
    Compute { to: usize, how: Arithmetic, value: Operand },
    /// `<assignstr>`.
    AssignText { to: usize, text: Text },
    /// `<strcmp>`: 0 if equal.
    Compare { to: usize, variable: usize, text: Text },
    /// `<test>`.
    Test { to: usize, variable: usize, compare: Comparison, value: Operand },
    /// `<log>` and `<warning>`: to standard error.
    Say(Text),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    Assign,
    Add,
    Subtract,
    Multiply,
    Divide,
    ToNumber,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Operand {
    Number(f64),
    Variable(usize),
}
