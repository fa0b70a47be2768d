//! A part of a CPU for a process: a cgroup with a quota, of either version, which goes with its owner.
//!
//! Groups lie beside each other in the group that this process may divide: `tandem-lab-PID-NAME`. What a process that
//! was killed left is found by its PID, emptied and removed by the next. Left out: any other controller.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::RealError;

const PREFIX: &str = "tandem-lab-";
/// The least that a kernel grants in a period.
const LEAST_QUOTA: Duration = Duration::from_millis(1);

/// Which files a group has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    One,
    /// `cpu.max`.
    Two,
}

/// Where groups can be made.
#[derive(Debug)]
pub(super) struct Groups {
    version: Version,
    base: PathBuf,
    /// Version 2 divides a group only if no process is in it: then we are here meanwhile.
    own: Option<PathBuf>,
}

impl Groups {
    /// Finds a group that may be divided, and removes what a killed run left in it.
    ///
    /// # Errors
    ///
    /// [`RealError::NoGroups`], with what would help.
    pub(super) fn find() -> Result<Self, RealError> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mut why = None;
        for (version, base) in candidates(&read("/proc/mounts"), &read("/proc/self/cgroup")) {
            match Self::at(version, base) {
                Ok(groups) => return Ok(groups),
                // The likeliest one's reason is worth telling.
                Err(said) => {
                    why.get_or_insert(said);
                }
            }
        }
        Err(RealError::NoGroups(
            why.unwrap_or_else(|| "no cgroup file system with the controller `cpu` is mounted".to_owned()),
        ))
    }

    fn at(version: Version, base: PathBuf) -> Result<Self, String> {
        let mut groups = Self { version, base, own: None };
        if version == Version::Two {
            groups.own = divide(&groups.base)?;
        }
        groups.sweep();
        // Whether a group can be made and limited is best seen by trying.
        groups
            .cell("try", Duration::from_millis(10), 0.5)
            .map_err(|error| format!("{}: {error}", groups.base.display()))?;
        Ok(groups)
    }

    /// A group that gets `share` of one CPU in each `period`.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(super) fn cell(&self, name: &str, period: Duration, share: f64) -> Result<Cell, RealError> {
        let dir = self.base.join(format!("{PREFIX}{}-{name}", std::process::id()));
        let failed = |error| RealError::System("a cgroup", error);
        std::fs::create_dir(&dir).map_err(failed)?;
        let cell = Cell { dir };
        for (file, text) in limits(self.version, period, share) {
            std::fs::write(cell.dir.join(file), text).map_err(failed)?;
        }
        Ok(cell)
    }

    /// Empties and removes groups whose maker is gone.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.base) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let maker = name.to_str().and_then(maker_of).and_then(Pid::from_raw);
            if maker.is_some_and(|maker| test_kill_process(maker).is_err()) {
                drop(Cell { dir: entry.path() });
            }
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            // If it can't be undone, an empty group stays, which limits nothing.
            let _ = std::fs::write(self.base.join("cgroup.subtree_control"), "-cpu");
            let _ = std::fs::write(self.base.join("cgroup.procs"), std::process::id().to_string());
            let _ = std::fs::remove_dir(own);
        }
    }
}

/// One group; whatever runs in it ends with it.
#[derive(Debug)]
pub(super) struct Cell {
    dir: PathBuf,
}

impl Cell {
    /// Puts a process into the group.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(super) fn take(&self, pid: u32) -> Result<(), RealError> {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string())
            .map_err(|error| RealError::System("a process into its cgroup", error))
    }

    /// Periods in which something wanted to run so far, and those of them in which the quota was used up.
    pub(super) fn periods(&self) -> (u64, u64) {
        let text = std::fs::read_to_string(self.dir.join("cpu.stat")).unwrap_or_default();
        (number(&text, "nr_periods"), number(&text, "nr_throttled"))
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let all = std::fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        for pid in all.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        // A group is busy until the last process in it is gone, which the kernel does in its own time.
        for _ in 0..100 {
            match std::fs::remove_dir(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// The period in which the least of these shares still is what a kernel grants.
pub(super) fn period_for(shares: &[f64]) -> Duration {
    let least = shares.iter().copied().fold(1.0, f64::min).max(0.001);
    LEAST_QUOTA.div_f64(least).max(Duration::from_millis(10))
}

/// What is written to which file.
fn limits(version: Version, period: Duration, share: f64) -> Vec<(&'static str, String)> {
    let quota = period.mul_f64(share).max(LEAST_QUOTA).as_micros();
    let period = period.as_micros();
    match version {
        Version::One => {
            vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        }
        Version::Two => vec![("cpu.max", format!("{quota} {period}"))],
    }
}

/// Groups that this process might divide, the likeliest first, from the texts of `/proc/mounts` and
/// `/proc/self/cgroup`.
fn candidates(mounts: &str, own: &str) -> Vec<(Version, PathBuf)> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(at), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let at = Path::new(at);
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match version {
                Version::One => controllers.split(',').any(|controller| controller == "cpu"),
                Version::Two => controllers.is_empty(),
            };
            is_it.then(|| path.trim_start_matches('/'))
        });
        // Our own group, which may be hidden from a container; then the top, which root may divide.
        found.extend(
            path.filter(|path| !path.is_empty() && !path.starts_with(".."))
                .map(|path| (version, at.join(path))),
        );
        found.push((version, at.to_owned()));
    }
    found.sort_by_key(|(version, _)| *version == Version::Two);
    found
}

/// Sees to it that groups in `base` have the controller `cpu`; returns where we went for that.
fn divide(base: &Path) -> Result<Option<PathBuf>, String> {
    let has_cpu = |file: &str| {
        let text = std::fs::read_to_string(base.join(file)).unwrap_or_default();
        text.split_whitespace().any(|controller| controller == "cpu")
    };
    if has_cpu("cgroup.subtree_control") {
        return Ok(None);
    }
    if !has_cpu("cgroup.controllers") {
        return Err(format!("{} lacks the controller `cpu`", base.display()));
    }
    let control = base.join("cgroup.subtree_control");
    if std::fs::write(&control, "+cpu").is_ok() {
        return Ok(None);
    }
    let own = base.join(format!("{PREFIX}{}-self", std::process::id()));
    let failed = |error: io::Error| format!("{}: {error}", base.display());
    std::fs::create_dir(&own).map_err(failed)?;
    let moved = std::fs::write(own.join("cgroup.procs"), std::process::id().to_string())
        .and_then(|()| std::fs::write(&control, "+cpu"));
    if let Err(error) = moved {
        let _ = std::fs::write(base.join("cgroup.procs"), std::process::id().to_string());
        let _ = std::fs::remove_dir(&own);
        return Err(failed(error));
    }
    Ok(Some(own))
}

/// The process that made a group of this name.
fn maker_of(name: &str) -> Option<i32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn number(text: &str, name: &str) -> u64 {
    let of = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    text.lines().find_map(of).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel documentation, `cgroup-v2.rst`, "cpu.max", and `sched-bwc.rst`: quota and period in microseconds.
    #[test]
    fn a_share_becomes_quota_and_period_of_either_version_and_never_less_than_a_millisecond() {
        let period = period_for(&[0.05, 0.025]);
        assert_eq!(period, Duration::from_millis(40));
        assert_eq!(limits(Version::Two, period, 0.05), [("cpu.max", "2000 40000".to_owned())]);
        let one = [("cpu.cfs_period_us", "40000".to_owned()), ("cpu.cfs_quota_us", "1000".to_owned())];
        assert_eq!(limits(Version::One, period, 0.025), one);
        assert_eq!(limits(Version::One, period, 0.001), one);
        assert_eq!(period_for(&[0.5]), Duration::from_millis(10));
    }

    #[test]
    fn groups_are_looked_for_in_our_own_first_and_where_the_controller_is() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = candidates(hybrid, "4:memory:/m\n1:cpu,cpuacct:/docker/x\n0::/\n");
        let path = |text: &str| PathBuf::from(format!("/sys/fs/cgroup/{text}"));
        assert_eq!(
            found,
            [
                (Version::One, path("cpu,cpuacct/docker/x")),
                (Version::One, path("cpu,cpuacct")),
                (Version::Two, path("unified"))
            ]
        );
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        let found = candidates(unified, "0::/user.slice/run-1.scope\n");
        assert_eq!(found.first(), Some(&(Version::Two, path("user.slice/run-1.scope"))));
        assert!(candidates("proc /proc proc rw 0 0\n", "").is_empty());
    }

    #[test]
    fn a_groups_name_tells_who_made_it() {
        assert_eq!(maker_of("tandem-lab-4711-s0"), Some(4711));
        assert_eq!(maker_of("tandem.service"), None);
        assert_eq!(number("nr_periods 97\nnr_throttled 12\n", "nr_throttled"), 12);
    }

    /// Where groups can be made; elsewhere nothing is shown.
    #[test]
    fn a_group_that_is_dropped_takes_its_processes_along() {
        let Ok(groups) = Groups::find() else { return };
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let cell = groups.cell("test", Duration::from_millis(10), 0.5).unwrap();
        let dir = cell.dir.clone();
        cell.take(child.id()).unwrap();
        let reaper = std::thread::spawn(move || child.wait().unwrap().success());
        assert!(dir.is_dir());
        drop(cell);
        assert!(!reaper.join().unwrap() && !dir.exists());
    }
}
