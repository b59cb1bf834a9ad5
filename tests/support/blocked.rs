//! Processes that sleep in a system call, so that a test acts on them at that point.

use std::time::{Duration, Instant};

/// Waits for a condition. The limit only catches a test that hangs.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(600),
            "not yet: {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number and the first argument of the system call in which the main thread of a process sleeps.
/// `None` if the thread runs, is stopped by a tracer, or has ended.
pub(crate) fn blocked_in(pid: u32) -> Option<(libc::c_long, u64)> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let call = read("syscall")?;
    // Read second: a tracer stops the thread at the entry of the call, and then it has not slept yet.
    let stat = read("stat")?;
    let (_, state) = stat.rsplit_once(") ")?;
    let mut words = call.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let argument = words.next()?.strip_prefix("0x")?;
    let argument = u64::from_str_radix(argument, 16).ok()?;
    state.starts_with(['S', 'D']).then_some((number, argument))
}

/// Waits until the main thread of a process sleeps in one of these system calls.
pub(crate) fn wait_until_blocked(pid: u32, calls: &[libc::c_long]) {
    wait_until(&format!("process {pid} sleeps in one of {calls:?}"), || {
        blocked_in(pid).is_some_and(|(call, _)| calls.contains(&call))
    });
}

/// The children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state, and the parent.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        fields.and_then(|fields| fields.split(' ').nth(1)) == Some(&parent.to_string())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

/// How many times the main thread of a process has gone to sleep.
pub(crate) fn times_asleep(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let times = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    times.unwrap().trim().parse().unwrap()
}
