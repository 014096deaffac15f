//! Memory of a process group, from `/proc`. A limit that the system enforces would count address space, which
//! programs reserve and never use, and each process for itself.

use std::fs;
use std::path::Path;

const PROC: &str = "/proc";

/// Whether this system can say how much memory a process group takes.
pub fn is_known() -> bool {
    Path::new(PROC).join("self/smaps_rollup").exists()
}

/// Whether the processes of `group` hold more than `bytes` in memory. What several of them share counts once.
pub fn exceeds(group: u32, bytes: u64) -> bool {
    let members = members(group);
    // Shared pages count for each here; only if that is too much is it worth the time to divide them.
    let resident: u64 = members.iter().filter_map(|pid| kib(pid, "status", "VmRSS:")).sum();
    let is_more = |kib: u64| kib.saturating_mul(1024) > bytes;
    is_more(resident)
        && is_more(members.iter().filter_map(|pid| kib(pid, "smaps_rollup", "Pss:")).sum())
}

/// Ids of the processes of a group.
fn members(group: u32) -> Vec<String> {
    let entries = fs::read_dir(PROC).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter(|pid| group_of(pid) == Some(group)).collect()
}

/// The group of a process: the third word behind its name, which may have anything in it.
fn group_of(pid: &str) -> Option<u32> {
    let stat = fs::read_to_string(format!("{PROC}/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// The number of KiB behind `name` in a file of a process.
fn kib(pid: &str, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("{PROC}/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
