//! The meter that costs least: programs of BPF at the kernel's tracepoints add up in the kernel,
//! and only what is to be told one by one goes through a ring.
//!
//! | room | what is in it |
//! |---|---|
//! | [`asm`] | an assembler: no compiler and no library is needed to make the programs, or to load them |
//! | `layout` | what the programs and this side have in common: the maps' values, the ring's records |
//! | `frame` | the slots of the programs' stacks |
//! | `draft` | what several of the programs do |
//! | `program` | the programs |
//! | `offsets` | where the fields of the kernel's structs are |
//! | `watch` | this side: reads the ring, takes finished processes out of the maps |
//!
//! Raw tracepoints, and not a trampoline at each of the calls (fentry and fexit): that would cost
//! strangers nothing and the metered less, but it is two programs and two patches of the kernel's
//! code for each of more than a hundred calls, which takes longer than most commands run. Where it
//! was tried, the kernel refuses programs of that kind, even to root.
//!
//! It takes root (`CAP_BPF` and `CAP_PERFMON`) and Linux 5.8, by what it uses; it has been run on
//! 6.18. What it cannot see: calls of 32-bit programs (it says how many there were), and what a
//! 64-bit program asks for by `int 0x80`. Where the kernel does not describe its own types, process
//! ids are the kernel's even in a PID namespace, and names of programs are cut to 15 bytes when the
//! program is gone before it can be looked at.

pub mod asm;
mod draft;
mod frame;
mod layout;
mod offsets;
mod program;
mod watch;

use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use gate::bpf::{Kind, Map, Program, Ring, prctl_unknown, raw_tracepoint_open};
use gate::command::{Held, Unstarted};
use gate::process::{Ahead, Shared};
use gate::{Errno, Fd, clock, usage};

use self::draft::Things;
use self::layout::{SCRATCH, SIGN, board, seat, slot, task};
use self::offsets::Offsets;
use self::watch::{MOST_TOLD, Watch};
use crate::call::{Choice, Command, Ended, Listener, Meter, Metered, Want};
use crate::error::{Error, Step, Unavailable};
use crate::trial::trial;

/// The programs call what the kernel lets only those of GPL-compatible licences call.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// How many there is room for in the maps.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Threads that are metered at once. Further ones are lost.
    tasks: u32,
    /// Processes between two looks of this side, and calls by process, number and error. Beyond,
    /// they are added up together.
    slots: u32,
    cells: u32,
}

const ROOM: Room = Room {
    tasks: 1 << 14,
    slots: 1 << 12,
    cells: 1 << 16,
};
/// Bytes in the ring, at least and at most: what programs begin, and calls that are told, which
/// take about so many each.
const LEAST_RING: u64 = 1 << 18;
const MOST_RING: u64 = 1 << 24;
const EACH: u64 = 256;

/// The meter.
pub struct Bpf;

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
        let code = program::attempt().ok_or(Unavailable::BpfAssembly)?;
        Program::load_raw_tracepoint("fathom_try", &code, LICENSE)?;
        Ok(())
    }

    fn run(&self, command: &Command, want: Want, to: &mut dyn Listener) -> Result<Metered, Error> {
        self.run_by(Offsets::find, ROOM, command, want, to)
    }
}

impl Bpf {
    /// [`Meter::run`], when `find` finds where the fields of the kernel's structs are.
    fn run_by(
        &self,
        find: impl FnOnce() -> Result<Offsets, Unavailable> + Send,
        room: Room,
        command: &Command,
        want: Want,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let tell = want.calls();
        let bare = trial();
        let kit = Kit::new(find, room, tell)?;
        let Kit {
            maps,
            words,
            mut ring,
            programs,
            attached,
            cookie,
        } = kit;
        let prepare = || {
            prctl_unknown(SIGN as u32, cookie[0], cookie[1]);
            if words[board::SEEN].load(Ordering::Relaxed) == 0 {
                return Err(Errno::ENOSYS); // a filter (seccomp) has answered in the place of the kernel
            }
            words[board::TRIED].store(trial(), Ordering::Relaxed);
            // From here on calls are told: the next one is the execve of the command.
            words[board::LEFT].store(tell.min(MOST_TOLD), Ordering::Relaxed);
            words[board::BEGUN].store(1, Ordering::Release);
            Ok(())
        };
        let held =
            Held::fork(&command.program, &command.args, prepare).map_err(Step::Fork.early())?;
        // What is not read in time is lost.
        let ahead = Ahead::get();
        let before = usage::children_time();
        let start = clock::monotonic();
        let mut running = held.go().map_err(Step::Start.early())?;
        let mut watch = Watch::new(&words, &maps, tell, to);
        let ended = watch
            .until_the_end(&mut running, &mut ring)
            .map_err(Step::Wait.late())?;
        let real = Duration::from_nanos(clock::monotonic().saturating_sub(start));
        drop(ahead);
        drop(attached);
        match running.unstarted() {
            Some(Unstarted::NotRun(errno)) => return Err(command.not_executed(errno)),
            Some(Unstarted::Unprepared(errno)) => {
                return Err(Step::BeSeen.early()(errno));
            }
            None => {}
        }
        let after = usage::children_time();
        let missed = programs
            .iter()
            .filter_map(|program| program.recursion_misses().ok())
            .sum::<u64>();
        let each = words[board::TRIED]
            .load(Ordering::Relaxed)
            .saturating_sub(bare);
        let summary = watch.finish(&mut ring).map_err(Step::ReadMaps.late())?;
        let calls: u64 = summary.totals.iter().map(|total| total.calls).sum();
        Ok(Metered {
            meter: self.name(),
            sees_names: self.sees_names(),
            choice: Choice::Requested,
            warnings: summary.warnings,
            totals: summary.totals,
            reported: summary.reported,
            unfinished: words[board::UNFINISHED].load(Ordering::Relaxed),
            lost: summary.lost + missed,
            overhead: Duration::from_nanos(each.saturating_mul(calls)),
            ended: Ended::from(&ended),
            real,
            user: after.0.saturating_sub(before.0),
            sys: after.1.saturating_sub(before.1),
        })
    }
}

/// What writes a program.
type Writer = fn(&Things) -> Option<Vec<u64>>;

/// What the programs and this side share.
struct Maps {
    board: Map,
    tasks: Map,
    taken: Map,
    slots: Map,
    cells: Map,
    scratch: Map,
}

impl Maps {
    fn new(room: Room) -> Result<Maps, Errno> {
        let seats = room.tasks.next_power_of_two() * seat::EACH;
        Ok(Maps {
            board: Map::new(Kind::Array, "fathom_board", 4, 8 * board::WORDS, 1)?,
            tasks: Map::new(Kind::Entries, "fathom_tasks", 4, task::LEN as usize, seats)?,
            taken: Map::new(Kind::Hash, "fathom_taken", 4, 4, room.tasks)?,
            slots: Map::new(
                Kind::Hash,
                "fathom_slots",
                8,
                slot::LEN as usize,
                room.slots,
            )?,
            cells: Map::new(Kind::Hash, "fathom_cells", 16, 16, room.cells)?,
            scratch: Map::new(Kind::PercpuArray, "fathom_scratch", 4, SCRATCH, 1)?,
        })
    }
}

/// All that lives in the kernel while a command is metered, by descriptors that end with this
/// process.
struct Kit {
    maps: Maps,
    words: Shared,
    ring: Ring,
    programs: Vec<Program>,
    attached: Vec<Fd>,
    cookie: [u64; 2],
}

impl Kit {
    /// The kernel sets tens of megabytes to zero for it and verifies five programs, and its types
    /// are gone through: what can be done at one time is.
    fn new(
        find: impl FnOnce() -> Result<Offsets, Unavailable> + Send,
        room: Room,
        tell: u64,
    ) -> Result<Kit, Unavailable> {
        let size = (tell.min(MOST_RING) * EACH)
            .next_power_of_two()
            .clamp(LEAST_RING, MOST_RING) as u32;
        let (maps, offsets, ring) = std::thread::scope(|scope| {
            let others = Meanwhile::begin(scope, || (find(), Ring::new("fathom_ring", size)))?;
            let maps = Maps::new(room).map_err(Unavailable::BpfMap)?;
            let (offsets, ring) = others.end()?;
            Ok::<_, Unavailable>((maps, offsets?, ring.map_err(Unavailable::BpfMap)?))
        })?;
        let words = maps.board.words().map_err(Unavailable::BpfMap)?;
        for (word, class) in words.iter().skip(board::CLASSES).zip(layout::classes()) {
            word.store(class, Ordering::Relaxed);
        }
        let things = Things {
            board: raw(&maps.board),
            tasks: raw(&maps.tasks),
            taken: raw(&maps.taken),
            slots: raw(&maps.slots),
            cells: raw(&maps.cells),
            scratch: raw(&maps.scratch),
            ring: raw(&ring),
            seats: maps.tasks.entries(),
            watermark: (size / 8).cast_signed(),
            offsets,
            cookie: cookie(),
        };
        // The one that sees the command make itself known comes last: from then on all others are
        // needed.
        let parts: [(&str, &'static CStr, Writer); 5] = [
            ("fathom_exit", c"sched_process_exit", program::exit),
            ("fathom_exec", c"sched_process_exec", program::exec),
            ("fathom_fork", c"sched_process_fork", program::fork),
            ("fathom_return", c"sys_exit", program::exit_call),
            ("fathom_enter", c"sys_enter", program::enter),
        ];
        let load = |name, write: Writer| {
            let code = write(&things).ok_or(Unavailable::BpfAssembly)?;
            Ok(Program::load_raw_tracepoint(name, &code, LICENSE)?)
        };
        let programs = std::thread::scope(|scope| {
            let load = &load;
            let all =
                parts.map(|(name, _, write)| Meanwhile::begin(scope, move || load(name, write)));
            all.into_iter()
                .map(|loading| loading?.end()?)
                .collect::<Result<Vec<Program>, Unavailable>>()
        })?;
        let mut attached = Vec::new();
        for ((_, tracepoint, _), program) in parts.into_iter().zip(&programs) {
            attached.push(
                raw_tracepoint_open(tracepoint, program)
                    .map_err(|errno| Unavailable::Attach { tracepoint, errno })?,
            );
        }
        Ok(Kit {
            maps,
            words,
            ring,
            programs,
            attached,
            cookie: things.cookie,
        })
    }
}

/// What is done meanwhile, in a thread of its own.
struct Meanwhile<'scope, T>(ScopedJoinHandle<'scope, T>);

impl<'scope, T: Send + 'scope> Meanwhile<'scope, T> {
    fn begin(
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Result<Self, Unavailable> {
        let work = || {
            let done = work();
            gate::meter::flush();
            done
        };
        let begun = std::thread::Builder::new().spawn_scoped(scope, work);
        begun
            .map(Meanwhile)
            .map_err(|e| Unavailable::Thread(e.raw_os_error().unwrap_or_default()))
    }

    fn end(self) -> Result<T, Unavailable> {
        self.0.join().map_err(|_| Unavailable::ThreadPanicked)
    }
}

/// Two numbers that nobody can guess: the standard library keys its hash tables with them.
fn cookie() -> [u64; 2] {
    [0; 2].map(|nothing: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(nothing);
        hasher.finish()
    })
}

fn raw(of: &impl AsRawFd) -> i32 {
    of.as_raw_fd()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::call::Total;
    use crate::error::WarningKind;

    #[test]
    fn every_program_can_be_assembled_and_read() {
        let told = Offsets {
            pid: 2400,
            tgid: 2404,
            stack: 32,
            files: Some(3000),
            fs: Some(2992),
            ids: Some(offsets::Ids {
                thread_pid: 2600,
                level: 4,
                numbers: 96,
                size: 16,
            }),
            program: Some(offsets::Running {
                interp: 104,
                file: 64,
                inode: 32,
                ino: 64,
            }),
            ends: Some(offsets::Ends {
                pending: 3100,
                signal: 3050,
                group_exit_code: 100,
            }),
        };
        let silent = Offsets {
            files: None,
            fs: None,
            ids: None,
            program: None,
            ends: None,
            ..told
        };
        for offsets in [told, silent] {
            let things = Things {
                offsets,
                ..Things::NONE
            };
            for write in [
                program::enter,
                program::exit_call,
                program::fork,
                program::exec,
                program::exit,
            ] {
                let code = write(&things).unwrap();
                let listing = asm::listing(&code);
                assert!(
                    listing.ends_with(": exit\n") && !listing.contains('?'),
                    "{listing}"
                );
                assert!(code.len() < 500, "{}", code.len());
            }
        }
    }

    #[test]
    fn the_way_of_a_call_that_nobody_meters_is_short() {
        let listing = asm::listing(
            &program::enter(&Things {
                seats: 1 << 15,
                ..Things::NONE
            })
            .unwrap(),
        );
        let stranger = stranger(&listing);
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
                "13: call 1", // a look into an array, which the kernel does in place
                &format!("14: if r0 == 0 goto {stranger}"),
                "15: r1 = *(u64 *)(r0 +0)",
                "16: if r1 == r9 goto 124",
                &format!("17: if r1 == 0 goto {stranger}"),
            ]
        );
    }

    /// Where the number of prctl(2) is asked for.
    fn stranger(listing: &str) -> &str {
        let number = if cfg!(target_arch = "x86_64") {
            "!= 157"
        } else {
            "!= 167"
        };
        let line = listing.lines().find(|line| line.contains(number)).unwrap();
        line.split(':').next().unwrap()
    }

    #[test]
    fn the_kernel_takes_the_programs_whatever_it_says_of_itself() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        for find in [Offsets::find, Offsets::probe] {
            for tell in [0, u64::MAX] {
                Kit::new(find, ROOM, tell).map(drop).unwrap();
            }
        }
    }

    #[test]
    fn a_kernel_that_says_nothing_of_itself_will_do() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        let script = "for i in 1 2 3; do cat /etc/passwd >/dev/null; done; (exec true) & wait";
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let command = Command::find(&words).unwrap();
        let counted = |find: fn() -> Result<Offsets, Unavailable>| {
            let metered = Bpf
                .run_by(
                    find,
                    ROOM,
                    &command,
                    Want::Detail { calls: u64::MAX },
                    &mut (),
                )
                .unwrap();
            assert_eq!((metered.ended, metered.lost), (Ended::Exited(0), 0));
            let named =
                |total: &Total| total.program.contains(&b'/') || find().unwrap().program.is_none();
            assert!(metered.totals.iter().all(named), "{:?}", metered.totals);
            by_number(&metered)
        };
        let said = counted(Offsets::find);
        assert_eq!(counted(Offsets::probe), said);
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
    fn tables_that_are_full_lose_no_call() {
        if let Err(why) = Bpf.check() {
            return eprintln!("SKIPPED: {why}");
        }
        let script = "for i in 1 2 3 4 5 6 7 8; do (ls / /no/such; cat /etc/passwd) >/dev/null 2>&1; done; true";
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let command = Command::find(&words).unwrap();
        let metered = |room| {
            Bpf.run_by(
                Offsets::find,
                room,
                &command,
                Want::Detail { calls: 40 },
                &mut (),
            )
            .unwrap()
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
        // Threads that there is no room for are lost, and it is said.
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
