//! Finds the executable of a command, as execvp(3) and strace do. The search runs before the
//! command starts, so that its calls are not counted as the command's.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;

use gate::Errno;
use gate::fs::{AtFlags, CWD, FileType, StatxMask, statx};
use gate::lookup::{Permission, check_permission};

use crate::call::Command;
use crate::error::{CommandError, Error};

/// The directories that execvp(3) searches if `PATH` is unset.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

impl Command {
    /// Makes a command of these words: the program and its arguments. A program name without a
    /// slash is searched for along `PATH`.
    ///
    /// # Errors
    /// If no such executable exists.
    pub fn find(words: &[OsString]) -> Result<Command, Error> {
        let args = words.iter().map(|word| CString::new(word.as_bytes()));
        let args: Result<Vec<CString>, _> = args.collect();
        let args = args.map_err(|_| CommandError::Empty)?;
        let Some(name) = args.first().filter(|name| !name.is_empty()).cloned() else {
            return Err(CommandError::Empty.into());
        };
        if name.as_bytes().contains(&b'/') {
            return Ok(Command {
                program: name,
                args,
            });
        }
        let path = std::env::var_os("PATH");
        let path = path.as_ref().map_or(DEFAULT_PATH, |path| path.as_bytes());
        let mut refused = None;
        for dir in path.split(|byte| *byte == b':') {
            let dir = if dir.is_empty() { b"." } else { dir };
            let Ok(program) = CString::new([dir, b"/", name.as_bytes()].concat()) else {
                continue;
            };
            match statx(CWD, &program, AtFlags::empty(), StatxMask::TYPE) {
                Ok(file) if file.file_type != FileType::Regular => {}
                Ok(_) if check_permission(program.as_bytes(), Permission::Execute).is_err() => {
                    refused = Some(program);
                }
                Ok(_) => return Ok(Command { program, args }),
                Err(_) => {}
            }
        }
        let error = match refused {
            Some(program) => CommandError::NotExecuted(program, Errno::EACCES),
            None => CommandError::NotFound(name.into_bytes()),
        };
        Err(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(word: &str) -> Result<Command, Error> {
        Command::find(&[OsString::from(word), OsString::from("x")])
    }

    #[test]
    fn a_name_is_searched_for_along_path_and_a_path_is_not() {
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
                matches!(find(missing), Err(Error::Command(e)) if e.exit_status() == 127),
                "{missing}"
            );
        }
        assert_eq!(
            Command::find(&[]).unwrap_err(),
            Error::Command(CommandError::Empty)
        );
    }
}
