//! The meter with the lowest overhead: BPF programs at the kernel's tracepoints sum up calls in the
//! kernel, and only individually reported calls go through a ring buffer.
//!
//! | module | contents |
//! |---|---|
//! | `meter.bpf.c` | the programs, in C |
//! | `kernel.h` | helpers, and fields of the kernel's structs |
//! | `layout.h`, `layout` | data shared with user space: values of maps, records of the ring |
//! | `tasks.h` | the maps, and functions on metered threads that several programs use |
//! | `names.h` | the paths in the arguments of calls |
//! | `attach.h` | the programs that attach to running threads |
//! | `meter.bpf.o` | the object file that `tools/bpf` compiles from all of these |
//! | `code` | the programs of this object file, linked to the kernel and to the maps |
//! | `types` | the kernel's structs, from BTF |
//! | `probe` | offsets of fields in a kernel without BTF |
//! | `kit` | maps, ring and programs, loaded and attached |
//! | `attach` | enters running threads into the maps |
//! | `joined` | names of processes whose threads are metered from their next call on |
//! | `reader` | user space: reads the ring, and moves finished processes out of the maps |
//! | `record` | the records in the ring |
//! | `slots` | the calls in the maps |
//! | `long_calls` | kinds of the descriptors of long calls beyond the report limit |
//!
//! The programs are at raw tracepoints, not at a trampoline for each call (fentry and fexit).
//! Trampolines would cost metered processes less, and others nothing. But they take two programs
//! and two patches of kernel code for each of more than a hundred calls, which takes longer than
//! most commands run. Where that was tried, the kernel refused such programs, even to root.
//!
//! The meter needs root (`CAP_BPF` and `CAP_PERFMON`) and the BPF features of Linux 5.8; it has
//! been run on 6.18. It does not see calls of 32-bit programs (a warning gives their number), nor
//! calls of 64-bit programs by `int 0x80`. Without BTF, process ids are those of the initial PID
//! namespace, and the name of a program that ends at once is truncated to 15 bytes.

mod attach;
mod code;
mod joined;
mod kit;
mod layout;
mod long_calls;
mod probe;
mod reader;
mod record;
mod slots;
mod types;

use std::sync::atomic::Ordering;

use gate::bpf::{Ring, prctl_unknown};
use gate::command::HeldCommand;
use gate::process::RaisedPriority;
use gate::{Errno, Fd, clock};

use self::attach::{Members, ThreadRegistrar, begin_joins, calibrate, set_cgroup};
use self::code::Code;
use self::joined::JoinedProcesses;
use self::kit::{BpfObjects, LoadedProgram, MapCapacity};
use self::layout::{Joins, announce, shared};
use self::reader::{JoinPolicy, MOST_REPORTED, ProcessFinder, Reader};
use crate::attach::{Attach, AttachTarget, all_processes, count_threads, ended_before};
use crate::call::{Command, Listener, Meter, Metered};
use crate::cgroup::Cgroup;
use crate::collector::{Collector, CommandTiming, run_held, time_empty_call, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, MeterStep, Unavailable, WarningKind};

/// The meter `bpf`.
pub(crate) struct Bpf;

impl Meter for Bpf {
    fn name(&self) -> &'static str {
        "bpf"
    }

    fn check(&self) -> Result<(), Unavailable> {
        if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
            return Err(Unavailable::Architecture);
        }
        Ring::new("fathom_try", 1 << 16).map_err(|errno| match errno {
            Errno::EINVAL => Unavailable::NeedsLinux("5.8"),
            errno => Unavailable::BpfMap(errno),
        })?;
        let name = "fathom_try";
        let code = Code::link(|program| program == name, None, &[])?;
        code.load(name).map(drop)
    }

    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error> {
        let unmetered_call = time_empty_call();
        let kit = BpfObjects::new(probe::find, MapCapacity::new(), calls, None)?;
        self.run_with(kit, unmetered_call, command, calls, to)
    }

    fn attach(
        &self,
        attach: &Attach<'_>,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let unmetered_call = time_empty_call();
        let scope = Scope::new(&attach.target)?;
        let kit = BpfObjects::new(probe::find, scope.room(), calls, scope.joins())?;
        calibrate(&kit)?;
        let words = &kit.words;
        let mut reader = Reader::new(words, &kit.maps, calls, Collector::new(calls, to));
        let adopter = || ThreadRegistrar::new(words, &kit.maps, kit.cookie, &kit.code);
        words[shared::LEFT].store(calls.min(MOST_REPORTED), Ordering::Relaxed);
        words[shared::BEGUN].store(1, Ordering::Release);
        let start = clock::monotonic();
        let mut members;
        let (processes, mut cpu, come) = match &scope {
            Scope::Processes(wanted) => {
                let attached = adopter()?.processes(wanted, &mut reader)?;
                for pid in ended_before(wanted, &attached)? {
                    reader.warn(WarningKind::EndedBefore(pid));
                }
                (
                    attached.len(),
                    CpuTime::of_processes(&attached),
                    JoinPolicy::None,
                )
            }
            Scope::Members(cgroup) => {
                members = Members::new(cgroup, adopter()?);
                let attached = members.find(&mut reader)?;
                let cpu = CpuTime::of_processes(&attached);
                (attached.len(), cpu, JoinPolicy::Find(&mut members))
            }
            Scope::Joiners { processes, cgroup } => {
                if calls > 0 {
                    reader.expect(JoinedProcesses::before(processes));
                }
                let cpu = cgroup.as_ref();
                if let Some(cgroup) = cpu {
                    set_cgroup(&kit.maps.cgroups, cgroup)?;
                }
                begin_joins(&kit)?;
                let cpu = cpu.map_or_else(CpuTime::of_machine, CpuTime::of_cgroup);
                (processes.len(), cpu, JoinPolicy::Join)
            }
        };
        (attach.ready)(processes);
        let mut ring = kit.ring;
        {
            let _ahead = RaisedPriority::get(); // raise priority: unread records are lost
            let until = attach.until(start);
            reader.follow_attached(&mut ring, until, &mut cpu, come)?;
        }
        let timing = CommandTiming::detached(processes, start, cpu);
        detach(kit.attached);
        self.finish(&kit.programs, reader, &mut ring, unmetered_call, timing)
    }
}

/// The processes to attach to, and how they are found.
enum Scope {
    Processes(Vec<u32>),
    /// The members of a cgroup of version 1.
    Members(Cgroup),
    /// Threads that are metered from their next call on: of all processes, or of a cgroup2.
    Joiners {
        /// The processes that are running when metering begins.
        processes: Vec<u32>,
        cgroup: Option<Cgroup>,
    },
}

impl Scope {
    fn new(target: &AttachTarget) -> Result<Scope, Error> {
        Ok(match target {
            AttachTarget::Processes(processes) => Scope::Processes(processes.clone()),
            AttachTarget::Machine => Scope::Joiners {
                processes: all_processes(),
                cgroup: None,
            },
            AttachTarget::Cgroup(path) => {
                let cgroup = Cgroup::open(path)?;
                if !cgroup.is_v2 {
                    return Ok(Scope::Members(cgroup));
                }
                Scope::Joiners {
                    processes: cgroup.processes(),
                    cgroup: Some(cgroup),
                }
            }
        })
    }

    fn joins(&self) -> Option<Joins> {
        match self {
            Scope::Joiners { cgroup: None, .. } => Some(Joins::All),
            Scope::Joiners { .. } => Some(Joins::Cgroup),
            _ => None,
        }
    }

    /// The capacity of the maps: each running thread that gets metered takes a slot.
    fn room(&self) -> MapCapacity {
        let room = MapCapacity::new();
        let Scope::Joiners { .. } = self else {
            return room;
        };
        let threads = count_threads().saturating_mul(2);
        let tasks = JOINERS.max(threads.next_power_of_two());
        MapCapacity {
            tasks,
            slots: tasks,
            cells: room.cells.max(4 * JOINERS),
        }
    }
}

/// Minimum capacity for running threads that get metered.
const JOINERS: u32 = 1 << 14;

impl Bpf {
    /// [`Meter::run`] with these maps and programs. `unmetered_call` is the time of an empty call
    /// in nanoseconds before they were loaded.
    fn run_with(
        &self,
        kit: BpfObjects,
        unmetered_call: u64,
        command: &Command,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let words = &kit.words;
        let prepare = || {
            prctl_unknown(announce::COMMAND, kit.cookie[0], kit.cookie[1]);
            if words[shared::SEEN].load(Ordering::Relaxed) == 0 {
                return Err(Errno::ENOSYS); // a seccomp filter has answered the prctl(2)
            }
            words[shared::EMPTY_CALL].store(time_empty_call(), Ordering::Relaxed);
            // Report calls from here on: the next one is the execve(2) of the command.
            words[shared::LEFT].store(calls.min(MOST_REPORTED), Ordering::Relaxed);
            words[shared::BEGUN].store(1, Ordering::Release);
            Ok(())
        };
        let held = HeldCommand::fork(&command.program, &command.args, prepare)
            .map_err(MeterStep::Fork.before_start())?;
        let mut ring = kit.ring;
        let mut reader = Reader::new(words, &kit.maps, calls, Collector::new(calls, to));
        let timing = {
            let _ahead = RaisedPriority::get(); // raise priority: unread records are lost
            run_held(held, command, MeterStep::BeSeen, |running| {
                let ended = reader.follow(running, &mut ring);
                ended.map_err(MeterStep::Wait.after_start())
            })?
        };
        detach(kit.attached);
        self.finish(&kit.programs, reader, &mut ring, unmetered_call, timing)
    }

    /// The result of the measurement. Detaches the programs.
    fn finish(
        &self,
        programs: &[LoadedProgram],
        reader: Reader<'_>,
        ring: &mut Ring,
        unmetered_call: u64,
        timing: CommandTiming,
    ) -> Result<Metered, Error> {
        let skipped = BpfObjects::skipped_events(programs);
        let overhead = reader.empty_call().saturating_sub(unmetered_call);
        let mut metered = reader
            .finish(ring, self, overhead, timing)
            .map_err(MeterStep::ReadMaps.after_start())?;
        metered.lost += skipped;
        warn_of(&mut metered, skipped, WarningKind::LostEvents);
        Ok(metered)
    }
}

/// Detaches the programs, first the one at syscall entry: otherwise a thread that has ended could
/// stay in the map `tasks` while a different thread gets its stack.
fn detach(mut attached: Vec<Fd>) {
    while attached.pop().is_some() {}
}

#[cfg(test)]
mod tests;
