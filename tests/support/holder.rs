//! Processes that hold files or mounts.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that holds files open, or a mount namespace. Dropping this ends it.
pub(crate) struct Holder(Child);

impl Holder {
    /// Starts a `tail` whose standard input is the file.
    pub(crate) fn of(file: &Path) -> Holder {
        let input = fs::File::open(file).unwrap();
        let mut tail = Command::new("tail");
        tail.args(["-f", "/dev/null"])
            .stdin(input)
            .stdout(Stdio::null());
        Holder(tail.spawn().unwrap())
    }

    /// Starts a `tail` that opens the file in its own mount namespace.
    pub(crate) fn elsewhere(file: &Path) -> Holder {
        let mut tail = Command::new("unshare");
        // When `tail` prints the end of the file, it has opened the file.
        Holder::start(tail.args(["--mount", "tail", "-f"]).arg(file))
    }

    /// Runs a script with the path as `$0` in its own mount namespace, in which it then stays.
    pub(crate) fn shell_elsewhere(script: &str, path: &Path) -> Holder {
        let script = format!("{script} && echo && exec sleep 1000");
        let mut shell = Command::new("unshare");
        Holder::start(shell.args(["--mount", "sh", "-c", &script]).arg(path))
    }

    /// Starts a process, and waits until it prints something.
    fn start(command: &mut Command) -> Holder {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        process
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut [0])
            .unwrap();
        Holder(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
