//! Finds offsets in the `task_struct` of a kernel without BTF: pid and tgid of a thread with known
//! ids are adjacent, and the pointer to the kernel stack points just below the thread's registers.

use std::thread::Builder;

use gate::bpf::{Kind, Map, Ring, prctl_unknown};
use gate::meter::spawn_scoped;
use std::os::fd::AsRawFd;

use super::code::{CONFIG, Code};
use super::kit::{attach, new_cookie};
use super::layout::{Config, LOOKED, announce, double, scratch};
use super::types::Types;
use crate::error::Unavailable;

/// The types of this kernel: from BTF, or by probing.
pub(super) fn find() -> Result<Types, Unavailable> {
    Types::read().map_or_else(probe, Ok)
}

/// Reads the `task_struct` of a thread of fathom other than the main thread, because its pid and
/// tgid differ.
pub(super) fn probe() -> Result<Types, Unavailable> {
    /// Bytes by which the pieces of a `task_struct` overlap, so that no pair of ids is split
    /// between two pieces.
    const OVERLAP: usize = 8;
    const PIECES: usize = 6;
    const ROOM: u32 = 64 << 10;
    let mut ring = Ring::new("fathom_look", ROOM).map_err(Unavailable::BpfMap)?;
    let scratch = Map::new(Kind::PercpuArray, "fathom_look", 4, scratch::LEN, 1)
        .map_err(Unavailable::BpfMap)?;
    let mut stack = None;
    for piece in 0..PIECES {
        let from = piece * (LOOKED - OVERLAP);
        let config = Config {
            look_from: from as u64,
            cookie: new_cookie(),
            ..Config::default()
        };
        let constants = config.to_map().map_err(Unavailable::BpfMap)?;
        let maps = [
            (CONFIG, constants.as_raw_fd()),
            ("ring", ring.as_raw_fd()),
            ("scratch", scratch.as_raw_fd()),
        ];
        let code = Code::link(|name| name == "fathom_look", None, &maps)?;
        let program = code.load("fathom_look")?;
        let attached = attach(c"sys_enter", &program)?;
        let [first, second] = config.cookie;
        std::thread::scope(|scope| {
            let announce = || prctl_unknown(announce::LOOK, first, second);
            let _ = spawn_scoped(scope, Builder::new(), announce);
        });
        drop(attached);
        let mut pid = None;
        ring.drain(|record| {
            let found = find_fields(record);
            pid = found.0.map(|at| (from + at) as u32);
            stack = stack.or(found.1.map(|at| (from + at) as u32));
        });
        if let (Some(pid), Some(stack)) = (pid, stack) {
            return Ok(Types::at(pid, pid + 4, stack));
        }
    }
    Err(Unavailable::NoBtf)
}

/// The offsets of pid/tgid and of the stack in a record of `fathom_look`.
fn find_fields(record: &[u8]) -> (Option<usize>, Option<usize>) {
    /// The minimum page size, and the maximum kernel stack size.
    const PAGE: u64 = 4 << 10;
    const DEEPEST: u64 = 64 << 10;
    let (ids, registers) = (double(record, 8), double(record, 16));
    let task = record.get(24..).unwrap_or_default();
    // The lower half is the tid, which the kernel calls pid.
    let mut pairs = task.windows(8).step_by(4);
    let ids_at = pairs.position(|pair| pair == ids.to_ne_bytes());
    let stack_at = task.chunks_exact(8).position(|word| {
        let word = double(word, 0);
        word.is_multiple_of(PAGE) && (1..=DEEPEST).contains(&registers.wrapping_sub(word))
    });
    (ids_at.map(|n| 4 * n), stack_at.map(|n| 8 * n))
}
