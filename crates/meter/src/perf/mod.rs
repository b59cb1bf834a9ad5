//! The meter for root where BPF is unavailable: perf events at the tracepoints of each call's entry
//! and exit write a record into a ring buffer per processor, and this process adds them up.
//!
//! Records have numbers and arguments of calls but no names. The rings are merged by time, up to a
//! time before which all records are known to be written. That no record was lost is checked
//! against the kernel's own count of them.
//!
//! To attach to processes that run already, the events are those of all processes: a ring per
//! processor, all of which exist before the threads are listed. So a thread that is in no list has a
//! record of its creation.
//!
//! It does not see set-user-ID programs of other users (the kernel detaches the events). A call
//! that a signal cut short in the main thread of an ending process is counted even if the signal
//! ended the process, since records do not show that.

mod events;
mod reader;
mod thread;

use std::sync::atomic::Ordering;

use gate::clock;
use gate::command::Held;
use gate::fs::{At, CWD, Want, statx};
use gate::perf::{ALL, permitted};
use gate::process::{self, Ahead, Shared};

use self::events::{Events, processors};
use self::reader::Reader;
use crate::attach::{Attach, ended_before};
use crate::call::{Command, Listener, Meter, Metered};
use crate::collector::{Collector, Timing, run_held, time_empty_call};
use crate::cpu_time::CpuTime;
use crate::error::{Error, Step, Unavailable, WarningKind};
use crate::names::OpenFiles;
use crate::tracefs::Tracepoints;

/// The meter.
pub(crate) struct Perf;

impl Meter for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn sees_names(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), Unavailable> {
        Tracepoints::find()?;
        permitted(processors().first().copied().unwrap_or_default()).map_err(Unavailable::PerfEvent)
    }

    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error> {
        let tracepoints = Tracepoints::find()?;
        let metered_call = Shared::new(1).map_err(Step::ShareMemory.early())?;
        let unmetered_call = time_empty_call();
        let prepare = || {
            metered_call[0].store(time_empty_call(), Ordering::Relaxed);
            Ok(())
        };
        let held =
            Held::fork(&command.program, &command.args, prepare).map_err(Step::Fork.early())?;
        process::raise_open_files(); // of this process only: the command is forked already
        let has_ids = !in_first_pid_namespace();
        let mut events =
            Events::open(&tracepoints, has_ids, held.id()).map_err(Unavailable::PerfEvent)?;
        let root = held.id() as u32;
        let mut reader = Reader::new(Collector::new(calls, to), tracepoints, has_ids);
        reader.follow_command(root);
        let timing = {
            let _ahead = Ahead::get(); // records that are not read in time are lost
            run_held(held, command, Step::Prepare, |running| {
                let ended = reader.follow(running, &mut events);
                ended.map_err(Step::Wait.late())
            })?
        };
        let metered_call = metered_call[0].load(Ordering::Relaxed);
        let overhead = metered_call.saturating_sub(unmetered_call);
        reader.finish(self, events, overhead, timing)
    }

    fn attach(
        &self,
        attach: &Attach<'_>,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let processes = attach.processes()?;
        let tracepoints = Tracepoints::find()?;
        let unmetered_call = time_empty_call();
        let has_ids = !in_first_pid_namespace();
        let mut reader = Reader::new(Collector::new(calls, to), tracepoints, has_ids);
        let before: Vec<OpenFiles> = processes.iter().map(|pid| OpenFiles::read(*pid)).collect();
        process::raise_open_files();
        let mut events =
            Events::open(&tracepoints, has_ids, ALL).map_err(Unavailable::PerfEvent)?;
        let start = clock::monotonic();
        let mut attached = Vec::new();
        for (&pid, before) in processes.iter().zip(&before) {
            if attached.contains(&pid) {
                continue;
            }
            if reader.attach(pid, before) {
                attached.push(pid);
            }
        }
        for pid in ended_before(processes, &attached)? {
            reader.warn(WarningKind::EndedBefore(pid));
        }
        let mut cpu = CpuTime::of_processes(&attached);
        let overhead = time_empty_call().saturating_sub(unmetered_call);
        (attach.ready)(attached.len());
        {
            let _ahead = Ahead::get(); // records that are not read in time are lost
            let until = attach.until(start);
            let followed = reader.follow_attached(&mut events, until, &mut cpu);
            followed.map_err(Step::Wait.late())?;
        }
        let timing = Timing::detached(attached.len(), start, cpu);
        reader.finish(self, events, overhead, timing)
    }
}

/// Whether this process is in the first PID namespace, whose ids the records of tracepoints have.
/// Having the kernel write the ids of another namespace costs 0.17 µs per call.
fn in_first_pid_namespace() -> bool {
    const PROC_PID_INIT_INO: u64 = 0xEFFF_FFFC;
    statx(CWD, c"/proc/self/ns/pid", At::empty(), Want::INO)
        .is_ok_and(|namespace| namespace.ino == PROC_PID_INIT_INO)
}
