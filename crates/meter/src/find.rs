//! The program that a command names, as execvp(3) and strace find it: before anything is started,
//! so that the search is not counted as the command's.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use gate::Errno;
use gate::fs::{At, CWD, FileType, Want, statx};

use crate::call::{Command, Failure};

/// Where execvp(3) looks when nobody says where.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Exit statuses of a command that there is not, and of one that cannot be run; as of env(1),
/// nohup(1) and shells.
const NOT_FOUND: i32 = 127;
const NOT_RUN: i32 = 126;

impl Command {
    /// The command of these words. A name without a slash is looked for in the directories of
    /// `PATH`.
    ///
    /// # Errors
    /// That there is none, with the exit status for it.
    pub fn find(words: &[OsString]) -> Result<Command, Failure> {
        let args: Result<Vec<CString>, _> = words
            .iter()
            .map(|word| CString::new(word.as_bytes()))
            .collect();
        let no_command = || Failure::Command("there is no command to run".to_owned(), NOT_FOUND);
        let args = args.map_err(|_| no_command())?;
        let name = args
            .first()
            .filter(|name| !name.is_empty())
            .ok_or_else(no_command)?;
        if name.as_bytes().contains(&b'/') {
            return Ok(Command {
                program: name.clone(),
                args,
            });
        }
        let path = std::env::var_os("PATH")
            .map_or_else(|| DEFAULT_PATH.to_vec(), |path| path.as_bytes().to_vec());
        let mut refused = None;
        for dir in path.split(|byte| *byte == b':') {
            let dir = if dir.is_empty() { b"." } else { dir };
            let Ok(program) = CString::new([dir, b"/", name.as_bytes()].concat()) else {
                continue;
            };
            match statx(CWD, &program, At::empty(), Want::TYPE | Want::MODE) {
                Ok(file) if file.file_type == FileType::Regular && file.mode & 0o111 != 0 => {
                    return Ok(Command { program, args });
                }
                Ok(file) if file.file_type == FileType::Regular => refused = Some(program),
                _ => {}
            }
        }
        Err(match refused {
            Some(program) => not_run(&program, Errno::EACCES),
            None => Failure::Command(
                format!(
                    "cannot find the command '{}' in any directory of PATH; give its path",
                    shown(name.as_bytes())
                ),
                NOT_FOUND,
            ),
        })
    }
}

/// The kernel has refused to run a program.
pub(crate) fn not_run(program: &CString, errno: Errno) -> Failure {
    let (status, next) = match errno {
        Errno::ENOENT | Errno::ENOTDIR => (
            NOT_FOUND,
            "look at its path, and at what interpreter it names",
        ),
        Errno::EACCES => (
            NOT_RUN,
            "it must be a file that you may execute, on a file system mounted without noexec",
        ),
        Errno::ENOEXEC => (NOT_RUN, "begin a script with #! and its interpreter"),
        _ => (
            NOT_RUN,
            "run it without fathom to see whether it can be run at all",
        ),
    };
    Failure::Command(
        format!(
            "cannot run '{}': {errno}; {next}",
            shown(program.as_bytes())
        ),
        status,
    )
}

/// A name for a message.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(word: &str) -> Result<Command, Failure> {
        Command::find(&[OsString::from(word), OsString::from("x")])
    }

    #[test]
    fn a_name_is_looked_for_and_a_path_is_not() {
        let found = find("sh").unwrap();
        assert!(
            found.program.as_bytes().ends_with(b"/sh")
                && found.program.as_bytes().starts_with(b"/")
        );
        assert_eq!(found.args, [c"sh".to_owned(), c"x".to_owned()]);
        assert_eq!(find("/no/such").unwrap().program, c"/no/such".to_owned());
        assert_eq!(find("./sh").unwrap().program, c"./sh".to_owned());
        for missing in ["no-such-command-as-this", ""] {
            assert!(
                matches!(find(missing), Err(Failure::Command(_, 127))),
                "{missing}"
            );
        }
        assert!(matches!(Command::find(&[]), Err(Failure::Command(_, 127))));
    }

    #[test]
    fn what_the_kernel_says_makes_the_exit_status() {
        let status = |errno| match not_run(&c"/x\n".to_owned(), errno) {
            Failure::Command(line, status) if line.starts_with("cannot run '/x\\n': ") => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [Errno::ENOENT, Errno::ENOTDIR, Errno::EACCES, Errno::ENOEXEC].map(status),
            [127, 127, 126, 126]
        );
    }
}
