//! CPU time of the server under test: of its processes with their children, or of a cgroup.

use core::time::Duration;
use std::path::PathBuf;

/// Whose CPU time is measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuOf {
    /// Processes; those that descend from them are counted too.
    pub pids: Vec<u32>,
    /// A cgroup's directory, version 2 (`cpu.stat`) or 1 (`cpuacct.usage`).
    pub cgroup: Option<PathBuf>,
}

impl CpuOf {
    /// Whether there is anything to measure.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.cgroup.is_none()
    }

    /// CPU time used so far, user and system. What has ended meanwhile is counted no more.
    #[must_use]
    pub fn used(&self) -> Duration {
        let processes: Duration = if self.pids.is_empty() { Duration::ZERO } else { self.of_processes() };
        processes + self.cgroup.as_ref().map(|path| of_cgroup(path)).unwrap_or_default()
    }

    fn of_processes(&self) -> Duration {
        let all: Vec<(u32, u32, u64)> = std::fs::read_dir("/proc")
            .map(|entries| entries.flatten().filter_map(|entry| stat(&entry.path())).collect())
            .unwrap_or_default();
        let mut family = self.pids.clone();
        let mut place = 0;
        while let Some(&parent) = family.get(place) {
            place += 1;
            for &(pid, of, _) in &all {
                if of == parent && !family.contains(&pid) {
                    family.push(pid);
                }
            }
        }
        let of_family = all.iter().filter(|(pid, _, _)| family.contains(pid));
        of_family.map(|&(pid, _, ticks)| scheduled(pid).unwrap_or(Duration::from_millis(ticks * 10))).sum()
    }
}

/// CPU time of all threads of a process in nanoseconds, from `schedstat`, where the kernel has it; clock ticks of 10 ms
/// are coarse against a server that is idle most of the time.
fn scheduled(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    threads.flatten().map(|thread| of_thread(thread.path())).sum()
}

/// Process, parent, and clock ticks of CPU time from `/proc/PID/stat` (proc(5)).
fn stat(path: &std::path::Path) -> Option<(u32, u32, u64)> {
    let pid = path.file_name()?.to_str()?.parse().ok()?;
    let text = std::fs::read_to_string(path.join("stat")).ok()?;
    let after = text.rsplit_once(')')?.1; // the name may hold anything
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some((pid, u32::try_from(number(1)?).ok()?, number(11)? + number(12)?))
}

fn of_cgroup(path: &std::path::Path) -> Duration {
    let v2 = std::fs::read_to_string(path.join("cpu.stat")).ok().and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok())
            .map(Duration::from_micros)
    });
    let v1 = || {
        std::fs::read_to_string(path.join("cpuacct.usage"))
            .ok()?
            .trim()
            .parse()
            .ok()
            .map(Duration::from_nanos)
    };
    v2.or_else(v1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_is_found_and_grows() {
        let cpu = CpuOf { pids: vec![std::process::id()], cgroup: None };
        let before = cpu.used();
        let from = crate::clock::thread_cpu();
        let mut x = 1_u64;
        while crate::clock::thread_cpu() - from < Duration::from_millis(60) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(cpu.used() - before >= Duration::from_millis(40));
    }
}
