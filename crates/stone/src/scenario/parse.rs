//! Reads a SIPp scenario; whatever is not supported is named with its line, before a packet leaves.

use core::time::Duration;
use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use regex::bytes::RegexBuilder;

use super::model::{Action, Arithmetic, Comparison, Does, Expects, Length, Operand, Scenario, Step, Where};
use super::text::{Text, variable_place};
use crate::error::StoneError;

/// Attributes of one element, each with its value.
type Attributes = BTreeMap<String, String>;

struct Parser<'a> {
    file: &'a str,
    source: &'a str,
    variables: Vec<String>,
    steps: Vec<Step>,
    /// Labels with the step they stand before.
    labels: BTreeMap<String, usize>,
    /// Jumps to be resolved when all labels are known: step, label, line, whether on timeout.
    jumps: Vec<(usize, String, usize, bool)>,
}

/// Reads the text of a scenario file; `file` is its name in complaints.
///
/// # Errors
///
/// [`StoneError::Scenario`] with the line: XML that is none, an element, attribute or keyword that is not supported.
pub fn parse(source: &str, file: &str) -> Result<Scenario, StoneError> {
    let mut parser = Parser {
        file,
        source,
        variables: Vec::new(),
        steps: Vec::new(),
        labels: BTreeMap::new(),
        jumps: Vec::new(),
    };
    let name = parser.read()?;
    parser.resolve()?;
    Ok(Scenario { name, steps: parser.steps, variables: parser.variables })
}

impl Parser<'_> {
    fn wrong(&self, line: usize, why: impl Into<String>) -> StoneError {
        StoneError::Scenario { file: self.file.to_owned(), line, why: why.into() }
    }

    fn line_at(&self, position: u64) -> usize {
        let position = usize::try_from(position).unwrap_or(usize::MAX).min(self.source.len());
        self.source.as_bytes().iter().take(position).filter(|&&byte| byte == b'\n').count() + 1
    }

    fn read(&mut self) -> Result<String, StoneError> {
        let mut reader = Reader::from_str(self.source);
        let mut name = None;
        // The element that text belongs to, and the line of its text.
        let mut sending: Option<usize> = None;
        let mut in_action = false;
        loop {
            let before = reader.buffer_position();
            let event = reader
                .read_event()
                .map_err(|error| self.wrong(self.line_at(before), format!("not XML: {error}")))?;
            let line = self.line_at(before + leading(self.source, before));
            let (element, open) = match &event {
                Event::Start(element) => (element, true),
                Event::Empty(element) => (element, false),
                Event::End(end) => {
                    match end.name().as_ref() {
                        b"send" => sending = None,
                        b"action" => in_action = false,
                        _ => {}
                    }
                    continue;
                }
                Event::CData(text) => {
                    if let Some(place) = sending {
                        let text = core::str::from_utf8(text).unwrap_or_default();
                        self.put_text(place, text, line)?;
                    }
                    continue;
                }
                Event::Eof => break,
                Event::Text(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_)
                | Event::GeneralRef(_) => continue,
            };
            let tag = String::from_utf8_lossy(element.name().as_ref()).into_owned();
            let mut attributes = self.attributes(element, line)?;
            match tag.as_str() {
                "scenario" => {
                    name = Some(attributes.remove("name").unwrap_or_default());
                }
                "action" => in_action = open,
                _ if in_action => {
                    let action = self.action(&tag, &mut attributes, line)?;
                    let Some(step) = self.steps.last_mut() else {
                        return Err(self.wrong(line, "an <action> outside an element"));
                    };
                    step.actions.push(action);
                }
                "send" => {
                    self.send(&mut attributes, line)?;
                    sending = Some(self.steps.len() - 1);
                }
                "recv" => self.receive(&mut attributes, line)?,
                "pause" | "timewait" => self.pause(&mut attributes, line)?,
                "nop" => self.step(Does::Nothing, &mut attributes, line)?,
                "label" => {
                    let id =
                        attributes.remove("id").ok_or_else(|| self.wrong(line, "<label> needs an id"))?;
                    self.labels.insert(id, self.steps.len());
                }
                // Statistics that SIPp asks for and we always keep; declarations of variables.
                "ResponseTimeRepartition" | "CallLengthRepartition" | "Global" | "User" | "Reference" => {
                    attributes.clear()
                }
                other => return Err(self.wrong(line, format!("<{other}> is not supported"))),
            }
            if let Some(left) = attributes.keys().next() {
                return Err(self.wrong(line, format!("<{tag} {left}=...> is not supported")));
            }
        }
        let name = name.ok_or_else(|| self.wrong(1, "no <scenario> in it"))?;
        for step in &self.steps {
            if matches!(&step.does, Does::Send { text, .. } if text.0.is_empty()) {
                return Err(self.wrong(step.line, "<send> needs its message in <![CDATA[...]]>"));
            }
        }
        if self.steps.is_empty() {
            return Err(self.wrong(1, "a scenario without steps"));
        }
        Ok(name)
    }

    fn attributes(&self, element: &BytesStart<'_>, line: usize) -> Result<Attributes, StoneError> {
        let mut found = Attributes::new();
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|error| self.wrong(line, format!("not XML: {error}")))?;
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .map_err(|error| self.wrong(line, format!("not XML: {error}")))?;
            found.insert(String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.into_owned());
        }
        Ok(found)
    }

    fn step(&mut self, does: Does, attributes: &mut Attributes, line: usize) -> Result<(), StoneError> {
        for quiet in ["start_rtd", "rtd", "crlf", "counter", "display", "hide", "sanity_check"] {
            attributes.remove(quiet); // statistics and layout of SIPp's own screen
        }
        if let Some(label) = attributes.remove("next") {
            self.jumps.push((self.steps.len(), label, line, false));
        }
        let test = attributes.remove("test").map(|name| variable_place(&name, &mut self.variables));
        self.steps.push(Step { does, next: None, test, actions: Vec::new(), line });
        Ok(())
    }

    fn send(&mut self, attributes: &mut Attributes, line: usize) -> Result<(), StoneError> {
        let retrans = self.milliseconds(attributes, "retrans", line)?;
        self.step(Does::Send { text: Text::default(), retrans }, attributes, line)
    }

    fn put_text(&mut self, place: usize, source: &str, line: usize) -> Result<(), StoneError> {
        let lead = source.len() - source.trim_start_matches(['\n', '\r', ' ', '\t']).len();
        let first = line + source.get(..lead).map_or(0, |lead| lead.matches('\n').count());
        let text = Text::parse(source, &mut self.variables);
        let mut text = text.map_err(|unknown| {
            self.wrong(first + unknown.line, format!("{} is not supported", unknown.keyword))
        })?;
        text.complete();
        if let Some(Step { does: Does::Send { text: place, .. }, .. }) = self.steps.get_mut(place) {
            *place = text;
        }
        Ok(())
    }

    fn receive(&mut self, attributes: &mut Attributes, line: usize) -> Result<(), StoneError> {
        let is_true = |value: Option<String>| value.is_some_and(|value| value == "true");
        let expects = match (attributes.remove("response"), attributes.remove("request")) {
            (Some(code), None) => match code.parse() {
                Ok(code @ 100..=699) => Expects::Response(code),
                Ok(_) | Err(_) => {
                    return Err(self.wrong(line, format!("response=\"{code}\" is no status code")));
                }
            },
            (None, Some(method)) => Expects::Request(method),
            (None, None) | (Some(_), Some(_)) => {
                return Err(self.wrong(line, "<recv> needs either response or request"));
            }
        };
        let optional = match attributes.remove("optional").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(self.wrong(line, format!("optional=\"{other}\" is not supported"))),
        };
        if let Some(label) = attributes.remove("ontimeout") {
            self.jumps.push((self.steps.len(), label, line, true));
        }
        let timeout = self.milliseconds(attributes, "timeout", line)?;
        let routes = is_true(attributes.remove("rrs"));
        let auth = is_true(attributes.remove("auth"));
        let does = Does::Receive { expects, optional, routes, auth, timeout, on_timeout: None };
        self.step(does, attributes, line)
    }

    fn pause(&mut self, attributes: &mut Attributes, line: usize) -> Result<(), StoneError> {
        let fixed = self.milliseconds(attributes, "milliseconds", line)?;
        let mut number = |name: &str| {
            attributes.remove(name).and_then(|text| text.parse::<f64>().ok()).filter(|n| *n >= 0.0)
        };
        let (min, max, mean, deviation, value) =
            (number("min"), number("max"), number("mean"), number("stdev"), number("value"));
        let length = match (attributes.remove("distribution").as_deref(), fixed) {
            (None, None) => Length::Default,
            (None, Some(fixed)) => Length::Fixed(fixed),
            (Some("fixed"), None) => Length::Fixed(crate::dice::secs(value.unwrap_or_default() / 1e3)),
            (Some("uniform"), None) => Length::Uniform(
                min.ok_or_else(|| self.wrong(line, "needs min"))?,
                max.ok_or_else(|| self.wrong(line, "needs max"))?,
            ),
            (Some("normal"), None) => Length::Normal(
                mean.ok_or_else(|| self.wrong(line, "needs mean"))?,
                deviation.ok_or_else(|| self.wrong(line, "needs stdev"))?,
            ),
            (Some("exponential"), None) => {
                Length::Exponential(mean.ok_or_else(|| self.wrong(line, "needs mean"))?)
            }
            (Some(other), _) => {
                return Err(self.wrong(line, format!("distribution=\"{other}\" is not supported")));
            }
        };
        self.step(Does::Pause(length), attributes, line)
    }

    fn milliseconds(
        &self,
        attributes: &mut Attributes,
        name: &str,
        line: usize,
    ) -> Result<Option<Duration>, StoneError> {
        let Some(text) = attributes.remove(name) else { return Ok(None) };
        let value = text
            .parse()
            .map_err(|_| self.wrong(line, format!("{name}=\"{text}\" is no number of milliseconds")))?;
        Ok(Some(Duration::from_millis(value)))
    }

    fn action(&mut self, tag: &str, attributes: &mut Attributes, line: usize) -> Result<Action, StoneError> {
        match tag {
            "ereg" => self.ereg(attributes, line),
            "assign" => self.compute(Arithmetic::Assign, attributes, line),
            "add" => self.compute(Arithmetic::Add, attributes, line),
            "subtract" => self.compute(Arithmetic::Subtract, attributes, line),
            "multiply" => self.compute(Arithmetic::Multiply, attributes, line),
            "divide" => self.compute(Arithmetic::Divide, attributes, line),
            "todouble" => self.compute(Arithmetic::ToNumber, attributes, line),
            "assignstr" => {
                let to = self.variable(attributes, "assign_to", line)?;
                Ok(Action::AssignText { to, text: self.text(attributes, "value", line)? })
            }
            "strcmp" => {
                let to = self.variable(attributes, "assign_to", line)?;
                let variable = self.variable(attributes, "variable", line)?;
                Ok(Action::Compare { to, variable, text: self.text(attributes, "value", line)? })
            }
            "test" => {
                let to = self.variable(attributes, "assign_to", line)?;
                let variable = self.variable(attributes, "variable", line)?;
                let compare = match attributes.remove("compare").as_deref() {
                    Some("equal") => Comparison::Equal,
                    Some("not_equal") => Comparison::NotEqual,
                    Some("greater_than") => Comparison::Greater,
                    Some("less_than") => Comparison::Less,
                    Some("greater_than_equal") => Comparison::GreaterEqual,
                    Some("less_than_equal") => Comparison::LessEqual,
                    other => {
                        return Err(self.wrong(
                            line,
                            format!("compare=\"{}\" is not supported", other.unwrap_or_default()),
                        ));
                    }
                };
                Ok(Action::Test { to, variable, compare, value: self.operand(attributes, line)? })
            }
            "log" | "warning" => Ok(Action::Say(self.text(attributes, "message", line)?)),
            other => Err(self.wrong(line, format!("the action <{other}> is not supported"))),
        }
    }

    fn ereg(&mut self, attributes: &mut Attributes, line: usize) -> Result<Action, StoneError> {
        let pattern = attributes.remove("regexp").ok_or_else(|| self.wrong(line, "<ereg> needs regexp"))?;
        let is_true = |value: Option<String>| value.is_some_and(|value| value == "true");
        let regex = RegexBuilder::new(&pattern)
            .case_insensitive(is_true(attributes.remove("case_indep")))
            .size_limit(1 << 20)
            .build()
            .map_err(|error| self.wrong(line, format!("regexp: {error}").replace('\n', " ")))?;
        let header = attributes.remove("header");
        let place = match (attributes.remove("search_in").as_deref(), header) {
            (Some("hdr"), Some(header)) => Where::Header(header.trim_end_matches(':').to_ascii_lowercase()),
            (Some("body"), _) => Where::Body,
            (None | Some("msg"), _) => Where::Message,
            (Some(other), _) => {
                return Err(
                    self.wrong(line, format!("search_in=\"{other}\" is not supported (or needs header)"))
                );
            }
        };
        let check = is_true(attributes.remove("check_it"));
        let inverse = is_true(attributes.remove("check_it_inverse"));
        let into = attributes.remove("assign_to").unwrap_or_default();
        let into = into.split(',').map(str::trim).filter(|name| !name.is_empty());
        let into = into.map(|name| variable_place(name, &mut self.variables)).collect();
        Ok(Action::Match { regex, place, check, inverse, into })
    }

    fn compute(
        &mut self,
        how: Arithmetic,
        attributes: &mut Attributes,
        line: usize,
    ) -> Result<Action, StoneError> {
        let to = self.variable(attributes, "assign_to", line)?;
        Ok(Action::Compute { to, how, value: self.operand(attributes, line)? })
    }

    fn operand(&mut self, attributes: &mut Attributes, line: usize) -> Result<Operand, StoneError> {
        if let Some(name) = attributes.remove("variable") {
            return Ok(Operand::Variable(variable_place(&name, &mut self.variables)));
        }
        let text = attributes.remove("value").ok_or_else(|| self.wrong(line, "needs value or variable"))?;
        text.parse()
            .map(Operand::Number)
            .map_err(|_| self.wrong(line, format!("value=\"{text}\" is no number")))
    }

    fn variable(
        &mut self,
        attributes: &mut Attributes,
        name: &str,
        line: usize,
    ) -> Result<usize, StoneError> {
        let variable = attributes.remove(name).ok_or_else(|| self.wrong(line, format!("needs {name}")))?;
        Ok(variable_place(&variable, &mut self.variables))
    }

    fn text(&mut self, attributes: &mut Attributes, name: &str, line: usize) -> Result<Text, StoneError> {
        let text = attributes.remove(name).ok_or_else(|| self.wrong(line, format!("needs {name}")))?;
        let parsed = Text::parse(&text, &mut self.variables);
        parsed.map_err(|unknown| self.wrong(line, format!("{} is not supported", unknown.keyword)))
    }

    fn resolve(&mut self) -> Result<(), StoneError> {
        for (place, label, line, timeout) in core::mem::take(&mut self.jumps) {
            let Some(&target) = self.labels.get(&label) else {
                return Err(self.wrong(line, format!("there is no <label id=\"{label}\">")));
            };
            let Some(step) = self.steps.get_mut(place) else { continue };
            if !timeout {
                step.next = Some(target);
            } else if let Does::Receive { on_timeout, .. } = &mut step.does {
                *on_timeout = Some(target);
            }
        }
        Ok(())
    }
}

/// White space before an element, which the reader hands out as text of its own.
fn leading(source: &str, position: u64) -> u64 {
    let rest = usize::try_from(position).ok().and_then(|position| source.get(position..)).unwrap_or_default();
    u64::try_from(rest.len() - rest.trim_start().len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "<?xml version=\"1.0\"?>\n<scenario name=\"x\">\n<send retrans=\"500\">\n<![CDATA[\n\
        OPTIONS sip:[service]@[remote_ip] SIP/2.0\n]]></send>\n<recv response=\"100\" optional=\"true\"/>\n\
        <recv response=\"200\" next=\"1\" rtd=\"true\"><action><ereg regexp=\"tag=(.*)\" search_in=\"hdr\" header=\"To:\" \
        check_it=\"true\" assign_to=\"1,2\"/></action></recv>\n<pause/>\n<label id=\"1\"/>\n</scenario>";

    #[test]
    fn the_common_subset_is_understood() {
        let scenario = parse(GOOD, "x.xml").unwrap();
        assert_eq!((scenario.name.as_str(), scenario.steps.len(), scenario.calls()), ("x", 4, true));
        assert_eq!(scenario.steps[2].next, Some(4));
        assert_eq!(scenario.variables, ["1", "2"]);
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_line() {
        let cases = [
            ("<recv response=\"100\" optional=\"true\"/>", "<sendCmd/>", 8, "<sendCmd> is not supported"),
            ("<pause/>", "<pause poisson=\"1\"/>", 10, "<pause poisson=...> is not supported"),
            ("<pause/>", "<recv request=\"X\" next=\"9\"/>", 10, "there is no <label id=\"9\">"),
            ("[remote_ip]", "[tdmmap]", 5, "[tdmmap] is not supported"),
            ("tag=(.*)", "tag=(", 9, "regexp"),
            ("<pause/>", "<pause>", 12, "not XML"),
        ];
        for (from, to, want_line, want) in cases {
            match parse(&GOOD.replacen(from, to, 1), "x.xml") {
                Err(StoneError::Scenario { line, why, .. }) => {
                    assert!(why.contains(want), "{why}");
                    assert!(line.abs_diff(want_line) <= 1, "{why}: line {line}, not {want_line}");
                }
                other => panic!("{to}: {other:?}"),
            }
        }
    }
}
