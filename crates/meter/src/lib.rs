//! Meters of the system calls of other programs: one trait ([`call::Meter`]), one file for each.
//!
//! | module | contents |
//! |---|---|
//! | [`call`] | the trait of a meter, and what it reports: calls, processes, totals |
//! | `error` | why a command cannot be metered; warnings of a meter |
//! | [`syscalls`] | the file-system system calls: numbers, names, purposes, path and descriptor arguments |
//! | [`names`] | absolute names of the files that calls are about |
//! | [`auto`] | the cheapest meter that works on this machine |
//! | [`mod@attach`] | the processes to attach to, and for how long |
//! | `bpf` | for root: BPF programs at the kernel's tracepoints |
//! | `ptrace` | for every user: ptrace(2), with a seccomp filter |
//! | `cgroup` | the processes of a cgroup |
//! | `cpu_time` | the CPU time of the processes that a meter has attached to |
//! | `listing` | the entries of directories of /proc |
//! | `collector` | the common part of all meters: run the command, report calls, sum them up |
//! | `totals` | sums of calls, in bounded space |
//! | `find` | the executable of a command |
//! | `executable` | the path of the executable of a process |
//! | `families` | which thread exit is the exit of a process |
//! | `unmetered` | a run of a command without a meter |
#![forbid(unsafe_code)]

pub mod attach;
pub mod auto;
mod bpf;
pub mod call;
mod cgroup;
mod collector;
mod cpu_time;
mod error;
mod executable;
mod families;
mod find;
mod listing;
pub mod names;
mod ptrace;
#[cfg(test)]
#[path = "../../../tests/support/skip.rs"]
mod skip;
pub mod syscalls;
#[cfg(test)]
mod tests;
mod totals;
mod unmetered;

pub use error::{CommandError, Error, TargetError, Unavailable, WarningKind};
pub use unmetered::run_unmetered;

use gate::interrupt;

use crate::attach::Attach;
use crate::call::{Command, Listener, Meter, MeterReason, Metered};

/// Every meter, in increasing order of overhead.
pub fn all() -> Vec<Box<dyn Meter>> {
    vec![Box::new(bpf::Bpf), Box::new(ptrace::Ptrace)]
}

/// Runs the command under the meter with this name, and reports all calls individually. `auto`
/// tries ptrace first: ptrace stops each call until it is reported, and so loses none. The listener
/// can read the environment of a program, which has not gone on to execute the next one.
///
/// # Errors
/// Why there are no figures.
pub fn run_exact(name: &str, command: &Command, to: &mut dyn Listener) -> Result<Metered, Error> {
    if name != auto::NAME {
        return run(name, command, u64::MAX, to);
    }
    let exact = ptrace::Ptrace.name();
    let mut meters = all();
    meters.sort_by_key(|meter| meter.name() != exact);
    let mut metered = auto::run(&meters, |meter| meter.run(command, u64::MAX, to))?;
    if metered.meter == exact {
        metered.choice = MeterReason::Exact;
    }
    Ok(metered)
}

/// Runs the command under the meter with this name (`auto`: the cheapest that works here), and
/// reports the first `calls` calls individually.
///
/// # Errors
/// Why there are no figures.
pub fn run(
    name: &str,
    command: &Command,
    calls: u64,
    to: &mut dyn Listener,
) -> Result<Metered, Error> {
    start(name, |meter| meter.run(command, calls, to))
}

/// Attaches the meter with this name (`auto`: the cheapest that works here) to running processes,
/// and reports the first `calls` calls individually, until SIGINT, SIGTERM or SIGHUP.
///
/// # Errors
/// Why there are no figures.
pub fn attach(
    name: &str,
    attach: &Attach<'_>,
    calls: u64,
    to: &mut dyn Listener,
) -> Result<Metered, Error> {
    attach.check()?;
    let guard = interrupt::defer_signals();
    let metered = start(name, |meter| meter.attach(attach, calls, to));
    interrupt::let_go(guard);
    metered
}

fn start(
    name: &str,
    start: impl FnMut(&dyn Meter) -> Result<Metered, Error>,
) -> Result<Metered, Error> {
    let meters = all();
    if name == auto::NAME {
        return auto::run(&meters, start);
    }
    let Some(meter) = meters.iter().find(|meter| meter.name() == name) else {
        let names = meters.iter().map(|meter| meter.name()).collect();
        return Err(Unavailable::UnknownMeter(names).into());
    };
    auto::run_checked(&**meter, start)
}
