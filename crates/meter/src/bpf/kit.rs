//! The kernel's part of a measurement: BPF maps, ring buffer, programs and their attachments.

use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use base::pool::{both, in_threads};
use gate::bpf::{Kind, Map, Program, Ring, raw_tracepoint_open};
use gate::process::SharedWords;
use gate::{Errno, Fd, machine};

use super::code::{CONFIG, Code, WORDS};
use super::layout::{self, Config, Joins, bucket, scratch, shared, slot, task};
use super::types::Types;
use crate::error::Unavailable;
use crate::names::MOST_TASKS;

/// The capacity of the maps. Zeroing all of it at creation takes most of the start-up time.
#[derive(Clone, Copy)]
pub(super) struct MapCapacity {
    /// The maximum number of threads at a time; further threads are not metered.
    pub(super) tasks: u32,
    /// Processes that exec or fork before user space reads the maps, and calls by process, number
    /// and error. Beyond this, calls are summed up by number only.
    pub(super) slots: u32,
    pub(super) cells: u32,
}

impl MapCapacity {
    /// The capacity to meter a command: threads as in [`crate::names`], and as many cells as this
    /// machine can fill between two readings of the map.
    pub(super) fn new() -> MapCapacity {
        const CELLS: usize = 1 << 14;
        let cells = (CELLS * machine::processors()).next_power_of_two();
        MapCapacity {
            tasks: MOST_TASKS as u32,
            slots: 1 << 12,
            cells: cells.clamp(2 * CELLS, 4 * CELLS) as u32,
        }
    }
}

/// The size of the ring buffer: up to its maximum, enough for all calls that are to be reported.
fn ring_size(calls: u64) -> u32 {
    const SMALLEST: u64 = 1 << 18;
    const LARGEST: u64 = 1 << 24;
    /// Bytes of a record with a fairly long path.
    const RECORD: u64 = 256;
    let size = calls.min(LARGEST) * RECORD;
    size.next_power_of_two().clamp(SMALLEST, LARGEST) as u32
}

/// Minimum fill of the ring buffer at which user space is woken. The rest is read when the command
/// ends, while the user waits.
const LEAST_WATERMARK: u32 = 1 << 15;

pub(super) struct Maps {
    pub(super) shared: Map,
    pub(super) tasks: Map,
    pub(super) taken: Map,
    pub(super) slots: Map,
    pub(super) cells: Map,
    /// The cgroup2 whose threads are metered from their next call on.
    pub(super) cgroups: Map,
    scratch: Map,
}

impl Maps {
    fn new(room: MapCapacity) -> Result<Maps, Errno> {
        let buckets = room.tasks.next_power_of_two() * bucket::PER_TASK;
        let (task, slot) = (task::LEN as usize, slot::LEN as usize);
        Ok(Maps {
            shared: Map::new(Kind::Array, "fathom_board", 4, 8 * shared::WORDS, 1)?,
            tasks: Map::new(Kind::Entries, "fathom_tasks", 4, task, buckets)?,
            taken: Map::new(Kind::Hash, "fathom_taken", 4, 4, room.tasks)?,
            slots: Map::new(Kind::Hash, "fathom_slots", 8, slot, room.slots)?,
            cells: Map::new(Kind::Hash, "fathom_cells", 16, 16, room.cells)?,
            cgroups: Map::new(Kind::Cgroups, "fathom_cgroup", 4, 4, 1)?,
            scratch: Map::new(
                Kind::PercpuArray,
                "fathom_scratch",
                4,
                scratch::LEN,
                scratch::ENTRIES,
            )?,
        })
    }

    /// Links the programs to these maps.
    fn link(&self, config: &Map, types: &Types, ring: &Ring) -> Result<Code, Unavailable> {
        let maps = [
            (CONFIG, config),
            (WORDS, &self.shared),
            ("tasks", &self.tasks),
            ("taken", &self.taken),
            ("slots", &self.slots),
            ("cells", &self.cells),
            ("cgroups", &self.cgroups),
            ("scratch", &self.scratch),
        ];
        let maps = maps.map(|(name, map)| (name, map.as_raw_fd()));
        let maps = [&maps[..], &[("ring", ring.as_raw_fd())]].concat();
        Code::link(|_| true, Some(types), &maps)
    }
}

/// Maps, ring and attached programs. The kernel frees them when the descriptors are closed.
pub(super) struct BpfObjects {
    pub(super) maps: Maps,
    pub(super) words: SharedWords,
    pub(super) ring: Ring,
    pub(super) programs: Vec<LoadedProgram>,
    pub(super) attached: Vec<Fd>,
    pub(super) cookie: [u64; 2],
    pub(super) code: Code,
    /// Kept open because programs that are loaded later refer to this map.
    _config: Map,
}

impl BpfObjects {
    /// Creates the maps, and loads and attaches the programs that this kernel needs. `find` returns
    /// the kernel's types.
    pub(super) fn new(
        find: impl FnOnce() -> Result<Types, Unavailable> + Send,
        room: MapCapacity,
        calls: u64,
        joins: Option<Joins>,
    ) -> Result<BpfObjects, Unavailable> {
        BpfObjects::with(needed(&machine::uname().kernel), find, room, calls, joins)
    }

    /// [`BpfObjects::new`] with these programs. Zeroing tens of megabytes, verifying programs and
    /// parsing BTF run in parallel threads.
    pub(super) fn with(
        wanted: &[Tracepoint],
        find: impl FnOnce() -> Result<Types, Unavailable> + Send,
        room: MapCapacity,
        calls: u64,
        joins: Option<Joins>,
    ) -> Result<BpfObjects, Unavailable> {
        let size = ring_size(calls);
        let (maps, (types, ring)) = both(
            || Maps::new(room),
            || (find(), Ring::new("fathom_ring", size)),
        );
        let maps = maps.map_err(Unavailable::BpfMap)?;
        let (types, ring) = (types?, ring.map_err(Unavailable::BpfMap)?);
        if joins.is_some() && !types.are_complete {
            return Err(Unavailable::AttachNeedsBtf);
        }
        let words = maps.shared.words().map_err(Unavailable::BpfMap)?;
        for (word, class) in words.iter().skip(shared::CLASSES).zip(layout::classes()) {
            word.store(class, Ordering::Relaxed);
        }
        let config = Config {
            cookie: new_cookie(),
            buckets: maps.tasks.entries(),
            watermark: (size / 32).max(LEAST_WATERMARK),
            joins,
            has_second: wanted.len() > FIRST_PROGRAMS.len(),
            ..Config::default()
        };
        let constants = config.to_map().map_err(Unavailable::BpfMap)?;
        let code = maps.link(&constants, &types, &ring)?;
        let load = |tracepoint: &Tracepoint| {
            let program = code.load(tracepoint.0);
            program.map(|program| (*tracepoint, program))
        };
        let programs: Result<Vec<LoadedProgram>, _> =
            in_threads(wanted, load).into_iter().collect();
        let programs = programs?;
        let attached: Result<_, _> = programs
            .iter()
            .map(|(tracepoint, program)| attach(tracepoint.1, program))
            .collect();
        Ok(BpfObjects {
            maps,
            words,
            ring,
            attached: attached?,
            programs,
            cookie: config.cookie,
            code,
            _config: constants,
        })
    }
}

/// The name of a program, and the tracepoint to attach it to.
pub(super) type Tracepoint = (&'static str, &'static CStr);
pub(super) type LoadedProgram = (Tracepoint, Program);

/// All programs. `fathom_enter`, which recognizes the command's prctl(2), is attached last, because
/// all others are needed from then on. Programs `_2` run where the kernel skips the first: see
/// `meter.bpf.c`.
pub(super) const PROGRAMS: [Tracepoint; 9] = [
    ("fathom_exit", c"sched_process_exit"),
    ("fathom_exit_2", c"sched_process_exit"),
    ("fathom_exec", c"sched_process_exec"),
    ("fathom_exec_2", c"sched_process_exec"),
    ("fathom_fork", c"sched_process_fork"),
    ("fathom_fork_2", c"sched_process_fork"),
    ("fathom_return", c"sys_exit"),
    ("fathom_return_2", c"sys_exit"),
    ("fathom_enter", c"sys_enter"),
];

/// The programs without their `_2` duplicates, which take a third of the verification time.
const FIRST_PROGRAMS: [Tracepoint; 5] = [
    PROGRAMS[0],
    PROGRAMS[2],
    PROGRAMS[4],
    PROGRAMS[6],
    PROGRAMS[8],
];

/// The programs that a kernel of this release needs: before Linux 7.0, none is preempted. Since
/// Linux 5.12, [`BpfObjects::skipped_events`] tells if a kernel skipped one nevertheless.
pub(super) fn needed(release: &str) -> &'static [Tracepoint] {
    let major = release
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    match major {
        Some(0..7u32) => &FIRST_PROGRAMS,
        _ => &PROGRAMS,
    }
}

impl BpfObjects {
    /// Upper bound of the forks, execs and exits on this machine for which no program ran.
    pub(super) fn skipped_events(programs: &[LoadedProgram]) -> u64 {
        let events = [
            c"sched_process_exit",
            c"sched_process_exec",
            c"sched_process_fork",
        ];
        let skipped = |event: &CStr| {
            let those = programs
                .iter()
                .filter(|(tracepoint, _)| tracepoint.1 == event);
            let skipped = those.map(|(_, program)| program.recursion_misses().unwrap_or_default());
            skipped.min().unwrap_or_default()
        };
        events.into_iter().map(skipped).sum()
    }
}

/// Attaches a program to a raw tracepoint; closing the descriptor detaches it.
pub(super) fn attach(tracepoint: &'static CStr, program: &Program) -> Result<Fd, Unavailable> {
    raw_tracepoint_open(tracepoint, program).map_err(|errno| Unavailable::Attach(tracepoint, errno))
}

/// Two unpredictable numbers: the random keys of the standard library's hash tables.
pub(super) fn new_cookie() -> [u64; 2] {
    [0; 2].map(|number: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(number);
        hasher.finish()
    })
}
