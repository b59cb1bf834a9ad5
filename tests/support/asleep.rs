//! Whether a process can do anything before somebody else does.

use std::fs;

/// Whether all threads of the process of this thread sleep at the same time: each waits for another
/// process, for another thread that sleeps too, or for a timer. True if the process has ended.
pub(crate) fn is_asleep(thread: u32) -> bool {
    // A thread that was awake between the two looks has switched contexts.
    let first = sleepers(thread);
    first.is_some() && first == sleepers(thread)
}

/// The threads of a process, each with the number of its context switches; `None` if one is running.
fn sleepers(thread: u32) -> Option<Vec<(u32, u64)>> {
    let listed = fs::read_dir(format!("/proc/{thread}/task"));
    let mut threads = Vec::new();
    for entry in listed.into_iter().flatten().flatten() {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        // A thread that has ended does not run.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map_or("", str::trim)
        };
        if field("State:").starts_with('R') {
            return None;
        }
        let count = |name: &str| field(name).parse::<u64>().unwrap_or_default();
        let switches = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
        threads.push((number, switches));
    }
    Some(threads)
}
