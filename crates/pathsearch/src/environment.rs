//! The environment variables that affect the searches of a process.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use gate::file::read_kernel;
use gate::fs::{CWD, readlinkat};

use crate::family::Family;
use crate::kind::Kind;

/// The variables that are lists of directories, with the kind of files in these directories.
pub(crate) const LISTS: [(&str, Kind); 5] = [
    ("LD_LIBRARY_PATH", Kind::Linker),
    ("PYTHONPATH", Kind::Python),
    ("PERL5LIB", Kind::Perl),
    ("RUBYLIB", Kind::Ruby),
    ("NODE_PATH", Kind::Node),
];

/// The part of a process's environment that affects its searches.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Environment {
    /// The value of PATH.
    pub path: Option<Vec<u8>>,
    /// The values of LD_LIBRARY_PATH, PYTHONPATH, PERL5LIB, RUBYLIB and NODE_PATH.
    pub lists: [Option<Vec<u8>>; LISTS.len()],
    /// The directory for caches: XDG_CACHE_HOME, or .cache in HOME.
    pub cache: Option<Vec<u8>>,
    /// Python must not write bytecode: PYTHONDONTWRITEBYTECODE, or `-B`.
    pub is_python_read_only: bool,
    /// Python ignores its variables: `-E` or `-I`.
    pub is_python_isolated: bool,
}

impl Environment {
    /// The environment from a function that returns the values of variables.
    pub fn new(variable: impl Fn(&str) -> Option<Vec<u8>>) -> Environment {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let home = || Some([&set("HOME")?[..], b"/.cache"].concat());
        Environment {
            path: variable("PATH"),
            lists: LISTS.map(|(name, _)| set(name)),
            cache: set("XDG_CACHE_HOME").or_else(home),
            is_python_read_only: set("PYTHONDONTWRITEBYTECODE").is_some(),
            is_python_isolated: false,
        }
    }

    /// The environment of this process.
    pub fn of_this_process() -> Environment {
        Environment::new(|name| std::env::var_os(name).map(OsString::into_vec))
    }

    /// The environment of a process that executes `program`; `None` if it cannot be read, or if the
    /// process executes a different program by now.
    pub(crate) fn of_process(pid: u32, program: &[u8]) -> Option<Environment> {
        let file = |name: &str| CString::new(format!("/proc/{pid}/{name}")).ok();
        if readlinkat(CWD, &file("exe")?).ok()? != program {
            return None;
        }
        let text = read_kernel(&file("environ")?).ok()?;
        let variable = |name: &str| {
            let mut all = text.split_inclusive(|&b| b == 0);
            all.find_map(|entry| {
                let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some(value.strip_suffix(b"\0")?.to_vec())
            })
        };
        let mut environment = Environment::new(variable);
        if Family::from_program(program) == Family::Python {
            let flags = python_flags(&read_kernel(&file("cmdline")?).ok()?);
            environment.is_python_read_only |= flags.contains(&b'B');
            environment.is_python_isolated = flags.iter().any(|flag| b"EI".contains(flag));
        }
        Some(environment)
    }
}

/// The one-letter options of Python in a command line (arguments separated by NUL).
fn python_flags(command_line: &[u8]) -> Vec<u8> {
    let mut flags = Vec::new();
    let mut words = command_line.split(|&b| b == 0).skip(1);
    while let Some([b'-', letters @ ..]) = words.next() {
        // `-c` and `-m` end the options; `-W` and `-X` take the rest of the word or the next word.
        let end = letters.iter().position(|letter| b"cmWX-".contains(letter));
        flags.extend(&letters[..end.unwrap_or(letters.len())]);
        match end.map(|at| &letters[at..]) {
            Some([b'W' | b'X']) => drop(words.next()),
            Some([b'c' | b'm', ..]) => break,
            _ if letters.is_empty() => break,
            _ => {}
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_python_end_before_the_script() {
        for (line, flags) in [
            ("python3\0-B\0-Es\0x.py\0-I\0", "BEs"),
            ("python3\0-W\0error\0-X\0dev\0-I\0-c\0-B\0", "I"),
            ("python3\0-Bcpass\0-E\0", "B"),
            ("python3\0-Werror\0--check-hash-based-pycs\0-B\0", "B"),
            ("python3\0-\0-B\0", ""),
            ("", ""),
        ] {
            let found = python_flags(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), flags, "{line:?}");
        }
    }

    #[test]
    fn the_environment_of_this_process_is_that_of_its_file_in_proc() {
        let pid = std::process::id();
        let exe = readlinkat(CWD, c"/proc/self/exe").unwrap();
        let path = std::env::var_os("PATH").map(std::ffi::OsString::into_encoded_bytes);
        assert_eq!(Environment::of_process(pid, &exe).unwrap().path, path);
        assert_eq!(Environment::of_process(pid, b"/bin/other"), None);
    }
}
