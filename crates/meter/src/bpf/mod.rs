//! The meter that costs least: BPF programs at the kernel's tracepoints add calls up in the kernel,
//! and only calls that are to be reported one by one go through a ring buffer.
//!
//! | module | what is in it |
//! |---|---|
//! | `attach` | enters threads that run already into the maps |
//! | `joined` | names of processes whose threads are metered from their next call on |
//! | `asm` | an assembler: neither compiler nor library is needed to make and load the programs |
//! | `layout` | what the programs and user space share: values of maps, records of the ring |
//! | `frame` | the slots of the programs' stacks |
//! | `long_calls` | what the descriptors are of long calls beyond the limit |
//! | `offsets` | offsets of fields of the kernel's structs, from BTF |
//! | `draft` | what several of the programs do |
//! | `program` | the programs |
//! | `kit` | maps, ring and programs, loaded and attached |
//! | `probe` | offsets of fields in a kernel without BTF |
//! | `reader` | user space: reads the ring, and moves finished processes out of the maps |
//!
//! The programs are at raw tracepoints, not at a trampoline for each call (fentry and fexit). That
//! would cost the metered less, and others nothing, but it takes two programs and two patches of
//! the kernel's code for each of more than a hundred calls, which takes longer than most commands
//! run. Where it was tried, the kernel refused programs of that kind, even to root.
//!
//! It needs root (`CAP_BPF` and `CAP_PERFMON`) and Linux 5.8, by the features that it uses; it has
//! been run on 6.18. It does not see calls of 32-bit programs (there is a warning with their
//! number), nor what a 64-bit program calls by `int 0x80`. Without BTF, process ids are those of
//! the first PID namespace, and the name of a program that ends at once is cut to 15 bytes.

mod asm;
mod attach;
mod draft;
mod frame;
mod joined;
mod kit;
mod layout;
mod long_calls;
mod offsets;
mod probe;
mod program;
mod reader;

use std::sync::atomic::Ordering;

use gate::bpf::{Map, Program, Ring, prctl_unknown};
use gate::command::Held;
use gate::process::Ahead;
use gate::{Errno, Fd, clock};

use self::attach::{Adopter, Members, begin_joins, calibrate, joins_of};
use self::draft::Joins;
use self::joined::Joined;
use self::kit::{Kit, ROOM, Room, Written, load};
use self::layout::{ANNOUNCEMENT, shared};
use self::reader::{Come, Find, MOST_REPORTED, Reader};
use crate::attach::{Attach, Target, all_processes, count_threads, ended_before};
use crate::call::{Command, Listener, Meter, Metered};
use crate::cgroup::Cgroup;
use crate::collector::{Collector, Timing, run_held, time_empty_call, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, Step, Unavailable, WarningKind};

/// The meter.
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
        load("fathom_try", program::attempt()).map(drop)
    }

    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error> {
        let unmetered_call = time_empty_call();
        let kit = Kit::new(probe::find, ROOM, calls, None)?;
        self.run_with(kit, unmetered_call, command, calls, to)
    }

    fn attach(
        &self,
        attach: &Attach<'_>,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let unmetered_call = time_empty_call();
        let scope = Scope::of(&attach.target)?;
        let kit = Kit::new(probe::find, scope.room(), calls, scope.joins())?;
        calibrate(&kit)?;
        let words = &kit.words;
        let mut reader = Reader::new(words, &kit.maps, calls, Collector::new(calls, to));
        let adopter = || Adopter::new(kit.resources, words, &kit.maps);
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
                (attached.len(), CpuTime::of(&attached), Come::None)
            }
            Scope::Members(cgroup) => {
                members = Members::new(cgroup, adopter()?);
                let attached = members.find(&mut reader)?;
                let cpu = CpuTime::of(&attached);
                (attached.len(), cpu, Come::Find(&mut members))
            }
            Scope::Joiners {
                processes, cgroup, ..
            } => {
                if calls > 0 {
                    reader.expect(Joined::of(processes));
                }
                begin_joins(&kit)?;
                let cpu = cgroup.as_ref();
                let cpu = cpu.map_or_else(CpuTime::of_machine, CpuTime::of_cgroup);
                (processes.len(), cpu, Come::Join)
            }
        };
        (attach.ready)(processes);
        let mut ring = kit.ring;
        {
            let _ahead = Ahead::get(); // records that are not read in time are lost
            let until = attach.until(start);
            reader.follow_attached(&mut ring, until, &mut cpu, come)?;
        }
        let timing = Timing::detached(processes, start, cpu);
        detach(kit.attached);
        self.finish(&kit.programs, reader, &mut ring, unmetered_call, timing)
    }
}

/// What to attach to, and how.
enum Scope {
    Processes(Vec<u32>),
    /// The members of a cgroup of version 1.
    Members(Cgroup),
    /// Threads that join: of all processes, or of a cgroup of version 2.
    Joiners {
        joins: Joins,
        /// The processes that run already.
        processes: Vec<u32>,
        cgroup: Option<Cgroup>,
        /// Programs refer to it when they are loaded.
        _map: Option<Map>,
    },
}

impl Scope {
    fn of(target: &Target) -> Result<Scope, Error> {
        Ok(match target {
            Target::Processes(processes) => Scope::Processes(processes.clone()),
            Target::Machine => Scope::Joiners {
                joins: Joins::All,
                processes: all_processes(),
                cgroup: None,
                _map: None,
            },
            Target::Cgroup(path) => {
                let cgroup = Cgroup::open(path)?;
                if !cgroup.is_v2 {
                    return Ok(Scope::Members(cgroup));
                }
                let (joins, map) = joins_of(&cgroup)?;
                Scope::Joiners {
                    joins,
                    processes: cgroup.processes(),
                    cgroup: Some(cgroup),
                    _map: Some(map),
                }
            }
        })
    }

    fn joins(&self) -> Option<Joins> {
        match self {
            Scope::Joiners { joins, .. } => Some(*joins),
            _ => None,
        }
    }

    /// Each thread that joins has a slot of its own.
    fn room(&self) -> Room {
        let threads = match self {
            Scope::Joiners { .. } => count_threads().saturating_mul(2),
            _ => return ROOM,
        };
        let tasks = ROOM.tasks.max(threads.next_power_of_two());
        Room {
            tasks,
            slots: tasks,
            ..ROOM
        }
    }
}

impl Bpf {
    /// [`Meter::run`] with these maps and programs. `unmetered_call` are the nanoseconds of an
    /// empty call before they were loaded.
    fn run_with(
        &self,
        kit: Kit,
        unmetered_call: u64,
        command: &Command,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let words = &kit.words;
        let prepare = || {
            prctl_unknown(ANNOUNCEMENT as u32, kit.cookie[0], kit.cookie[1]);
            if words[shared::SEEN].load(Ordering::Relaxed) == 0 {
                return Err(Errno::ENOSYS); // a seccomp filter has answered the prctl(2)
            }
            words[shared::EMPTY_CALL].store(time_empty_call(), Ordering::Relaxed);
            // From here on calls are reported: the next one is the execve(2) of the command.
            words[shared::LEFT].store(calls.min(MOST_REPORTED), Ordering::Relaxed);
            words[shared::BEGUN].store(1, Ordering::Release);
            Ok(())
        };
        let held =
            Held::fork(&command.program, &command.args, prepare).map_err(Step::Fork.early())?;
        let mut ring = kit.ring;
        let mut reader = Reader::new(words, &kit.maps, calls, Collector::new(calls, to));
        let timing = {
            let _ahead = Ahead::get(); // records that are not read in time are lost
            run_held(held, command, Step::BeSeen, |running| {
                let ended = reader.follow(running, &mut ring);
                ended.map_err(Step::Wait.late())
            })?
        };
        detach(kit.attached);
        self.finish(&kit.programs, reader, &mut ring, unmetered_call, timing)
    }

    /// The result, when the programs are detached.
    fn finish(
        &self,
        programs: &[(Written, Program)],
        reader: Reader<'_>,
        ring: &mut Ring,
        unmetered_call: u64,
        timing: Timing,
    ) -> Result<Metered, Error> {
        let skipped = Kit::skipped_events(programs);
        let overhead = reader.empty_call().saturating_sub(unmetered_call);
        let mut metered = reader
            .finish(ring, self, overhead, timing)
            .map_err(Step::ReadMaps.late())?;
        metered.lost += skipped;
        warn_of(&mut metered, skipped, WarningKind::LostEvents);
        Ok(metered)
    }
}

/// Detaches the programs, the one that sees calls begin first: then no thread that has ended stays
/// in the map `tasks` while another can get its stack.
fn detach(mut attached: Vec<Fd>) {
    while attached.pop().is_some() {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::asm::disassembler::listing;
    use super::draft::Resources;
    use super::kit::{PROGRAMS, needed};
    use super::offsets::{Ends, Ids, Offsets, OpenFile, Running};
    use super::*;
    use crate::call::Ended;
    use crate::call::Total;

    #[test]
    fn every_program_can_be_assembled_and_read() {
        let offsets = Offsets {
            pid: 2400,
            tgid: 2404,
            stack: 32,
            files: Some(3000),
            fs: Some(2992),
            ids: Some(Ids {
                thread_pid: 2600,
                level: 4,
                numbers: 96,
                size: 16,
                namespace: 104,
                leader: 2500,
            }),
            program: Some(Running {
                interp: 104,
                file: 64,
                inode: 32,
                ino: 64,
            }),
            ends: Some(Ends {
                pending: 3100,
                signal: 3050,
                group_exit_code: 100,
            }),
            open: Some(OpenFile {
                files: 3000,
                table: 32,
                descriptors: 8,
                inode: 32,
                mode: 0,
                device: 76,
                superblock: 40,
                magic: 96,
            }),
        };
        let without_btf = Offsets {
            files: None,
            fs: None,
            ids: None,
            program: None,
            ends: None,
            open: None,
            ..offsets
        };
        for offsets in [offsets, without_btf] {
            let resources = Resources {
                offsets,
                ..Resources::default()
            };
            for (name, _, write) in PROGRAMS {
                let code = write(&resources).unwrap();
                let listing = listing(&code);
                assert!(
                    listing.ends_with(": exit\n") && !listing.contains('?'),
                    "{name}: {listing}"
                );
                assert!(code.len() < 700, "{name}: {}", code.len());
            }
        }
    }

    #[test]
    fn a_call_of_an_unmetered_process_takes_17_instructions() {
        let resources = Resources {
            buckets: 1 << 15,
            ..Resources::default()
        };
        let listing = listing(&program::enter(&resources).unwrap());
        let unmetered = unmetered(&listing);
        let way: Vec<&str> = listing.lines().take(17).collect();
        assert_eq!(
            way,
            [
                "0: r6 = r1",
                "1: r9 = *(u64 *)(r6 +0)",
                "2: r8 = *(u64 *)(r6 +8)",
                "3: r1 = r9",
                "4: r1 >>= 12",
                "5: r1 *= 1640531527",
                "6: r1 >>= 14",
                "7: r1 &= 32767",
                "8: *(u32 *)(r10 -8) = r1",
                "9: r1 = map",
                "11: r2 = r10",
                "12: r2 += -8",
                "13: call 1", // a lookup in an array map, which the kernel inlines
                &format!("14: if r0 == 0 goto {unmetered}"),
                "15: r1 = *(u64 *)(r0 +0)",
                "16: if r1 == r9 goto 124",
                &format!("17: if r1 == 0 goto {unmetered}"),
            ]
        );
    }

    /// The instruction that compares the number of the call with that of prctl(2).
    fn unmetered(listing: &str) -> &str {
        let number = if cfg!(target_arch = "x86_64") {
            "!= 157"
        } else {
            "!= 167"
        };
        let line = listing.lines().find(|line| line.contains(number)).unwrap();
        line.split(':').next().unwrap()
    }

    #[test]
    fn the_kernel_loads_the_programs_with_and_without_btf() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        for find in [probe::find, probe::probe] {
            for calls in [0, u64::MAX] {
                Kit::with(&PROGRAMS, find, ROOM, calls, None)
                    .map(drop)
                    .unwrap();
            }
        }
    }

    #[test]
    fn without_btf_the_same_calls_are_counted() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        let script = "for i in 1 2 3; do cat /etc/passwd >/dev/null; done; (exec true) & wait";
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let command = Command::find(&words).unwrap();
        let counted = |find: fn() -> Result<Offsets, Unavailable>| {
            let kit = Kit::new(find, ROOM, u64::MAX, None).unwrap();
            let metered = Bpf.run_with(kit, 0, &command, u64::MAX, &mut ()).unwrap();
            assert_eq!((metered.ended, metered.lost), (Ended::Exited(0), 0));
            let named =
                |total: &Total| total.program.contains(&b'/') || find().unwrap().program.is_none();
            assert!(metered.totals.iter().all(named), "{:?}", metered.totals);
            by_number(&metered)
        };
        let expected = counted(probe::find);
        assert_eq!(counted(probe::probe), expected);
    }

    /// Meters a command with threads, processes and failing calls by these of the programs.
    fn metered_by(is_attached: impl Fn(&str) -> bool) -> Metered {
        let script =
            "for i in 1 2 3; do (ls / /no/such; cat /etc/passwd) >/dev/null 2>&1; done; true";
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let command = Command::find(&words).unwrap();
        let mut kit = Kit::with(&PROGRAMS, probe::find, ROOM, u64::MAX, None).unwrap();
        let mut programs = PROGRAMS.iter();
        kit.attached
            .retain(|_| is_attached(programs.next().unwrap().0));
        Bpf.run_with(kit, 0, &command, u64::MAX, &mut ()).unwrap()
    }

    #[test]
    fn the_second_program_does_what_a_skipped_one_has_not_done() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        let expected = metered_by(|_| true);
        assert_eq!((expected.lost, &expected.warnings[..]), (0, &[][..]));
        for skipped in ["fathom_exit", "fathom_exec", "fathom_fork"] {
            let metered = metered_by(|name| name != skipped);
            assert_eq!(metered.lost, 0, "{skipped}");
            assert_eq!(by_number(&metered), by_number(&expected), "{skipped}");
            let programs = |metered: &Metered| {
                let all = metered.totals.iter();
                all.map(|total| total.program.clone())
                    .collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(programs(&metered), programs(&expected), "{skipped}");
        }
    }

    #[test]
    fn only_kernels_that_preempt_programs_get_the_second_ones() {
        let count = |release| needed(release).len();
        assert_eq!(["4.18.0-553", "6.18.44"].map(count), [5, 5]);
        assert_eq!(["7.0.1", "7.3.4+deb13", "10.0", ""].map(count), [8; 4]);
    }

    #[test]
    fn calls_whose_return_is_skipped_are_lost() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        let all: u64 = by_number(&metered_by(|_| true))
            .values()
            .map(|(n, _)| n)
            .sum();
        let metered = metered_by(|name| name != "fathom_return");
        assert!(metered.totals.is_empty(), "{:?}", metered.totals);
        assert_eq!(metered.warnings, [WarningKind::Lost(metered.lost)]);
        // Without the last call of each of the 7 processes, and with exit_group(2).
        assert!(
            metered.lost.abs_diff(all) <= 14,
            "{} of {all}",
            metered.lost
        );
    }

    /// Calls and errors by number.
    fn by_number(metered: &Metered) -> BTreeMap<u32, (u64, u64)> {
        let mut calls = BTreeMap::<_, (u64, u64)>::new();
        for total in &metered.totals {
            let sum = calls.entry(total.number).or_default();
            *sum = (
                sum.0 + total.calls,
                sum.1 + total.errors.iter().map(|(_, times)| times).sum::<u64>(),
            );
        }
        calls
    }

    #[test]
    fn full_maps_lose_no_call_but_those_of_unfollowed_threads() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        let script = "for i in 1 2 3 4 5 6 7 8; do (ls / /no/such; cat /etc/passwd) >/dev/null 2>&1; done; true";
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let command = Command::find(&words).unwrap();
        let metered = |room| {
            let kit = Kit::new(probe::find, room, 40, None).unwrap();
            Bpf.run_with(kit, 0, &command, 40, &mut ()).unwrap()
        };
        let ample = metered(ROOM);
        assert_eq!(
            (ample.reported, ample.lost, &ample.warnings[..]),
            (40, 0, &[][..])
        );
        let tight = metered(Room {
            slots: 2,
            cells: 4,
            ..ROOM
        });
        assert_eq!(
            (by_number(&tight), tight.reported, tight.lost),
            (by_number(&ample), 40, 0)
        );
        assert!(
            tight
                .warnings
                .iter()
                .any(|warning| matches!(warning, WarningKind::Unattributed(_))),
            "{:?}",
            tight.warnings
        );
        // Threads that there is no room for are not metered, and there is a warning.
        let alone = metered(Room { tasks: 1, ..ROOM });
        assert!(
            alone.lost > 0
                && alone
                    .warnings
                    .iter()
                    .any(|warning| matches!(warning, WarningKind::UnfollowedThreads(_)))
        );
    }
}
