//! Calls as stacks of frames, from the program over the directories to the system call: what flame
//! graphs are drawn from.

use std::collections::BTreeMap;

use meter::syscalls;

use crate::command::CommandAccount;
use crate::ledger::Elsewhere;

/// Where the calls of a [`Stack`] went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place<'a> {
    /// To files in this directory, or to the directory itself.
    Directory(&'a [u8]),
    /// To descriptors without a known name.
    Nameless,
    /// To files for which there was no room.
    Unheld,
    /// They were counted only, not reported one by one.
    Unexamined,
}

/// Calls of one name by one program in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack<'a> {
    /// The file of the program; empty if it is unknown.
    pub program: &'a [u8],
    /// Where they went.
    pub place: Place<'a>,
    /// The system call.
    pub call: &'static str,
}

/// All calls of a command: the numbers add up to those of its system calls.
pub fn stacks(account: &CommandAccount) -> BTreeMap<Stack<'_>, u64> {
    let detail = &account.detail;
    let mut stacks = BTreeMap::new();
    let mut examined = BTreeMap::<(&[u8], &'static str), u64>::new();
    let mut add = |program: u16, place, number: u16, calls: u64| {
        let program = detail.programs.get(usize::from(program));
        let program = program.map_or(&b""[..], |program| program);
        let Some(call) = syscalls::by_number(number.into()).map(|call| call.name) else {
            return;
        };
        let stack = Stack {
            program,
            place,
            call,
        };
        *stacks.entry(stack).or_default() += calls;
        *examined.entry((program, call)).or_default() += calls;
    };
    for file in &detail.files {
        for ((program, number), calls) in file.by_program() {
            add(program, Place::Directory(file.dir()), number, calls);
        }
    }
    for (&(program, number, why), &calls) in &detail.elsewhere {
        let place = match why {
            Elsewhere::Nameless => Place::Nameless,
            Elsewhere::Unheld => Place::Unheld,
        };
        add(program, place, number, calls);
    }
    let mut all = BTreeMap::<(&[u8], &'static str), u64>::new();
    for total in &account.metered.totals {
        if let Some(call) = syscalls::by_number(total.number) {
            *all.entry((&total.program, call.name)).or_default() += total.calls;
        }
    }
    for ((program, call), calls) in all {
        let known = examined.get(&(program, call)).copied().unwrap_or(0);
        if calls > known {
            let stack = Stack {
                program,
                place: Place::Unexamined,
                call,
            };
            stacks.insert(stack, calls - known);
        }
    }
    stacks
}
