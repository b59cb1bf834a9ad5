//! Tests that waits are told apart by the kind of the descriptor.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use serde_json::Value;

use crate::account::attach::report;
use crate::account::counts::METERS;
use crate::account::meter::wait_until_read;
use crate::support::wait::{blocked_in, children, wait_until};
use crate::support::{Need, fathom, require};

/// Calls and seconds by the kind of object that they waited for.
fn waits(value: &Value) -> BTreeMap<&str, (u64, f64)> {
    let rows = value["waits"].as_array().unwrap().iter();
    rows.map(|row| {
        let (calls, seconds) = (row["calls"].as_u64(), row["seconds"].as_f64());
        (
            row["on"].as_str().unwrap(),
            (calls.unwrap(), seconds.unwrap()),
        )
    })
    .collect()
}

/// Seconds in calls on files, summed in three ways.
fn file_seconds(value: &Value) -> [f64; 3] {
    let sum = |rows: &Value| {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["seconds"].as_f64().unwrap())
            .sum::<f64>()
    };
    let gates = value["gates"].as_object().unwrap().values();
    let gates = gates.map(|gate| gate["seconds"].as_f64().unwrap()).sum();
    [gates, sum(&value["programs"]), sum(&value["per_directory"])]
}

/// Checks that the seconds in calls on files, for a process with one thread, exclude the time for
/// which the test held the process in other calls.
fn leave_room(seconds: &[f64], value: &Value, held: Duration) {
    // Under ptrace, times are estimated as calls × price.
    if value["model"]["times"] == "measured" {
        let rest = value["real"].as_f64().unwrap() - held.as_secs_f64();
        for seconds in seconds {
            assert!(*seconds <= rest, "{seconds} of {rest} s: {value}");
        }
    }
}

fn is_read_of_stdin(call: libc::c_long, fd: u64) -> bool {
    (call, fd) == (libc::SYS_read, 0)
}

fn fifo_at(dir: &Path) -> PathBuf {
    let fifo = dir.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fifo
}

/// A metered command that waits for the test. Its standard input is a pipe.
struct Held {
    meter: &'static str,
    fathom: Child,
    dir: tempfile::TempDir,
    started: Instant,
    /// The total time for which the command was held in calls.
    held: Duration,
}

impl Held {
    fn start<W: AsRef<std::ffi::OsStr>>(
        meter: &'static str,
        options: &[&str],
        words: impl IntoIterator<Item = W>,
    ) -> Held {
        let dir = tempfile::tempdir().unwrap();
        let mut command = fathom(["account", "--json", "--meter", meter, "-o"]);
        command.arg(dir.path().join("report")).args(options);
        command.arg("--").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Held {
            meter,
            fathom: command.spawn().unwrap(),
            dir,
            started: Instant::now(),
            held: Duration::ZERO,
        }
    }

    /// Waits until the command sleeps in a system call with this number and first argument, and the
    /// meter has read the records of the calls before. Then holds the command there for as long as
    /// it has run so far, or for a second.
    fn hold(&mut self, is_it: impl Fn(libc::c_long, u64) -> bool) {
        let pid = self.fathom.id();
        let is_held = |child| blocked_in(child).is_some_and(|(call, first)| is_it(call, first));
        wait_until("the command waits", || {
            children(pid).into_iter().any(is_held)
        });
        let begin = Instant::now();
        wait_until_read(self.meter, pid);
        let others = self.started.elapsed() - self.held;
        std::thread::sleep(others.clamp(Duration::from_millis(20), Duration::from_secs(1)));
        self.held += begin.elapsed();
    }

    /// Writes to the standard input of the command.
    fn write(&self, text: &[u8]) {
        self.fathom.stdin.as_ref().unwrap().write_all(text).unwrap();
    }

    /// Closes the standard input of the command. Returns its account, and for how long it was held.
    fn end(mut self) -> (Value, Duration) {
        drop(self.fathom.stdin.take());
        assert_eq!(self.fathom.wait().unwrap().code(), Some(0));
        (report(&self.dir.path().join("report")), self.held)
    }
}

/// If a test fails, no waiting process may be left behind.
impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(None) = self.fathom.try_wait() {
            children(self.fathom.id()).into_iter().for_each(|child| {
                let child = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
                let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
            });
            let _ = self.fathom.kill();
            let _ = self.fathom.wait();
        }
    }
}

#[test]
fn time_on_a_pipe_is_in_no_row_of_files() {
    for meter in METERS {
        for options in [&[][..], &["--calls", "0"]] {
            let mut cat = Held::start(meter, options, ["cat"]);
            cat.hold(is_read_of_stdin);
            let (value, held) = cat.end();
            let waited = waits(&value);
            let (calls, seconds) = waited["pipe"];
            assert!(
                calls > 0 && seconds >= held.as_secs_f64(),
                "{meter} {options:?}: {waited:?}, held for {held:?}"
            );
            leave_room(&file_seconds(&value), &value, held);
        }
    }
}

#[test]
fn sockets_timers_events_and_locks_are_told_apart() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
import os, socket, sys, fcntl, ctypes
a, b = socket.socketpair()
r, w = os.pipe()
c = ctypes.CDLL(None)
event, timer, watch = c.eventfd(0, 0), c.timerfd_create(1, 0), c.inotify_init()
c.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 10000000), None)
os.read(timer, 8)
c.inotify_add_watch(watch, sys.argv[1].encode(), 0x100)
os.write(event, (1).to_bytes(8, "little"))
os.read(event, 8)
file = open(sys.argv[2], "w")
fcntl.flock(file, fcntl.LOCK_EX)
os.read(watch, 4096)
os.write(b.fileno(), b"x" * 7)
os.read(a.fileno(), 9)
os.write(w, b"x")
os.read(r, 9)
fcntl.lockf(file, fcntl.LOCK_EX)
os.read(0, 1)  # descriptors are looked at while the process lives
"#;
    for meter in METERS {
        let lock = dir.path().join(meter); // its creation is what inotify reports
        let words = [
            "python3",
            "-c",
            text,
            &dir.path().display().to_string(),
            &lock.display().to_string(),
        ];
        let mut python = Held::start(meter, &[], words);
        python.hold(is_read_of_stdin);
        let (value, _) = python.end();
        let found = waits(&value);
        for (on, calls) in [
            ("socket", 2),
            ("pipe", 2),
            ("timer", 1),
            ("eventfd", 2),
            ("inotify", 1),
            ("lock", 2),
        ] {
            assert!(
                found.get(on).is_some_and(|it| it.0 >= calls),
                "{meter}: no {on}: {found:?}"
            );
        }
    }
}

#[test]
fn waiting_for_a_lock_is_a_line_of_its_own() {
    if !require(&[Need::Program("flock")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().canonicalize().unwrap().join("lock");
    let file = std::fs::File::create(&lock).unwrap();
    for meter in METERS {
        flock(&file, FlockOperation::LockExclusive).unwrap();
        let mut waiting = Held::start(meter, &[], ["flock", lock.to_str().unwrap(), "true"]);
        waiting.hold(|call, _| call == libc::SYS_flock);
        flock(&file, FlockOperation::Unlock).unwrap();
        let (value, held) = waiting.end();
        let (calls, seconds) = waits(&value)["lock"];
        assert!(
            calls == 1 && seconds >= held.as_secs_f64(),
            "{meter}: held for {held:?}: {value}"
        );
        let row = crate::account::command::row(&value["per_file"], &lock).unwrap();
        leave_room(&[row["seconds"].as_f64().unwrap()], &value, held);
    }
}

/// A call with two descriptors waits for the descriptor that is no file.
#[test]
fn copies_into_a_pipe_wait_for_it() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    // The main thread fills the pipe, until the other thread has read from standard input. At the
    // end it waits, so that the meter can look up the descriptors in /proc.
    let text = r#"
import os, sys, threading
r, w = os.pipe()
file = os.open(sys.argv[1], os.O_RDONLY)
left = size = os.fstat(file).st_size
def read():
    global left
    os.read(0, 1)
    while left > 0: left -= len(os.read(r, 1 << 16))
threading.Thread(target=read).start()
copy = {
    "sendfile": lambda: os.sendfile(w, file, None, size),
    "splice": lambda: os.splice(file, w, size),
}[sys.argv[2]]
while size > 0: size -= copy()
os.read(0, 1)
"#;
    let calls = [
        ("sendfile", libc::SYS_sendfile),
        ("splice", libc::SYS_splice),
    ];
    for meter in METERS {
        for (name, number) in calls {
            for options in [&[][..], &["--calls", "0"]] {
                let words = ["python3", "-c", text, file.to_str().unwrap(), name];
                let mut python = Held::start(meter, options, words);
                python.hold(|call, _| call == number);
                python.write(b"x");
                python.hold(is_read_of_stdin);
                let (value, held) = python.end();
                let (_, seconds) = waits(&value)["pipe"];
                assert!(
                    seconds >= held.as_secs_f64(),
                    "{meter} {name} {options:?}: held for {held:?}: {value}"
                );
                let copied = value["gates"][name]["seconds"].as_f64().unwrap();
                assert!(
                    copied < held.as_secs_f64(),
                    "{meter} {name} {options:?}: {value}"
                );
            }
        }
    }
}

/// Beyond the limit of examined calls, the meter examines only calls that wait.
#[test]
fn waits_beyond_the_limit_of_calls_are_told_apart() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    const STEP: f64 = 0.02;
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo_at(dir.path());
    // The descriptors are opened beyond the limit, too, and are closed at once. A thread waits until the
    // main thread sleeps in a call, and some time more, before it ends the call.
    let text = r#"
import os, socket, sys, time, threading, ctypes
fifo, calls, step = sys.argv[1], sys.argv[2].split(","), float(sys.argv[3])
for n in range(3000): os.stat("/")
main = os.getpid()
def is_blocked():
    call = open(f"/proc/{main}/syscall").read().split()[0]
    return call in calls and open(f"/proc/{main}/stat").read().rsplit(") ")[1][0] == "S"
def once_blocked(end, *args):
    def wait():
        while not is_blocked(): time.sleep(0.001)
        time.sleep(step)
        end(*args)
    threading.Thread(target=wait).start()
r, w = os.pipe()
once_blocked(os.write, w, b"x"); os.read(r, 9); os.close(r)
a, b = socket.socketpair()
a, b = a.detach(), b.detach()
once_blocked(os.write, b, b"x"); os.read(a, 9); os.close(a)
once_blocked(os.open, fifo, os.O_WRONLY); f = os.open(fifo, os.O_RDONLY)
c = ctypes.CDLL(None)
timer = c.timerfd_create(1, 0)
once_blocked(c.timerfd_settime, timer, 0, (ctypes.c_long * 4)(0, 0, 0, 1), None)
os.read(timer, 8)
os.read(0, 1)
os.execvp("cat", ["cat"])
"#;
    let blocking = format!("{},{}", libc::SYS_read, libc::SYS_openat);
    for meter in METERS {
        for calls in ["100", "0"] {
            let fifo = fifo.to_str().unwrap();
            let step = STEP.to_string();
            let words = ["python3", "-c", text, fifo, &blocking, &step];
            let mut python = Held::start(meter, &["--calls", calls], words);
            python.hold(is_read_of_stdin);
            python.write(b"x");
            python.hold(is_read_of_stdin);
            let (value, held) = python.end();
            let held = held.as_secs_f64();
            let found = waits(&value);
            for (on, minimum) in [
                ("pipe", held + 2.0 * STEP),
                ("socket", STEP),
                ("timer", STEP),
            ] {
                assert!(
                    found.get(on).is_some_and(|it| it.1 >= minimum),
                    "{meter}, {calls}: {on} {minimum}: {found:?}"
                );
            }
            let [gates, programs, _] = file_seconds(&value);
            assert!((programs - gates).abs() < 1e-6, "{meter}, {calls}: {value}");
            assert!(value["detail"]["calls"].as_u64().unwrap() <= 100);
        }
    }
}

/// A FIFO, and a pipe opened by the name of its descriptor, count as pipes whatever their names.
#[test]
fn pipes_that_are_opened_by_name_are_pipes() {
    if !require(&[Need::Program("bash")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fifo = fifo_at(dir.path());
    let fifo = fifo.to_str().unwrap();
    let open = || OpenOptions::new().write(true).open(fifo).unwrap();
    let is_read = |call, _| call == libc::SYS_read;
    let are_pipes = |meter, value: &Value, held: Duration| {
        let (_, seconds) = waits(value)["pipe"];
        assert!(
            seconds >= held.as_secs_f64(),
            "{meter}: held for {held:?}: {value}"
        );
    };
    for meter in METERS {
        let mut by_name = Held::start(meter, &[], ["cat", fifo]);
        by_name.hold(|call, _| call == libc::SYS_openat);
        let writer = open();
        by_name.hold(is_read);
        drop(writer);
        let (value, held) = by_name.end();
        are_pipes(meter, &value, held);
        assert_eq!(value["waits"][0]["gates"]["openat"], 1, "{meter}: {value}");
        assert_eq!(value["waits"][0]["gates"]["read"], 1, "{meter}: {value}");
        leave_room(&file_seconds(&value), &value, held);

        let mut by_number = Held::start(meter, &[], ["cat", "/dev/stdin"]);
        by_number.hold(is_read);
        let (value, held) = by_number.end();
        are_pipes(meter, &value, held);
        leave_room(&file_seconds(&value), &value, held);

        let words = ["bash", "-c", "exec cat <(cat \"$0\")", fifo];
        let mut substituted = Held::start(meter, &[], words);
        substituted.hold(is_read);
        drop(open());
        let (value, held) = substituted.end();
        are_pipes(meter, &value, held);
    }
}
