//! The answering ends: SIPp or `tandem stone uas` under a quota of the CPU, or the model in a process.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

use super::cgroup::{Cell, Groups, period_for};
use super::process::Process;
use super::stop::Stop;
use super::{HALF, RealError};

/// SIPp's `uas` scenario that keeps Record-Route.
const SCENARIO: &str = include_str!("uas.xml");
/// What the model in a process carries, in calls a second, and how often it stands still.
const MODEL_CAPACITY: f64 = 300.0;
const MODEL_STALL_EVERY_S: f64 = 10.0;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum UasKind {
    /// SIPp, its CPU capped by a cgroup
    #[default]
    Sipp,
    /// `tandem stone uas`, its CPU capped by a cgroup
    Stone,
    /// The model in a process that waits instead of working: `tandem lab server`. No cgroup
    Model,
}

impl UasKind {
    pub(super) const fn is_capped(self) -> bool {
        !matches!(self, Self::Model)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sipp => "SIPp",
            Self::Stone => "tandem stone uas",
            Self::Model => "tandem lab server",
        }
    }
}

/// What all answering ends of a run have in common.
pub(super) struct Make<'a> {
    pub(super) kind: UasKind,
    /// The part of one CPU that a whole one gets.
    pub(super) cap: f64,
    pub(super) groups: Option<&'a Groups>,
    /// Our own program, which has the model, and the one whose `stone` is run.
    pub(super) own: &'a Path,
    pub(super) program: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) seed: u64,
    pub(super) stop: &'a Stop,
}

/// One of them. The process ends before its group is removed.
#[derive(Debug)]
pub(super) struct Uas {
    _process: Process,
    cell: Option<Cell>,
}

impl Uas {
    /// Periods in which it wanted to run so far, and those of them in which its quota was used up.
    pub(super) fn periods(&self) -> (u64, u64) {
        self.cell.as_ref().map_or((0, 0), Cell::periods)
    }
}

impl Make<'_> {
    /// Starts one a place; `shares` are parts of a whole one.
    ///
    /// # Errors
    ///
    /// [`RealError`]: of the system, or a program that is not installed.
    pub(super) fn start(&self, shares: &[f64], at: &[SocketAddr]) -> Result<Vec<Uas>, RealError> {
        (0_u16..).zip(shares).zip(at).map(|((number, &share), &at)| self.one(number, share, at)).collect()
    }

    fn one(&self, number: u16, share: f64, at: SocketAddr) -> Result<Uas, RealError> {
        let mut command = match self.kind {
            UasKind::Sipp => {
                let scenario = self.folder.join("uas.xml");
                std::fs::write(&scenario, SCENARIO)
                    .map_err(|error| RealError::System("SIPp's scenario", error))?;
                let mut command = Command::new("sipp");
                command.arg("-sf").arg(scenario).args(["-nostdin", "-skip_rlimit", "-deadcall_wait", "0"]);
                command.args(["-i", &at.ip().to_string(), "-p", &at.port().to_string()]);
                command
            }
            UasKind::Stone => {
                let mut command = Command::new(self.program);
                command.args(["stone", "uas", "--quiet", "--for", "1h", "--callee", &at.to_string()]);
                command
            }
            UasKind::Model => {
                let mut command = Command::new(self.own);
                command.args(["lab", "server", "--listen", &at.to_string()]);
                command.args(["--capacity", &(MODEL_CAPACITY * share).to_string()]);
                command.args(["--stall-every", &MODEL_STALL_EVERY_S.to_string()]);
                command.args(["--seed", &(self.seed + u64::from(number)).to_string()]);
                command
            }
        };
        let cell = self.groups.map(|groups| {
            // One period for all, so that they differ in their share alone.
            let period: Duration = period_for(&[self.cap * HALF]);
            groups.cell(&format!("s{number}"), period, self.cap * share)
        });
        let cell = cell.transpose()?;
        let started = Process::start(self.kind.name(), &mut command, self.folder, &format!("uas{number}"));
        let mut process = started.map_err(|error| match error {
            RealError::System(_, error)
                if self.kind == UasKind::Sipp && error.kind() == std::io::ErrorKind::NotFound =>
            {
                RealError::Failed(
                    "SIPp is not installed (Debian: apt install sip-tester); or give `--uas stone`".into(),
                )
            }
            other @ (RealError::System(..)
            | RealError::Failed(_)
            | RealError::NoGroups(_)
            | RealError::Interrupted) => other,
        })?;
        // It comes up with all the CPU it wants.
        process.wait_until_bound(at, self.stop)?;
        if let Some(cell) = &cell {
            cell.take(process.id())?;
        }
        Ok(Uas { _process: process, cell })
    }
}
