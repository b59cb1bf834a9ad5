//! Requirements on every meter: these tests run with each meter of [`all`].

#![allow(
    clippy::disallowed_methods,
    reason = "the tests build and check past the gate"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Command as Tool;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::call::{
    Call, Command, CommandEnd, Fork, LONGEST_NAME, Listener, Meter, MeterReason, Metered,
};
use crate::skip::skip;
use crate::{CommandError, Error, Unavailable, WarningKind, all, syscalls};

/// All events that a meter has reported.
#[derive(Default)]
struct ReportedEvents {
    calls: Vec<ReportedCall>,
    forks: Vec<Fork>,
    execs: Vec<(u32, Vec<u8>)>,
    exits: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq)]
struct ReportedCall {
    pid: u32,
    gate: &'static str,
    args: [u64; 6],
    name: Option<Vec<u8>>,
    other: Option<Vec<u8>>,
    result: Option<i64>,
}

impl Listener for ReportedEvents {
    fn call(&mut self, call: &Call<'_>) {
        self.calls.push(ReportedCall {
            pid: call.pid,
            gate: syscalls::by_number(call.number)
                .expect("a call of the table")
                .name,
            args: call.args,
            name: call.name.map(<[u8]>::to_vec),
            other: call.other.map(<[u8]>::to_vec),
            result: call.result,
        });
    }
    fn fork(&mut self, fork: &Fork) {
        self.forks.push(*fork);
    }
    fn exec(&mut self, pid: u32, program: &[u8]) {
        self.execs.push((pid, program.to_vec()));
    }
    fn exit(&mut self, pid: u32, tid: u32) {
        self.exits.push((pid, tid));
    }
}

/// Number of calls to report individually: all.
const ALL: u64 = u64::MAX;

/// The program `busy.c`, built once.
pub(crate) fn busy() -> OsString {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        // Build the program under a temporary name, because another test process may run `busy`
        // meanwhile.
        let at = std::env::current_exe().unwrap().with_file_name("busy");
        let new = at.with_extension(std::process::id().to_string());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/busy.c");
        // Link the program statically: cargo sets LD_LIBRARY_PATH, and the linker's search would
        // dominate the calls.
        let done = Tool::new("cc")
            .args(["-static", "-O1", "-w", "-pthread", source, "-o"])
            .arg(&new)
            .status()
            .expect("cc");
        assert!(done.success());
        fs::rename(&new, &at).unwrap();
        at
    });
    built.clone().into_os_string()
}

fn find<A: Into<OsString>>(words: impl IntoIterator<Item = A>) -> Command {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    Command::find(&words).unwrap()
}

/// Meters one command at a time: a meter catches the signals of the whole process, and CPU times
/// are those of all children.
fn run(
    meter: &dyn Meter,
    command: &Command,
    calls: u64,
) -> (Result<Metered, Error>, ReportedEvents) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut heard = ReportedEvents::default();
    let metered = meter.run(command, calls, &mut heard);
    (metered, heard)
}

/// Runs the test with every meter that works here; there must be at least one.
fn each(test: impl Fn(&dyn Meter)) {
    let meters = all();
    let mut available = 0;
    for meter in &meters {
        match meter.check() {
            Ok(()) => {
                available += 1;
                test(&**meter);
            }
            Err(why) => skip(format_args!("{}: {why}", meter.name())),
        }
    }
    assert!(available > 0, "no meter works here");
}

fn each_running<A: Into<OsString> + Clone>(
    words: &[A],
    test: impl Fn(&str, Metered, ReportedEvents),
) {
    let command = find(words.iter().cloned());
    each(|meter| {
        let (metered, heard) = run(meter, &command, ALL);
        let metered = metered.unwrap_or_else(|failure| panic!("{}: {failure:?}", meter.name()));
        assert_eq!((metered.meter, metered.lost), (meter.name(), 0));
        test(meter.name(), metered, heard);
    });
}

fn busy_with(what: &str) -> [OsString; 2] {
    [busy(), what.into()]
}

type Counts = BTreeMap<&'static str, (u64, u64)>;

/// Calls and errors by system call: of the totals, and of the reported calls.
fn counts(metered: &Metered, heard: &ReportedEvents) -> (Counts, Counts) {
    let (mut summed, mut reported) = (Counts::new(), Counts::new());
    for total in &metered.totals {
        let sum = summed
            .entry(syscalls::by_number(total.number).unwrap().name)
            .or_default();
        *sum = (
            sum.0 + total.calls,
            sum.1 + total.errors.iter().map(|(_, times)| times).sum::<u64>(),
        );
    }
    for call in &heard.calls {
        if let Some(result) = call.result {
            let sum = reported.entry(call.gate).or_default();
            *sum = (sum.0 + 1, sum.1 + u64::from(result < 0));
        }
    }
    (summed, reported)
}

#[test]
fn the_first_call_is_the_commands_own_execve() {
    each_running(&["true"], |meter, metered, heard| {
        let first = &heard.calls[0];
        assert_eq!((first.gate, first.result), ("execve", Some(0)), "{meter}");
        let execs: Vec<_> = heard
            .execs
            .iter()
            .map(|(_, program)| String::from_utf8_lossy(program))
            .collect();
        assert!(
            execs.len() == 1 && execs[0].starts_with('/'),
            "{meter}: {execs:?}"
        );
        assert_eq!(
            (metered.ended, metered.unfinished),
            (CommandEnd::Exited(0), 0)
        );
        assert!(
            metered.real.as_nanos() > 0 && metered.warnings.is_empty(),
            "{meter}: {:?}",
            metered.warnings
        );
        let (summed, reported) = counts(&metered, &heard);
        assert_eq!(summed, reported, "{meter}");
        assert_eq!(heard.exits, [(first.pid, first.pid)], "{meter}");
    });
}

#[test]
fn threads_forks_and_vforks_are_followed() {
    each_running(&busy_with("crowd"), |meter, metered, heard| {
        let (summed, reported) = counts(&metered, &heard);
        assert_eq!(summed, reported, "{meter}");
        let made = heard
            .forks
            .iter()
            .filter(|fork| fork.pid == fork.tid)
            .count();
        let threads = heard
            .forks
            .iter()
            .filter(|fork| fork.pid != fork.tid)
            .count();
        assert_eq!((made, threads, heard.execs.len()), (70, 8, 11), "{meter}");
        assert_eq!(heard.exits.len(), 79, "{meter}");
        // `touch_files` makes two failed lookups. It is called 100 times by each of 8 threads, once
        // by each of 50 forks, and once by each of 10 execs.
        let missing = heard.calls.iter().filter(|call| is_missing(call));
        assert_eq!(missing.count(), 2 * 860, "{meter}");
    });
    each_running(&busy_with("crowd"), |meter, _, heard| {
        let missing = heard
            .calls
            .iter()
            .filter(|call| call.name.as_deref() == Some(b"/no/such/file"));
        assert!(missing.clone().all(is_missing), "{meter}");
        assert_eq!(missing.count(), 2 * 860, "{meter}");
    });
}

/// Whether a call is a failed lookup (ENOENT) by `touch_files` in `busy.c`.
fn is_missing(call: &ReportedCall) -> bool {
    call.result == Some(-2) && ["open", "openat", "stat", "newfstatat"].contains(&call.gate)
}

#[test]
fn names_are_reported_as_they_were_given_or_not_at_all() {
    each_running(&busy_with("names"), |meter, _, heard| {
        let brief = |name: &Option<Vec<u8>>| {
            name.as_ref().map(|name| {
                (
                    name[..name.len().min(13)].escape_ascii().to_string(),
                    name.len(),
                )
            })
        };
        // Compare only the last calls: the dynamic linker may have looked up libraries before.
        let wrong = heard
            .calls
            .iter()
            .filter(|call| call.result.is_some_and(|result| result < 0));
        let asked = wrong.filter(|call| ["newfstatat", "renameat2"].contains(&call.gate));
        let names: Vec<_> = asked
            .map(|call| (brief(&call.name), brief(&call.other)))
            .collect();
        let names = &names[names.len().saturating_sub(7)..];
        let xs = "x".repeat(13);
        let expected = [
            (None, None),
            (None, None),
            (Some(("/no/such/file".to_owned(), 13)), None),
            (Some((r"\xff\xfe\n\x01".to_owned(), 4)), None),
            (None, None),
            (Some((xs.clone(), 302)), None),
            (Some((xs, LONGEST_NAME)), None),
        ];
        assert_eq!(names, expected, "{meter}");
    });
}

#[test]
fn two_names_come_in_the_order_of_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &[u8]| {
        let mut path = dir.path().as_os_str().to_owned();
        path.push(OsString::from_vec([b"/", name].concat()));
        path
    };
    let (from, to) = (at(b"from\xff"), at(b"to"));
    let words = [OsString::from("ln"), "-s".into(), from.clone(), to.clone()];
    let command = find(words);
    each(|meter| {
        let _ = fs::remove_file(&to);
        let (metered, heard) = run(meter, &command, ALL);
        assert_eq!(metered.unwrap().ended, CommandEnd::Exited(0));
        let linked = heard
            .calls
            .iter()
            .find(|call| call.gate.starts_with("symlink") && call.result == Some(0));
        let linked = linked.expect("a symlink");
        let names = [&linked.name, &linked.other].map(|name| name.clone().map(OsString::from_vec));
        assert_eq!(
            names,
            [Some(from.clone()), Some(to.clone())],
            "{}",
            meter.name()
        );
    });
}

#[test]
fn forks_report_what_parent_and_child_share() {
    each_running(&busy_with("family"), |meter, _, heard| {
        let shown: Vec<_> = heard
            .forks
            .iter()
            .map(|fork| {
                (
                    fork.pid != fork.tid,
                    fork.shares_files,
                    fork.shares_fs,
                    fork.parent == heard.forks[0].parent,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (true, true, true, true),
                (false, false, false, true),
                (false, true, true, true)
            ],
            "{meter}"
        );
    });
}

#[test]
fn a_thread_that_executes_a_program_gets_the_id_of_its_process() {
    each_running(&busy_with("thread-exec"), |meter, metered, heard| {
        let (summed, reported) = counts(&metered, &heard);
        assert_eq!((&summed, summed["execve"]), (&reported, (2, 0)), "{meter}");
        let pid = heard.calls[0].pid;
        assert_eq!(
            heard.execs.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(),
            [pid, pid],
            "{meter}"
        );
        // One call is unfinished: a different thread was opening a file when the program was
        // executed.
        let unfinished: Vec<_> = heard
            .calls
            .iter()
            .filter(|call| call.result.is_none())
            .map(|call| call.gate)
            .collect();
        assert_eq!(
            (&unfinished[..], metered.unfinished),
            (&["openat"][..], 1),
            "{meter}"
        );
        assert_eq!(metered.ended, CommandEnd::Exited(0), "{meter}");
        assert_eq!(heard.exits.last(), Some(&(pid, pid)), "{meter}");
    });
}

#[test]
fn a_call_that_never_returns_is_reported_but_not_in_the_totals() {
    each_running(&busy_with("end-in-call"), |meter, metered, heard| {
        let (summed, reported) = counts(&metered, &heard);
        assert_eq!(summed, reported, "{meter}");
        assert_eq!(
            (metered.ended, metered.unfinished),
            (CommandEnd::Exited(5), 1),
            "{meter}"
        );
    });
}

#[test]
fn each_entry_of_a_restarted_call_counts() {
    each_running(&busy_with("restart"), |meter, metered, heard| {
        let reads: Vec<_> = heard
            .calls
            .iter()
            .filter(|call| call.gate == "read" && call.args[2] == 1)
            .map(|call| call.result)
            .collect();
        assert_eq!(
            reads,
            [Some(-512), Some(-512), Some(-512)],
            "{meter}: {:?}",
            metered.totals
        );
    });
}

#[test]
fn processes_that_outlive_the_command_are_waited_for() {
    each_running(&busy_with("daemon"), |meter, metered, heard| {
        assert_eq!(
            (metered.ended, heard.exits.len()),
            (CommandEnd::Exited(0), 3),
            "{meter}"
        );
        assert_eq!(
            heard.calls.iter().filter(|call| is_missing(call)).count(),
            2,
            "{meter}"
        );
    });
}

#[test]
fn the_exit_status_or_signal_of_the_command_is_reported() {
    for (signal, ended) in [
        ("9", CommandEnd::Killed(9)),
        ("15", CommandEnd::Killed(15)),
        ("11", CommandEnd::Killed(11)),
    ] {
        each_running(
            &[busy(), "die".into(), signal.into()],
            |meter, metered, _| {
                assert_eq!(metered.ended, ended, "{meter}");
            },
        );
    }
    each_running(&["sh", "-c", "exit 42"], |meter, metered, _| {
        assert_eq!(metered.ended, CommandEnd::Exited(42), "{meter}");
    });
}

#[test]
fn a_stopped_command_has_not_ended() {
    each_running(&busy_with("stop"), |meter, metered, heard| {
        assert_eq!(metered.ended, CommandEnd::Exited(3), "{meter}");
        assert_eq!(heard.exits.len(), 2, "{meter}");
    });
}

#[test]
fn a_command_that_cannot_be_run_has_the_exit_status_of_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    fs::write(&script, "true\n").unwrap();
    Tool::new("chmod").arg("755").arg(&script).status().unwrap();
    for (word, expected) in [
        ("/no/such/program".into(), 127),
        ("/".into(), 126),
        (script.into_os_string(), 126),
    ] {
        let command = find([word]);
        each(|meter| match run(meter, &command, ALL) {
            (Err(Error::Command(error)), _) => {
                assert!(
                    error.exit_status() == expected
                        && matches!(error, CommandError::NotExecuted { .. }),
                    "{}: {error}",
                    meter.name()
                );
            }
            (other, _) => panic!("{}: {other:?}", meter.name()),
        });
    }
}

#[test]
fn calls_beyond_the_wanted_number_are_in_the_totals() {
    let words = [busy(), "many".into(), "1000".into()];
    let command = find(words);
    each(|meter| {
        let mut all = Vec::new();
        for wanted in [0, 100, ALL] {
            let (metered, heard) = run(meter, &command, wanted);
            let metered = metered.unwrap();
            if wanted != ALL {
                assert_eq!(heard.calls.len() as u64, wanted, "{}", meter.name());
            }
            all.push(counts(&metered, &heard).0);
        }
        assert!(
            all[0]["openat"].1 >= 1000 && all.windows(2).all(|two| two[0] == two[1]),
            "{}: {all:?}",
            meter.name()
        );
    });
}

/// A cheap listener that only counts, so that the test measures the meter.
#[derive(Default)]
struct Counting {
    reported: u64,
    missing: u64,
}

impl Listener for Counting {
    fn call(&mut self, call: &Call<'_>) {
        self.reported += 1;
        self.missing += u64::from(call.name == Some(b"/no/such/file"));
    }
}

/// Runs `count` failing openat(2) calls of one name. A meter that reads its ring too late may lose
/// calls, but must report how many.
fn check_failing_calls(meter: &dyn Meter, count: u64, may_lose: bool) {
    let command = find([busy(), "many".into(), count.to_string().into()]);
    let mut counting = Counting::default();
    let metered = meter.run(&command, ALL, &mut counting).unwrap();
    let openat = syscalls::by_name("openat").unwrap().number;
    let opens = metered.totals.iter().filter(|total| total.number == openat);
    let errors = opens.flat_map(|total| &total.errors);
    let failed: u64 = errors
        .filter(|(errno, _)| *errno == 2)
        .map(|(_, times)| times)
        .sum();
    let calls: u64 = metered.totals.iter().map(|total| total.calls).sum();
    let name = meter.name();
    let context = || format!("{name}: {failed} of {count} failed, {calls} calls, {metered:?}");
    assert!(failed <= count + 100, "{}", context()); // a few are by the C library
    let lost = metered.lost;
    // The meter bpf counts in the kernel, and may lose only individual reports. ptrace loses
    // nothing.
    assert!(failed >= count, "{}", context());
    assert!(counting.reported + lost >= calls, "{}", context());
    assert!(counting.missing + lost >= count, "{}", context());
    assert!(counting.missing <= count, "{}", context());
    assert!(may_lose || lost == 0, "{}", context());
}

/// Number of calls for which the ring buffer has room.
const FIT: u64 = 2_000;

#[test]
fn calls_that_fit_into_the_rings_are_never_lost() {
    each(|meter| check_failing_calls(meter, FIT, false));
}

#[test]
fn no_call_of_half_a_million_is_lost_silently() {
    each(|meter| {
        if meter.name() != "ptrace" {
            check_failing_calls(meter, 500_000, true); // ptrace loses none, and would take seconds
        }
    });
}

/// A listener that sleeps at each call.
#[derive(Default)]
struct SlowListener(u64);

impl Listener for SlowListener {
    fn call(&mut self, _: &Call<'_>) {
        self.0 += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_listener_gets_the_wanted_calls_and_no_more() {
    const WANTED: u64 = 300;
    let command = find([busy(), "many".into(), FIT.to_string().into()]);
    each(|meter| {
        let mut slow = SlowListener::default();
        let metered = meter.run(&command, WANTED, &mut slow).unwrap();
        assert_eq!(
            (slow.0, metered.lost),
            (WANTED, 0),
            "{}: {metered:?}",
            meter.name()
        );
        let calls: u64 = metered.totals.iter().map(|total| total.calls).sum();
        assert!(calls > FIT, "{}: {calls}", meter.name());
    });
}

/// A listener that blocks at the first call until the process has ended.
#[derive(Default)]
struct BlockingListener(u64);

impl Listener for BlockingListener {
    fn call(&mut self, call: &Call<'_>) {
        if self.0 == 0 {
            let stat = format!("/proc/{}/stat", call.pid);
            let is_running = || fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z "));
            while is_running() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.0 += 1;
    }
}

#[test]
fn calls_that_come_faster_than_they_are_read_are_reported_as_lost() {
    const MANY: u64 = 400_000;
    let command = find([busy(), "many".into(), MANY.to_string().into()]);
    each(|meter| {
        if meter.name() == "ptrace" {
            return; // this meter waits for the listener
        }
        let mut dozing = BlockingListener::default();
        let metered = meter.run(&command, ALL, &mut dozing).unwrap();
        let calls: u64 = metered.totals.iter().map(|total| total.calls).sum();
        assert!(
            metered.lost > 0 && !metered.warnings.is_empty(),
            "{}: {metered:?}",
            meter.name()
        );
        assert!(
            dozing.0 + metered.lost >= MANY,
            "{}: {metered:?}",
            meter.name()
        );
        // The meter bpf sums up in the kernel, so its totals are complete.
        assert!(calls >= MANY, "{calls}");
    });
}

#[test]
fn several_meters_at_once_report_their_own_commands() {
    let command = find([busy(), "once".into()]);
    each(|meter| {
        let (name, alone) = (meter.name(), sums(meter, &command));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let meters = all();
                    let same = meters.iter().find(|meter| meter.name() == name).unwrap();
                    (0..8).for_each(|_| assert_eq!(sums(&**same, &command), alone, "{name}"));
                });
            }
        });
    });
}

/// Numbers of reported calls, of calls in the totals, and of lost calls.
fn sums(meter: &dyn Meter, command: &Command) -> (u64, u64, u64) {
    let mut counting = Counting::default();
    let metered = meter.run(command, ALL, &mut counting).unwrap();
    let calls = metered.totals.iter().map(|total| total.calls).sum();
    assert_eq!(
        (counting.reported, metered.unfinished),
        (calls, 0),
        "{}",
        meter.name()
    );
    (counting.reported, calls, metered.lost)
}

/// A 32-bit program that calls `open("/no/such")` and `exit(0)`. With an argument, it executes the
/// argument as a program instead of exiting.
#[cfg(target_arch = "x86_64")]
const PROGRAM_32_BIT: &str = ".globl _start\n_start: mov $5, %eax\nmov $p, %ebx\nxor %ecx, %ecx\nint $0x80\n\
    mov 8(%esp), %ebx\ntest %ebx, %ebx\njz e\nmov $11, %eax\nlea 8(%esp), %ecx\nxor %edx, %edx\nint $0x80\n\
    e: mov $1, %eax\nxor %ebx, %ebx\nint $0x80\np: .asciz \"/no/such\"\n";

#[test]
#[cfg(target_arch = "x86_64")]
fn calls_of_32_bit_programs_are_not_counted_and_a_warning_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("narrow.s"), PROGRAM_32_BIT).unwrap();
    let built = Tool::new("as")
        .arg("--32")
        .arg(at("narrow.s"))
        .arg("-o")
        .arg(at("narrow.o"))
        .status();
    let linked = Tool::new("ld")
        .args(["-m", "elf_i386", "-o"])
        .arg(at("narrow"))
        .arg(at("narrow.o"))
        .status();
    if !built.is_ok_and(|status| status.success()) || !linked.is_ok_and(|status| status.success()) {
        return skip("an assembler for 32-bit programs is needed");
    }
    if !Tool::new(at("narrow"))
        .status()
        .is_ok_and(|status| status.success())
    {
        return skip("this kernel does not run 32-bit programs");
    }
    // A 64-bit program that executes a 32-bit program, and the reverse.
    let words = [busy(), "once".into()];
    let alone = find(words.clone());
    let after = find([at("narrow").into_os_string()].into_iter().chain(words));
    each(|meter| {
        let (metered, heard) = run(meter, &alone, ALL);
        let alone = counts(&metered.unwrap(), &heard).0;
        let (metered, heard) = run(meter, &after, ALL);
        let metered = metered.unwrap();
        // The first execve(2) starts the 32-bit program, the second is called by it.
        assert_eq!(counts(&metered, &heard).0, alone, "{}", meter.name());
        let said = metered.warnings.iter().any(|warning| {
            use WarningKind::{Calls32Bit, OtherArchitecture};
            matches!(warning, Calls32Bit(_) | OtherArchitecture(_))
        });
        assert!(said, "{}: {:?}", meter.name(), metered.warnings);
    });
}

#[test]
fn a_meter_is_chosen_by_name_and_auto_is_the_first_that_works() {
    let command = find(["true"]);
    match crate::run("sundial", &command, 0, &mut ()) {
        Err(Error::Unavailable(Unavailable::UnknownMeter(names))) => {
            assert!(names.contains(&"ptrace"), "{names:?}")
        }
        other => panic!("{other:?}"),
    }
    let first = all()
        .into_iter()
        .find(|meter| meter.check().is_ok())
        .unwrap();
    let metered = crate::run("auto", &command, 0, &mut ()).unwrap();
    assert_eq!(metered.meter, first.name());
    assert!(
        matches!(metered.choice, MeterReason::Cheapest(_)),
        "{}",
        metered.choice
    );
}
