//! The operator's end of the control socket.

use crate::control::protocol::{ANSWER_BYTES_MAX, Answer, Failure, Page, Request};
use anyhow::Context as _;
use core::time::Duration;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// How long an answer may take; a reload or an import batch under `commit` is the slowest.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a request has no answer to show.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The node could not be reached or broke off.
    Unreachable(anyhow::Error),
    /// The node refused.
    Refused(Failure),
}

impl From<anyhow::Error> for AskError {
    fn from(error: anyhow::Error) -> Self {
        Self::Unreachable(error)
    }
}

/// A connection to a running node.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the node that listens on `socket`.
    ///
    /// # Errors
    ///
    /// If no node listens there or it is another user's.
    pub(crate) fn connect(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| {
            format!("no node answers on {} (is it running? see --socket)", socket.display())
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// The node's refusal, or that it could not be heard.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Value, AskError> {
        match self.exchange(request)? {
            Answer::Ok(value) => Ok(value),
            Answer::Error(failure) => Err(AskError::Refused(failure)),
        }
    }

    /// Asks for something of a known shape.
    ///
    /// # Errors
    ///
    /// As [`Client::ask`]; also if the node is of another version and answers otherwise.
    pub(crate) fn ask_for<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, AskError> {
        let value = self.ask(request)?;
        Ok(serde_json::from_value(value).context("the node answers in a form this version does not know")?)
    }

    /// Asks for every page of a list, `request` saying which one by its `after`.
    ///
    /// # Errors
    ///
    /// As [`Client::ask_for`].
    pub(crate) fn pages<T: DeserializeOwned>(
        &mut self,
        request: impl Fn(Option<String>) -> Request,
        mut each: impl FnMut(Vec<T>),
    ) -> Result<(), AskError> {
        let mut after = None;
        loop {
            let page: Page<T> = self.ask_for(&request(after))?;
            each(page.entries);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn exchange(&mut self, request: &Request) -> anyhow::Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).context("the node closed the connection")?;
        let mut answer = Vec::new();
        let limit = u64::try_from(ANSWER_BYTES_MAX)?;
        (&mut self.stream).take(limit).read_until(b'\n', &mut answer).context("the node does not answer")?;
        anyhow::ensure!(
            answer.last() == Some(&b'\n'),
            "the node broke off its answer (are you its user, or root?)"
        );
        serde_json::from_slice(&answer).context("the node's answer is no JSON")
    }
}
