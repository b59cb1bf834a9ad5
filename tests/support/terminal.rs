//! Runs a command with stdout and stderr on one terminal or pipe.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;

use super::wait::LIMIT;

/// The output of a command on a terminal with this many columns, and its exit status. Its standard
/// input is empty.
pub(crate) fn at_terminal(command: &mut Command, columns: u16) -> (String, ExitStatus) {
    let (from, to) = terminal(columns);
    let (text, status) = printed(command, from, to);
    // Erase progress messages as the terminal does.
    let text = text.replace("\r\n", "\n");
    let last = |line: &str| {
        line.rsplit('\r')
            .next()
            .and_then(|line| line.rsplit("\x1b[2K").next())
            .map(str::to_owned)
    };
    (
        text.split_inclusive('\n').filter_map(last).collect(),
        status,
    )
}

/// The output of a command into a pipe, standard output and standard error together, and its exit
/// status.
pub(crate) fn into_pipe(command: &mut Command) -> (String, ExitStatus) {
    let (from, to) = std::io::pipe().unwrap();
    printed(command, OwnedFd::from(from).into(), to.into())
}

fn printed(command: &mut Command, mut from: File, to: OwnedFd) -> (String, ExitStatus) {
    let shown = format!("{command:?}");
    command
        .stdin(Stdio::null())
        .stdout(to.try_clone().unwrap())
        .stderr(to);
    let mut child = command.spawn().unwrap();
    // Closes our copies of its output, so that the reader gets the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        // Reading a terminal fails with EIO when no process has it open for writing.
        let _ = from.read_to_end(&mut all);
        let _ = sender.send(all);
    });
    let Ok(all) = receiver.recv_timeout(LIMIT) else {
        let _ = child.kill();
        panic!("{shown} has not ended after {LIMIT:?}");
    };
    (
        String::from_utf8_lossy(&all).into_owned(),
        child.wait().unwrap(),
    )
}

/// A new terminal: our end, and the one for a command. Both are close-on-exec, because other tests
/// start processes at the same time.
fn terminal(columns: u16) -> (File, OwnedFd) {
    const TIOCGPTPEER: libc::Ioctl = 0x5441;
    let ours = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open("/dev/ptmx")
        .unwrap();
    let size = libc::winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let locked: libc::c_int = 0;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: both requests read a structure of their type.
    let (sized, unlocked) = unsafe {
        (
            libc::ioctl(ours.as_raw_fd(), libc::TIOCSWINSZ, &raw const size),
            libc::ioctl(ours.as_raw_fd(), libc::TIOCSPTLCK, &raw const locked),
        )
    };
    assert_eq!(
        (sized, unlocked),
        (0, 0),
        "{}",
        std::io::Error::last_os_error()
    );
    // SAFETY: the request takes flags, no pointer.
    let theirs = unsafe { libc::ioctl(ours.as_raw_fd(), TIOCGPTPEER, flags) };
    assert!(theirs >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: it was just opened, and has no other owner.
    (ours, unsafe { OwnedFd::from_raw_fd(theirs) })
}
