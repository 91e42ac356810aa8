//! What the system knows about a server process: its CPU time and its memory.
//!
//! Read from `/proc`, so these figures exist on Linux only; elsewhere they are absent from the report.

use std::fs;
use std::time::Duration;

/// Resident memory of a process: now, and at its highest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident_mib: f64,
    pub(crate) peak_mib: f64,
}

/// CPU time that all threads of the process have used, in user and in kernel mode.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    // The unit is USER_HZ, which is 100 on every Linux that Rust runs on. The kernel scales the two fields to the
    // scheduler's exact run time, so the sum over some seconds is better than the unit suggests.
    const TICK: Duration = Duration::from_millis(10);

    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the command, may itself hold spaces and parentheses: count from the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

/// `VmRSS` and `VmHWM` of the process.
pub(crate) fn memory(pid: u32) -> Option<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib / 1024.0)
    };
    Some(Memory { resident_mib: mib("VmRSS:")?, peak_mib: mib("VmHWM:")? })
}
