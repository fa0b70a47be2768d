//! A peer's process: started in a group of its own, bounded in time, its output kept, ended with its group.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How often a condition is looked at.
const TICK: Duration = Duration::from_millis(20);
/// No peer outlives this, even if the test process is killed before it can clean up.
const LIFE_SECONDS: u64 = 180;

/// A running peer. Dropping it ends the peer and, if the test is failing, prints what it wrote.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    log: PathBuf,
    also: Vec<PathBuf>,
    status: Option<ExitStatus>,
}

impl Running {
    /// Starts `program` in `dir` with its output in `dir/NAME.log`.
    ///
    /// # Panics
    ///
    /// If the program is not installed, saying which `make` target installs it.
    #[must_use]
    pub fn start(dir: &Path, name: &str, program: &str, configure: impl FnOnce(&mut Command)) -> Self {
        Self::start_for(LIFE_SECONDS, dir, name, program, configure)
    }

    /// The same, for one that may live so many seconds.
    ///
    /// # Panics
    ///
    /// If the program is not installed, saying which `make` target installs it.
    #[must_use]
    pub fn start_for(
        life: u64,
        dir: &Path,
        name: &str,
        program: &str,
        configure: impl FnOnce(&mut Command),
    ) -> Self {
        assert!(
            installed(program),
            "{program} is not installed: `make setup-test` installs the peers, `make build` the node"
        );
        let log = dir.join(format!("{name}.log"));
        let output = fs::File::create(&log).expect("the laboratory's directory is writable");
        let errors = output.try_clone().expect("a file handle can be doubled");
        // `timeout` leads a process group, bounds the peer's life, and passes its exit status on.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=2", &life.to_string(), program]);
        configure(&mut command);
        command.current_dir(dir).stdin(Stdio::null()).stdout(output).stderr(errors);
        command.env("TERM", "dumb").env("LC_ALL", "C");
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().expect("coreutils' timeout starts");
        Self { name: name.to_owned(), child, log, also: Vec::new(), status: None }
    }

    /// Names one more file to print when the test fails.
    #[must_use]
    pub fn with_log(mut self, path: PathBuf) -> Self {
        self.also.push(path);
        self
    }

    /// What it has written so far.
    #[must_use]
    pub fn log(&self) -> String {
        read(&self.log)
    }

    /// Waits until `ready` holds of this peer.
    ///
    /// # Panics
    ///
    /// If it ends first, or after `within`; with `what` in the message.
    pub fn wait_until(&mut self, what: &str, within: Duration, mut ready: impl FnMut(&str) -> bool) {
        for _ in 0..ticks(within) {
            if ready(&self.log()) {
                return;
            }
            if let Some(status) = self.poll_exit() {
                panic!("{} ended ({status}) before: {what}\n{}", self.name, self.log());
            }
            sleep(TICK);
        }
        panic!("{} did not come to this within {within:?}: {what}", self.name);
    }

    /// Waits for it to end by itself.
    ///
    /// # Panics
    ///
    /// If it still runs after `within`.
    pub fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        for _ in 0..ticks(within) {
            if let Some(status) = self.poll_exit() {
                return status;
            }
            sleep(TICK);
        }
        panic!("{} still runs after {within:?}", self.name);
    }

    /// Waits for it to end with status 0.
    ///
    /// # Panics
    ///
    /// If it ends otherwise or not at all within `within`.
    pub fn expect_success(&mut self, within: Duration) {
        let status = self.wait_exit(within);
        assert!(status.success(), "{} failed: {status}", self.name);
    }

    /// Asks it to end (SIGINT), once, and waits: for those to whom a second signal means at once.
    ///
    /// # Panics
    ///
    /// If it still runs after ten seconds.
    pub fn interrupt(&mut self) {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for child in
            children.split_whitespace().filter_map(|child| child.parse().ok()).filter_map(Pid::from_raw)
        {
            // It may have ended in between.
            let _ = kill_process(child, Signal::INT);
        }
        let _ = self.wait_exit(Duration::from_secs(10));
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.poll_exit().is_some()
    }

    /// Asks it to end (SIGTERM) and waits; SIGKILL after two seconds.
    pub fn stop(&mut self) {
        if self.poll_exit().is_some() {
            return;
        }
        self.signal(Signal::TERM);
        for _ in 0..ticks(Duration::from_secs(2)) {
            if self.poll_exit().is_some() {
                return;
            }
            sleep(TICK);
        }
        self.signal(Signal::KILL);
        self.status = self.child.wait().ok();
    }

    /// Sends a signal to the peer and all it started.
    pub fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended in between: then there is nobody to signal, which is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    fn poll_exit(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("the peer is our child");
        }
        self.status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            for path in std::iter::once(&self.log).chain(&self.also) {
                eprintln!("---- {} · {} ----\n{}", self.name, path.display(), read(path));
            }
        }
    }
}

/// True if `program` is a file, or is found on the path or where Debian keeps daemons.
fn installed(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin"]).any(|dir| Path::new(dir).join(program).exists())
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn ticks(within: Duration) -> u128 {
    within.as_millis() / TICK.as_millis()
}
