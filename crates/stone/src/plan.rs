//! A plan file: one load over several processes or hosts.
//!
//! ```toml
//! workload = "proxy200"
//! loaders = 4
//! handlers = 4
//! [load]                       # the options of `stone WORKLOAD`, without their dashes
//! target = "sip:127.0.0.1:5060"
//! rate = 1000
//! for = "60s"
//! ```

use core::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;

use crate::error::StoneError;

/// A plan, as it stands in the file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The workload's name, or `mix`.
    #[serde(default = "proxy200")]
    pub workload: String,
    /// Calling ends; each takes its share of the rate. SIPstone's set-up has four.
    #[serde(default = "four")]
    pub loaders: u16,
    /// Answering ends; each registers its share of the users. SIPstone's set-up has four.
    #[serde(default = "four")]
    pub handlers: u16,
    /// Where the controller waits for them.
    #[serde(default = "anywhere")]
    pub listen: SocketAddr,
    /// Whether the controller starts them itself, on this host.
    #[serde(default = "yes")]
    pub local: bool,
    /// Seconds that the controller waits for all of them.
    #[serde(default = "half_a_minute")]
    pub wait: u64,
    /// Options of the load.
    pub load: toml::Table,
}

fn proxy200() -> String {
    "proxy200".to_owned()
}
const fn four() -> u16 {
    4
}
fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}
const fn yes() -> bool {
    true
}
const fn half_a_minute() -> u64 {
    30
}

impl Plan {
    /// Reads a plan file.
    ///
    /// # Errors
    ///
    /// [`StoneError::File`] if it cannot be read or is wrong, with line and key.
    pub fn read(path: &Path) -> Result<Self, StoneError> {
        let text = std::fs::read_to_string(path).map_err(|error| StoneError::file(path, &error))?;
        Self::parse(&text, &path.display().to_string())
    }

    fn parse(text: &str, file: &str) -> Result<Self, StoneError> {
        let plan: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1)
            });
            StoneError::File { path: format!("{file}:{line}"), why: error.message().replace('\n', " ") }
        })?;
        if plan.loaders == 0 || plan.handlers == 0 {
            return Err(StoneError::plan("loaders, handlers", "0", "a load needs at least one of each"));
        }
        Ok(plan)
    }

    /// The load's options as a command line.
    ///
    /// # Errors
    ///
    /// [`StoneError::Plan`] for a value that no option has, such as a table.
    pub fn arguments(&self) -> Result<Vec<String>, StoneError> {
        let mut arguments = Vec::new();
        for (key, value) in &self.load {
            let values = value.as_array().map_or(core::slice::from_ref(value), Vec::as_slice);
            for value in values {
                let text = match value {
                    toml::Value::Boolean(true) => {
                        arguments.push(format!("--{key}"));
                        continue;
                    }
                    toml::Value::Boolean(false) => continue,
                    toml::Value::String(text) => text.clone(),
                    toml::Value::Integer(number) => number.to_string(),
                    toml::Value::Float(number) => number.to_string(),
                    toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
                        return Err(StoneError::plan(
                            &format!("load.{key}"),
                            &value.to_string(),
                            "a text, a number, true or false, or a list of them",
                        ));
                    }
                };
                arguments.push(format!("--{key}={text}"));
            }
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_becomes_options_and_a_mistake_is_told_with_its_line() {
        let plan =
            Plan::parse("loaders = 2\n[load]\ntarget = [\"a:1\", \"b:2\"]\nrate = 10\nquiet = true\n", "p")
                .unwrap();
        assert_eq!((plan.loaders, plan.handlers), (2, 4));
        assert_eq!(plan.arguments().unwrap(), ["--quiet", "--rate=10", "--target=a:1", "--target=b:2"]);
        let error = Plan::parse("loaders = 2\nhandlerz = 1\n[load]\n", "p").unwrap_err().to_string();
        assert!(error.starts_with("p:2: unknown field `handlerz`"), "{error}");
    }
}
