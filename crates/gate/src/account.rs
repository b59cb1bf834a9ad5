//! What calls, and the CPU time about them, are for: the account of a run, in the manner of the
//! Multics memo of 1974.
//!
//! While one is [open], each call's CPU time is taken, and booked by what is being done ([`phase`],
//! [`turn`]) and for whom ([`about`]). Threads have clocks of their own, so that it does not matter
//! how many there are. Taking the time costs more than many a call: what it costs is measured
//! first, and left out of what is booked.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use crate::Gate;
use crate::meter;
use crate::usage::{cpu_time, thread_cpu_time};

/// What is being done: the rows of the memo's first table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// None of what follows.
    Other,
    /// Learning what is there.
    Information,
    /// Calls that are made for what they do: opening a file to read it, closing it, giving an
    /// archive its name.
    Effect,
    /// Reading the contents of files.
    Copy,
    /// Writing the archive.
    Write,
    /// Writing the list of what was dumped.
    Map,
}

impl Function {
    /// Every one, in the order of the enum.
    pub const ALL: [Function; 6] = [
        Function::Other,
        Function::Information,
        Function::Effect,
        Function::Copy,
        Function::Write,
        Function::Map,
    ];
}

/// For whose sake a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whom {
    /// For all entries alike.
    All,
    /// For a directory.
    Directory,
    /// For a file that is none.
    File,
}

/// Calls, and the CPU time in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// In them, taking the time left out.
    pub cpu: Duration,
}

/// What passed one gate while one thing was being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The gate.
    pub gate: Gate,
    /// What was being done.
    pub function: Function,
    /// For all entries alike.
    pub all: Calls,
    /// For directories.
    pub directory: Calls,
    /// For files.
    pub file: Calls,
}

/// What a run used, and for what.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// CPU time by function, in the order of [`Function::ALL`], taking the time left out.
    pub cpu: [Duration; Function::ALL.len()],
    /// CPU time that went into taking the time.
    pub metering: Duration,
    /// What passed the gates, by function and gate.
    pub lines: Vec<Line>,
}

const FUNCTIONS: usize = Function::ALL.len();
const WHOM: usize = 3;

/// The books, while they are open.
#[derive(Default)]
struct Books {
    /// The process's clock at the beginning of the phase.
    since: Duration,
    /// What has been booked by threads that did something else in this phase.
    apart: Duration,
    cpu: [Duration; FUNCTIONS],
    turns: [u32; FUNCTIONS],
    calls: Vec<[[Calls; WHOM]; FUNCTIONS]>,
    prices: Prices,
}

/// What taking the time costs.
#[derive(Clone, Copy, Default)]
struct Prices {
    /// What the time of a call that does nothing is found to be.
    nothing: Duration,
    /// What metering a call costs.
    call: Duration,
    /// What a turn costs.
    turn: Duration,
}

static BOOKS: Mutex<Option<Books>> = Mutex::new(None);
/// What a thread does that has not turned to anything else.
static PHASE: AtomicU8 = AtomicU8::new(Function::Other as u8);

thread_local! {
    /// What this thread has turned to, and its clock when it did.
    static TURNED: Cell<Option<(Function, Duration)>> = const { Cell::new(None) };
    static ABOUT: Cell<Whom> = const { Cell::new(Whom::All) };
}

fn books<T>(with: impl FnOnce(&mut Books) -> T) -> Option<T> {
    BOOKS
        .lock()
        .unwrap_or_else(|e| e.into_inner())
        .as_mut()
        .map(with)
}

fn put(books: Option<Books>) -> Option<Books> {
    std::mem::replace(&mut *BOOKS.lock().unwrap_or_else(|e| e.into_inner()), books)
}

fn present() -> Function {
    Function::ALL
        .get(usize::from(PHASE.load(Relaxed)))
        .copied()
        .unwrap_or(Function::Other)
}

/// Opens an account. What was booked in one that was open is forgotten.
pub fn open() {
    let empty = || Books {
        calls: vec![Default::default(); Gate::ALL.len()],
        ..Books::default()
    };
    put(Some(empty()));
    meter::set_accounting(true);
    let prices = prices();
    TURNED.set(None);
    ABOUT.set(Whom::All);
    PHASE.store(Function::Other as u8, Relaxed);
    put(Some(Books {
        prices,
        since: cpu_time(),
        ..empty()
    }));
}

fn prices() -> Prices {
    const ROUNDS: u32 = 1000;
    let each = |work: &dyn Fn()| {
        let start = thread_cpu_time();
        (0..ROUNDS).for_each(|_| work());
        thread_cpu_time().saturating_sub(start) / ROUNDS
    };
    let nothing = || {
        let start = black_box(thread_cpu_time());
        black_box(thread_cpu_time()).saturating_sub(start)
    };
    Prices {
        nothing: (0..ROUNDS).map(|_| nothing()).min().unwrap_or_default(),
        call: each(&|| enter(Gate::Close, nothing())),
        turn: each(&|| {
            turn(Some(Function::Other));
        }),
    }
}

/// Whether an account is open.
pub fn is_open() -> bool {
    meter::accounting()
}

/// From now on this is what is being done by every thread that does not turn to something else.
pub fn phase(function: Function) {
    books(|books| {
        let now = cpu_time();
        let mine = now.saturating_sub(books.since).saturating_sub(books.apart);
        books.cpu[present() as usize] += mine;
        (books.since, books.apart) = (now, Duration::ZERO);
        PHASE.store(function as u8, Relaxed);
    });
}

/// From now on this thread does something else than the phase says; or, with `None`, that again.
/// Gives what it did until now.
pub fn turn(to: Option<Function>) -> Option<Function> {
    if !meter::accounting() {
        return None;
    }
    let now = thread_cpu_time();
    let from = TURNED.replace(to.map(|to| (to, now)));
    if let Some((from, since)) = from {
        books(|books| {
            let mine = now.saturating_sub(since);
            books.cpu[from as usize] += mine;
            books.apart += mine;
            books.turns[from as usize] += 1;
        });
    }
    from.map(|(from, _)| from)
}

/// [`turn`], for some work only.
#[inline]
pub fn during<T>(function: Function, work: impl FnOnce() -> T) -> T {
    if !meter::accounting() {
        return work();
    }
    let before = turn(Some(function));
    let done = work();
    turn(before);
    done
}

/// Some work whose calls are made for somebody's sake. Costs next to nothing while no account is
/// open.
#[inline]
pub fn about<T>(whom: Whom, work: impl FnOnce() -> T) -> T {
    if !meter::accounting() {
        return work();
    }
    let before = ABOUT.replace(whom);
    let done = work();
    ABOUT.set(before);
    done
}

/// Books a call.
pub(crate) fn enter(gate: Gate, cpu: Duration) {
    // A thread that is ending has turned to nothing any more.
    let function = TURNED
        .try_with(Cell::get)
        .ok()
        .flatten()
        .map_or_else(present, |(function, _)| function);
    let whom = ABOUT.try_with(Cell::get).unwrap_or(Whom::All);
    books(|books| {
        let calls = &mut books.calls[gate as usize][function as usize][whom as usize];
        calls.calls += 1;
        calls.cpu += cpu.saturating_sub(books.prices.nothing);
    });
}

/// Closes the account, and gives what was booked; nothing when none was open.
pub fn close() -> Account {
    turn(None);
    phase(Function::Other);
    meter::set_accounting(false);
    let Some(books) = put(None) else {
        return Account::default();
    };
    let mut account = Account::default();
    for (at, function) in Function::ALL.into_iter().enumerate() {
        let mut calls = 0;
        for (&gate, by) in Gate::ALL.iter().zip(&books.calls) {
            let [all, directory, file] = by[at];
            let here = all.calls + directory.calls + file.calls;
            if here > 0 {
                account.lines.push(Line {
                    gate,
                    function,
                    all,
                    directory,
                    file,
                });
            }
            calls += here;
        }
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let metering = books.prices.call.saturating_mul(calls)
            + books.prices.turn.saturating_mul(books.turns[at]);
        let metering = metering.min(books.cpu[at]);
        account.metering += metering;
        account.cpu[at] = books.cpu[at] - metering;
    }
    account
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(cpu: Duration) {
        let start = thread_cpu_time();
        while thread_cpu_time() - start < cpu {}
    }

    /// One test for all: there is one account at a time.
    #[test]
    fn time_and_calls_are_booked_by_what_they_are_for() {
        let ms = Duration::from_millis;
        assert_eq!(close().lines, []);
        open();
        phase(Function::Information);
        work(ms(20));
        about(Whom::Directory, || crate::fs::getcwd().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                during(Function::Copy, || {
                    about(Whom::File, || crate::fs::getcwd().unwrap());
                    work(ms(40));
                });
            });
            work(ms(10));
        });
        phase(Function::Write);
        work(ms(5));
        let account = close();
        let cpu = |function: Function| account.cpu[function as usize];
        for (function, least) in [
            (Function::Information, 30),
            (Function::Copy, 40),
            (Function::Write, 5),
        ] {
            assert!(
                cpu(function) >= ms(least * 9 / 10),
                "{function:?}: {account:?}"
            );
        }
        assert!(
            cpu(Function::Copy) < ms(80) && cpu(Function::Other) < ms(5),
            "{account:?}"
        );
        // The other tests of this crate may make calls meanwhile, on threads that turn to nothing.
        let line = |function| {
            account
                .lines
                .iter()
                .find(|line| (line.gate, line.function) == (Gate::Getcwd, function))
        };
        assert_eq!(line(Function::Information).unwrap().directory.calls, 1);
        assert_eq!(line(Function::Copy).unwrap().file.calls, 1);
        crate::fs::getcwd().unwrap();
        assert!(close().lines.is_empty());
    }
}
