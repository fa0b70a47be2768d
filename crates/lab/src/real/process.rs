//! Processes and a folder of ours, which end and go with their owner.

use core::net::SocketAddr;
use core::time::Duration;
use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::RealError;
use super::stop::Stop;
use crate::clock::Clock;

/// How long a process gets to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process of ours, which ends with this.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    name: &'static str,
    said: PathBuf,
}

impl Process {
    /// Starts it in `folder`; what it says goes to files there.
    ///
    /// # Errors
    ///
    /// It can't be started.
    pub(super) fn start(
        name: &'static str,
        command: &mut Command,
        folder: &Path,
        label: &str,
    ) -> Result<Self, RealError> {
        let failed = |error| RealError::System(name, error);
        let said = folder.join(format!("{label}.err"));
        let out = File::create(folder.join(format!("{label}.out"))).map_err(failed)?;
        let err = File::create(&said).map_err(failed)?;
        let child = command
            .current_dir(folder)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, name, said })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until somebody listens at `at`.
    ///
    /// # Errors
    ///
    /// It ended, or nobody does within 20 s; or a signal came.
    pub(super) fn wait_until_bound(&mut self, at: SocketAddr, stop: &Stop) -> Result<(), RealError> {
        self.wait(stop, |_| UdpSocket::bind(at).is_err())
    }

    /// Waits until it answers OPTIONS (RFC 3261 §11) at `at`.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_until_bound`].
    pub(super) fn wait_until_answering(&mut self, at: SocketAddr, stop: &Stop) -> Result<(), RealError> {
        let failed = |error| RealError::System("a port on loopback", error);
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_millis(200))).map_err(failed)?;
        let own = socket.local_addr().map_err(failed)?;
        let mut buffer = [0; 2048];
        self.wait(stop, |number| {
            let question = format!(
                "OPTIONS sip:{at} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKlab{number}\r\nFrom: \
                 <sip:lab@{own}>;tag=lab\r\nTo: <sip:{at}>\r\nCall-ID: lab{number}@{own}\r\nCSeq: {number} OPTIONS\r\n\
                 Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            );
            socket.send_to(question.as_bytes(), at).is_ok() && socket.recv_from(&mut buffer).is_ok()
        })
    }

    fn wait(&mut self, stop: &Stop, mut is_up: impl FnMut(u32) -> bool) -> Result<(), RealError> {
        let clock = Clock::start();
        let mut number = 0;
        while clock.elapsed() < PATIENCE {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("ended with {status}")));
            }
            number += 1;
            if is_up(number) {
                return Ok(());
            }
            stop.sleep(Duration::from_millis(20))?;
        }
        Err(self.failed("does not come up"))
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// It does not end within `limit`; or a signal came.
    pub(super) fn finish(&mut self, limit: Duration, stop: &Stop) -> Result<ExitStatus, RealError> {
        let clock = Clock::start();
        while clock.elapsed() < limit {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => stop.sleep(Duration::from_millis(40))?,
                Err(error) => return Err(RealError::System(self.name, error)),
            }
        }
        Err(self.failed("does not end"))
    }

    /// What became of it, with what it said.
    pub(super) fn failed(&self, what: &str) -> RealError {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(8).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        RealError::Failed(format!("{} {what}: {}", self.name, last.join("\n")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of ours, which goes with this.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    /// Makes it among the temporary files.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(super) fn make() -> Result<Self, RealError> {
        let path = std::env::temp_dir().join(format!("tandem-lab-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| RealError::System("a folder for temporary files", error))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ports of loopback that nobody has at the moment.
///
/// # Errors
///
/// What the system says.
pub(super) fn free_ports(count: usize) -> Result<Vec<SocketAddr>, RealError> {
    let failed = |error| RealError::System("a port on loopback", error);
    let sockets: Vec<UdpSocket> =
        (0..count).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<_, _>>().map_err(failed)?;
    sockets.iter().map(UdpSocket::local_addr).collect::<Result<_, _>>().map_err(failed)
}
