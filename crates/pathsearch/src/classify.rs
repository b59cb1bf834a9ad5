//! The kind of a lookup, from the program, the name, and the directory. docs/pathsearch.md lists
//! the rules in the same order.

use std::collections::{HashMap, HashSet};

use base::path::{ancestors, names};

use crate::environment::Environment;
use crate::family::{Family, lists};
use crate::kind::Kind;
use crate::lookup::{DEFAULT_PATH, LookupPurpose, absolute_dirs, join, normalize};

/// The maximum number of directories of PATH and PYTHONPATH that are remembered.
const MOST_DIRECTORIES: usize = 1000;

/// State of a process that looks names up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Searcher {
    pub(crate) family: Family,
    /// The process has done nothing yet except load its shared libraries.
    starting: bool,
    /// The directory of the last lookup, if that was a failed lookup of a shared library.
    missed: Vec<u8>,
}

impl Searcher {
    /// The state of a forked child, which executes the same program.
    pub(crate) fn forked(parent: &Searcher) -> Searcher {
        Searcher {
            family: parent.family,
            ..Searcher::default()
        }
    }

    /// The state of a process that begins to execute a program.
    pub(crate) fn starting(program: &[u8]) -> Searcher {
        Searcher {
            family: Family::from_program(program),
            starting: true,
            missed: Vec::new(),
        }
    }
}

/// A lookup of an absolute name.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) op: LookupPurpose,
    pub(crate) dir: &'a [u8],
    /// The last component of the looked-up path.
    pub(crate) name: &'a [u8],
    /// Whether the lookup did not end in ENOENT or ENOTDIR.
    pub(crate) is_hit: bool,
    /// The number of times that a search along PATH tries this directory.
    pub(crate) times: u64,
}

/// The search paths in the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchPaths {
    /// The directories of PATH, and how many times each occurs.
    path: HashMap<Vec<u8>, u64>,
    /// How many times the working directory occurs in PATH.
    working_directory: u64,
    python: HashSet<Vec<u8>>,
    /// The working directory of the command, to which relative elements of PYTHONPATH belong.
    cwd: Option<Vec<u8>>,
}

impl SearchPaths {
    /// Parses the values of PATH and PYTHONPATH. `cwd` is the working directory of the command.
    pub(crate) fn new(
        path: Option<&[u8]>,
        pythonpath: Option<&[u8]>,
        cwd: Option<&[u8]>,
    ) -> SearchPaths {
        let list = path.unwrap_or(DEFAULT_PATH);
        let relative = list.split(|&b| b == b':');
        let python = pythonpath.unwrap_or_default().split(|&b| b == b':');
        // All data files below the working directory would count as modules of an empty element.
        let python = python.filter(|dir| !matches!(*dir, b"" | b"."));
        let python = python.filter_map(|dir| match (dir, cwd) {
            ([b'/', ..], _) => Some(normalize(dir)),
            (_, cwd) => Some(normalize(&join(cwd?, dir))),
        });
        let mut paths = SearchPaths {
            path: HashMap::new(),
            working_directory: relative.filter(|dir| matches!(*dir, b"" | b".")).count() as u64,
            python: python.collect(),
            cwd: cwd.map(<[u8]>::to_vec),
        };
        for dir in absolute_dirs(list) {
            *paths.path.entry(dir).or_default() += 1;
        }
        paths
    }

    /// Adds the directories of a process with a different environment.
    pub(crate) fn add(&mut self, environment: &Environment) {
        let [_, python, ..] = &environment.lists;
        let path = environment.path.as_deref();
        let other = SearchPaths::new(path, python.as_deref(), self.cwd.as_deref());
        for (dir, times) in other.path {
            self.add_to_path(&dir, times);
        }
        self.working_directory = self.working_directory.max(other.working_directory);
        let room = MOST_DIRECTORIES.saturating_sub(self.python.len());
        self.python.extend(other.python.into_iter().take(room));
    }

    /// Adds a directory to PATH, because the command has set a PATH of its own.
    fn add_to_path(&mut self, dir: &[u8], times: u64) {
        if !self.in_path(dir) && self.path.len() < MOST_DIRECTORIES {
            self.path.insert(dir.to_vec(), times);
        }
    }

    pub(crate) fn in_path(&self, dir: &[u8]) -> bool {
        self.path.contains_key(dir)
    }

    /// The number of times that a search along PATH tries a directory. A directory outside of PATH
    /// is assumed to be the working directory.
    pub(crate) fn times(&self, dir: &[u8]) -> u64 {
        let times = self.path.get(dir).copied();
        times.unwrap_or(self.working_directory.max(1))
    }

    /// The kind of a lookup. Updates the state of the searching process and of PATH.
    pub(crate) fn classify(&mut self, searcher: &mut Searcher, lookup: &Lookup<'_>) -> Kind {
        let kind = self.kind_of(searcher, lookup);
        if kind == Kind::Linker {
            if !lookup.is_hit {
                searcher.missed.clear();
                searcher.missed.extend_from_slice(lookup.dir);
            }
        } else {
            searcher.starting = false;
            searcher.missed.clear();
        }
        if kind == Kind::Path && lookup.op == LookupPurpose::Exec {
            self.add_to_path(lookup.dir, 1);
        }
        kind
    }

    fn kind_of(&self, searcher: &Searcher, lookup: &Lookup<'_>) -> Kind {
        let in_path = self.in_path(lookup.dir);
        if lookup.op == LookupPurpose::Exec {
            return match searcher.family {
                _ if in_path || !lookup.is_hit => Kind::Path,
                Family::Gcc => Kind::Gcc,
                _ => Kind::Other,
            };
        }
        if is_linker_lookup(searcher, lookup) {
            return Kind::Linker;
        }
        if is_terminfo_lookup(lookup) {
            return Kind::Terminfo;
        }
        if is_locale_lookup(lookup) {
            return Kind::Locale;
        }
        let by_program = match searcher.family {
            Family::Python => (is_python_lookup(lookup, in_path) || self.in_pythonpath(lookup))
                .then_some(Kind::Python),
            Family::Perl => is_perl_lookup(lookup).then_some(Kind::Perl),
            Family::Ruby => is_ruby_lookup(lookup).then_some(Kind::Ruby),
            Family::Node => is_node_lookup(lookup).then_some(Kind::Node),
            Family::Gcc => (!in_path && is_gcc_lookup(lookup)).then_some(Kind::Gcc),
            Family::Shell | Family::Plain => None,
        };
        match by_program {
            Some(kind) => kind,
            None if in_path && matches!(lookup.op, LookupPurpose::Stat | LookupPurpose::Access) => {
                Kind::Path
            }
            None => Kind::Other,
        }
    }

    fn in_pythonpath(&self, lookup: &Lookup<'_>) -> bool {
        let path = base::path::join(lookup.dir, lookup.name);
        // The root directory in PYTHONPATH does not stand for all files.
        let mut dirs = ancestors(&path).filter(|dir| dir.len() > 1 || *dir == path);
        dirs.any(|dir| self.python.contains(dir))
    }
}

fn has_component(dir: &[u8], any: &str) -> bool {
    names(dir).any(|part| lists(any, part))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn ends_with_any(name: &[u8], any: &str) -> bool {
    any.split(' ').any(|end| name.ends_with(end.as_bytes()))
}

/// Whether a name is that of a shared library: `libc.so`, `libc.so.6`.
fn is_library(name: &[u8]) -> bool {
    let versioned = |rest: &[u8]| {
        rest.first() == Some(&b'.') && rest.iter().all(|b| b.is_ascii_digit() || *b == b'.')
    };
    (0..name.len()).any(|at| {
        name[at..]
            .strip_prefix(b".so")
            .is_some_and(|rest| rest.is_empty() || versioned(rest))
    })
}

/// Whether a name has the tag of a Python extension module.
fn is_extension(name: &[u8]) -> bool {
    contains(name, b".cpython-") || contains(name, b".pypy") || name.ends_with(b".abi3.so")
}

fn is_linker_lookup(searcher: &Searcher, lookup: &Lookup<'_>) -> bool {
    let is_cache = lists("ld.so.cache ld.so.preload ld.so.nohwcap", lookup.name);
    if is_cache || lookup.name.starts_with(b"ld-musl-") {
        return lookup.dir == b"/etc";
    }
    if lookup.name == b"glibc-hwcaps" || has_component(lookup.dir, "glibc-hwcaps") {
        return true;
    }
    // After its first failed lookup in a directory, ld.so checks whether the directory exists.
    if lookup.op == LookupPurpose::Stat
        && !searcher.missed.is_empty()
        && base::path::join(lookup.dir, lookup.name) == searcher.missed
    {
        return true;
    }
    lookup.op == LookupPurpose::Open
        && is_library(lookup.name)
        && (searcher.starting
            || match searcher.family {
                Family::Gcc => false,
                Family::Python => {
                    !is_extension(lookup.name) && !has_component(lookup.dir, "lib-dynload")
                }
                Family::Perl => !has_component(lookup.dir, "auto"),
                Family::Ruby => lookup.name.starts_with(b"lib") || !contains(lookup.dir, b"ruby"),
                Family::Shell | Family::Node | Family::Plain => true,
            })
}

fn is_terminfo_lookup(lookup: &Lookup<'_>) -> bool {
    const WORDS: &str = "terminfo .terminfo termcap .termcap";
    has_component(lookup.dir, WORDS)
        || lists(WORDS, lookup.name)
        || lookup.name.starts_with(b"terminfo.")
}

fn is_locale_lookup(lookup: &Lookup<'_>) -> bool {
    const NAMES: &str = "locale-archive locale.alias gconv-modules gconv-modules.cache \
                         gconv-modules.d charset.alias LC_MESSAGES";
    const DIRS: &str = "locale locale-langpack gconv i18n LC_MESSAGES";
    has_component(lookup.dir, DIRS)
        || lists(NAMES, lookup.name)
        || lookup.name == b"locale" && ends_with_any(lookup.dir, "/share /lib")
}

/// Whether a path component is one of sys.path: `python3`, `python3.11`, `pypy3.9`.
fn is_python_dir(part: &[u8]) -> bool {
    let digit = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    part.strip_prefix(b"python")
        .or_else(|| part.strip_prefix(b"pypy"))
        .is_some_and(digit)
}

fn is_python_lookup(lookup: &Lookup<'_>, in_path: bool) -> bool {
    const ENDS: &str = ".py .pyc .pyo .pyi .pth ._pth .egg-link .dist-info .egg-info";
    const NAMES: &str = "__pycache__ pyvenv.cfg pybuilddir.txt site-packages dist-packages \
                         lib-dynload Setup.local";
    const DIRS: &str = "site-packages dist-packages lib-dynload __pycache__";
    ends_with_any(lookup.name, ENDS)
        || lists(NAMES, lookup.name)
        || is_extension(lookup.name)
        || has_component(lookup.dir, DIRS)
        || names(lookup.dir).any(is_python_dir)
        || !in_path && is_python_dir(lookup.name)
}

fn is_perl_lookup(lookup: &Lookup<'_>) -> bool {
    ends_with_any(lookup.name, ".pm .pmc .pl .ph .al .ix .bs")
        || names(lookup.dir).any(|part| contains(part, b"perl"))
        || lookup.name.starts_with(b"perl5")
}

fn is_ruby_lookup(lookup: &Lookup<'_>) -> bool {
    let part = |part: &[u8]| contains(part, b"ruby") || part == b"gems";
    ends_with_any(lookup.name, ".rb .so .gemspec .gem") || names(lookup.dir).any(part)
}

fn is_node_lookup(lookup: &Lookup<'_>) -> bool {
    let top = names(lookup.dir).next().unwrap_or_default();
    ends_with_any(lookup.name, ".js .cjs .mjs .json .node .wasm")
        || lookup.name == b"node_modules"
        || has_component(lookup.dir, "node_modules")
        || lookup.op == LookupPurpose::Stat && !lookup.is_hit && !lists("proc sys dev etc", top)
}

fn is_gcc_lookup(lookup: &Lookup<'_>) -> bool {
    const ENDS: &str = ".h .hh .hpp .hxx .inc .gch .mod .a .o .la .specs .ld .tcc";
    const DIRS: &str = "gcc gcc-cross include lib lib32 lib64 libx32 libexec";
    const NAMES: &str = "specs cc1 cc1plus collect2 lto-wrapper include";
    ends_with_any(lookup.name, ENDS)
        || is_library(lookup.name)
        || lists(NAMES, lookup.name)
        || has_component(lookup.dir, DIRS)
        || lists(DIRS, lookup.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &[u8] = b"/usr/local/bin:/usr//./bin/:/bin";

    /// The kind of a single lookup; `starting` if the process is still loading libraries.
    fn kind(program: &str, starting: bool, op: LookupPurpose, path: &str, found: bool) -> Kind {
        let mut paths = SearchPaths::new(Some(PATH), Some(b"/py/own:py/./s5::"), Some(b"/work"));
        let mut searcher = Searcher {
            starting,
            ..Searcher::starting(program.as_bytes())
        };
        let (dir, name) = crate::lookup::split(path.as_bytes());
        paths.classify(&mut searcher, &lookup(op, dir, name, found))
    }

    fn lookup<'a>(op: LookupPurpose, dir: &'a [u8], name: &'a [u8], is_hit: bool) -> Lookup<'a> {
        Lookup {
            op,
            dir,
            name,
            is_hit,
            times: 1,
        }
    }

    /// One lookup per line: the program, whether the program is starting, the operation, the path,
    /// whether the path was found, and the expected kind.
    const LOOKUPS: &str = "\
/bin/dash started Stat /usr/local/bin/ls failed Path
        /bin/dash started Stat /usr/bin/ls found Path
        /bin/dash started Stat /etc/some failed Other
        /usr/bin/env started Exec /opt/own/ls failed Path
        /usr/bin/env started Exec /opt/own/ls found Other
        /bin/dash starting Access /etc/ld.so.preload failed Linker
        /bin/dash starting Open /etc/ld.so.cache found Linker
        /opt/tool starting Open /opt/lib/glibc-hwcaps/x86-64-v3/libx.so.1 failed Linker
        /opt/tool starting Stat /opt/lib/glibc-hwcaps/x86-64-v3 failed Linker
        /usr/bin/python3.11 started Open /usr/lib/x86_64-linux-gnu/libffi.so.8 found Linker
        /usr/bin/python3.11 started Stat /usr/lib/python311.zip failed Python
        /usr/bin/python3.11 started Stat /usr/lib/python3.11/json/__init__.abi3.so failed Python
        /usr/bin/python3.11 started Open /usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so found Python
        /usr/bin/python3.11 started Stat /usr/local/bin/python3 failed Path
        /usr/bin/python3.11 started Open /usr/bin/pyvenv.cfg failed Python
        /usr/bin/python3.11 started Stat /py/own/json failed Python
        /usr/bin/python3.11 started Stat /work/py/s5/json failed Python
        /usr/bin/python3.11 started Stat /work/py/json failed Other
        /usr/bin/python3.11 started Open /usr/lib/locale/locale-archive failed Locale
        /usr/bin/python3.11 started Open /srv/data.csv failed Other
        /usr/bin/perl started Stat /etc/perl/List/Util.pm failed Perl
        /usr/bin/perl started Open /usr/lib/x86_64-linux-gnu/perl-base/auto/List/Util/Util.so found Perl
        /usr/bin/perl starting Open /lib/x86_64-linux-gnu/libcrypt.so.1 found Linker
        /usr/bin/ruby3.1 started Open /usr/lib/ruby/vendor_ruby/set.rb failed Ruby
        /usr/bin/node started Stat /srv/app/node_modules/x failed Node
        /usr/bin/node started Open /srv/package.json failed Node
        /usr/bin/node started Stat /proc/self/x failed Other
        /usr/bin/gcc-12 started Stat /usr/lib/gcc/x86_64-linux-gnu/12/../lib64 failed Gcc
        /usr/bin/gcc-12 started Access /usr/local/bin/gcc failed Path
        /usr/lib/gcc/x86_64-linux-gnu/12/cc1 started Open /usr/include/stdio.h found Gcc
        /usr/bin/ld started Open /usr/lib/x86_64-linux-gnu/libm.so.6 found Gcc
        /usr/bin/ld starting Open /usr/lib/x86_64-linux-gnu/libbfd-2.40-system.so found Linker
        /usr/lib/gcc/x86_64-linux-gnu/12/cc1 started Open /tmp/ccX1.s found Other
        /bin/bash started Access /usr/share/terminfo/x/xterm found Terminfo
        /bin/bash started Open /usr/share/locale/de/LC_MESSAGES/bash.mo failed Locale
        /bin/bash started Readlink /usr/bin/ls found Other";

    #[test]
    fn each_rule_gives_its_kind() {
        for line in LOOKUPS.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [program, state, op, path, end, expected] = words[..] else {
                panic!("{line}");
            };
            let op = match op {
                "Access" => LookupPurpose::Access,
                "Exec" => LookupPurpose::Exec,
                "Open" => LookupPurpose::Open,
                "Readlink" => LookupPurpose::Readlink,
                _ => LookupPurpose::Stat,
            };
            let found = kind(program, state == "starting", op, path, end == "found");
            assert_eq!(format!("{found:?}"), expected, "{line}");
        }
    }

    #[test]
    fn a_stat_of_the_directory_belongs_to_the_search_in_it() {
        let mut paths = SearchPaths::default();
        let mut searcher = Searcher::starting(b"/opt/tool");
        let mut kind = |op, path: &str, found| {
            let (dir, name) = crate::lookup::split(path.as_bytes());
            paths.classify(&mut searcher, &lookup(op, dir, name, found))
        };
        assert_eq!(
            kind(LookupPurpose::Open, "/opt/lib/libx.so.1", false),
            Kind::Linker
        );
        assert_eq!(kind(LookupPurpose::Stat, "/opt/lib", true), Kind::Linker);
        assert_eq!(kind(LookupPurpose::Stat, "/opt", true), Kind::Other);
    }
}
