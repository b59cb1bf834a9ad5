//! Waits for an event, such as a process that sleeps in a system call. Only a hang exceeds the
//! limit.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit of every wait: a test must fail rather than hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// Waits until `ready` returns true. `what` is a clause: "the server has two requests".
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LIMIT, "not after {LIMIT:?}: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Whether a process sleeps in the kernel until an event.
pub(crate) fn is_asleep(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, can contain any character.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// Whether all threads of the process that contains this thread sleep at the same time: each waits
/// for a different process, for a sleeping thread, or for a timer. True if the process has ended.
pub(crate) fn all_threads_sleep(thread: u32) -> bool {
    // A thread that was awake between the two readings has a new number of context switches.
    let first = sleepers(thread);
    first.is_some() && first == sleepers(thread)
}

/// The threads of a process, each with the number of its context switches; `None` if one is running.
fn sleepers(thread: u32) -> Option<Vec<(u32, u64)>> {
    let listed = std::fs::read_dir(format!("/proc/{thread}/task"));
    let mut threads = Vec::new();
    for entry in listed.into_iter().flatten().flatten() {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        // A thread that has ended does not count as running.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else {
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

/// The number and the first argument of the system call in which the main thread of a process sleeps.
/// `None` if the thread runs, is stopped by a tracer, or has ended.
pub(crate) fn blocked_in(pid: u32) -> Option<(libc::c_long, u64)> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let call = read("syscall")?;
    // Read this second: a tracer stops the thread at the entry of the call, when it does not sleep
    // yet.
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
