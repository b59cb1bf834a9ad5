//! Shorter lists of directories: in LD_LIBRARY_PATH, PYTHONPATH and the like, for each process of
//! the command, and in RUNPATH and RPATH of programs and libraries.
//!
//! A directory is removed only if no lookup in it succeeded, by any process. Then every name that
//! was searched for is still found in the same place. All lookups must have been recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use base::path::{ancestors, below, names, parent};
use gate::file::Reader;
use gate::lookup::{Permission, check_permission};
use ondisk::elf::search_path;

use crate::change::{AvoidedNames, Change, RunpathChange};
use crate::environment::LISTS;
use crate::family::Family;
use crate::kind::Kind;
use crate::lookup::{normalize, split};
use crate::path::{ProgramDirectories, is_installed};
use crate::trace::{NameUse, Trace};

/// The directories in or below which a file was found, or that a program listed.
pub(crate) struct UsedDirectories<'a> {
    dirs: HashSet<&'a [u8]>,
    /// Files that were read: a ZIP file can take the place of a directory.
    files: HashSet<&'a [u8]>,
}

impl<'a> UsedDirectories<'a> {
    pub(crate) fn new(trace: &'a Trace) -> UsedDirectories<'a> {
        let (mut dirs, mut files) = (HashSet::new(), HashSet::new());
        for name in trace.names.iter().filter(|name| name.count.hits > 0) {
            if name.reads > 0 {
                files.insert(&name.path[..]);
            }
            // Python lists each directory of its search path, so a listing proves no use.
            if name.listings > 0 && name.kind != Kind::Python {
                dirs.insert(&name.path[..]);
            }
            dirs.extend(ancestors(parent(&name.path)));
        }
        UsedDirectories { dirs, files }
    }

    fn contains(&self, dir: &[u8]) -> bool {
        self.dirs.contains(dir) || ancestors(dir).any(|above| self.files.contains(above))
    }
}

/// A list of directories with some removed.
struct ShortenedList {
    /// The new value; `None` if no element is left.
    value: Option<Vec<u8>>,
    removed: Vec<Vec<u8>>,
    /// The directories of the removed elements.
    dirs: Vec<Vec<u8>>,
}

/// Removes the elements for which `removable` returns a directory.
fn shorten(
    elements: impl Iterator<Item = Vec<u8>>,
    mut removable: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> ShortenedList {
    let (mut kept, mut removed, mut dirs) = (Vec::new(), Vec::new(), Vec::new());
    for element in elements {
        match removable(&element) {
            Some(dir) => {
                removed.push(element);
                dirs.push(dir);
            }
            None => kept.push(element),
        }
    }
    // An empty element means the working directory, but an empty list means no directory.
    let value = match kept.join(&b':') {
        value if value.is_empty() && !kept.is_empty() => Some(b".".to_vec()),
        value => (!kept.is_empty()).then_some(value),
    };
    ShortenedList {
        value,
        removed,
        dirs,
    }
}

/// The names of one kind in or below these directories whose lookups failed.
fn missed<'a>(trace: &'a Trace, kind: Kind, dirs: &[Vec<u8>]) -> Vec<&'a NameUse> {
    let all = trace.names.iter();
    let missed = all.filter(|used| used.kind == kind && used.count.misses > 0);
    let inside = |used: &&NameUse| dirs.iter().any(|dir| below(dir, &used.path).is_some());
    missed.filter(inside).collect()
}

/// The names that are looked up because of these elements of a list: the directories themselves,
/// and everything below them. Python's zipimport also examines each directory above an element that
/// does not exist. Interpreters also examine directories by calls of the kind [`Kind::Other`], but
/// ld.so by calls of the kind [`Kind::Linker`] only.
fn caused<'a>(trace: &'a Trace, kind: Kind, dirs: &[Vec<u8>]) -> Vec<&'a NameUse> {
    let removed: HashSet<&[u8]> = dirs.iter().map(Vec::as_slice).collect();
    let of_python = dirs.iter().filter(|_| kind == Kind::Python);
    let above: HashSet<&[u8]> = of_python.flat_map(|dir| ancestors(parent(dir))).collect();
    let is_below = |path: &[u8]| ancestors(path).any(|at| removed.contains(at));
    let is_caused = |used: &&NameUse| {
        let is_kind = used.kind == kind || used.kind == Kind::Other && kind != Kind::Linker;
        let is_examined = used.opens + used.execs + used.listings + used.readlinks == 0;
        is_kind && (is_below(&used.path) || is_examined && above.contains(&used.path[..]))
    };
    trace.names.iter().filter(is_caused).collect()
}

/// For each value of each variable a shorter value, if possible, and the names whose lookups the
/// shorter value saves.
pub(crate) fn shorten_variables<'a>(
    trace: &'a Trace,
    used: &UsedDirectories<'_>,
) -> Vec<AvoidedNames<'a>> {
    let mut changes = Vec::new();
    for (at, (variable, kind)) in LISTS.into_iter().enumerate() {
        let mut values: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
        for execution in &trace.executions {
            let is_read = match Family::from_program(&execution.program) {
                _ if kind == Kind::Linker => true,
                Family::Python => kind == Kind::Python,
                Family::Perl => kind == Kind::Perl,
                Family::Ruby => kind == Kind::Ruby,
                Family::Node => kind == Kind::Node,
                Family::Shell | Family::Gcc | Family::Plain => false,
            };
            let environment = execution.environment.as_ref().filter(|_| is_read);
            if let Some(value) = environment.and_then(|known| known.lists[at].as_deref()) {
                let programs = values.entry(value).or_default();
                programs.insert(split(&execution.program).1);
            }
        }
        for (value, programs) in values {
            let is_end = |byte: &u8| *byte == b':' || *byte == b';' && kind == Kind::Linker;
            let elements = value.split(is_end).map(<[u8]>::to_vec);
            let list = shorten(elements, |element| {
                // Python, Ruby and Node resolve `..` before they look names up, so the recorded
                // names do not begin with such an element.
                let is_literal = matches!(kind, Kind::Linker | Kind::Perl)
                    || names(element).all(|part| part != b"..");
                let is_plain = element.starts_with(b"/") && !element.contains(&b'$') && is_literal;
                let dir = is_plain.then(|| normalize(element))?;
                (!used.contains(&dir)).then_some(dir)
            });
            if list.dirs.is_empty() {
                continue;
            }
            let missed = missed(trace, kind, &list.dirs);
            let unused = caused(trace, kind, &list.dirs);
            let change = Change::ShortenVariable {
                variable,
                kind,
                programs: programs.into_iter().map(<[u8]>::to_vec).collect(),
                value: list.value,
                removed: list.removed,
            };
            changes.push(AvoidedNames {
                change,
                missed,
                unused,
            });
        }
    }
    changes
}

/// Shorter RUNPATHs of programs and libraries that this user may change, and the names whose
/// lookups the change saves. Directories with a library are kept even if unused, because the change
/// affects everyone who executes the file.
pub(crate) fn shorten_runpaths<'a>(
    trace: &'a Trace,
    used: &UsedDirectories<'_>,
    directories: &mut dyn ProgramDirectories,
) -> Option<AvoidedNames<'a>> {
    /// The maximum number of files to read.
    const MOST: usize = 1000;
    let programs = trace.executions.iter().map(|execution| &execution.program);
    let is_library = |used: &&NameUse| used.kind == Kind::Linker && used.opens > 0;
    let libraries = trace.names.iter().filter(is_library).map(|used| &used.path);
    let all: BTreeSet<_> = programs.chain(libraries).collect();
    let (mut objects, mut dirs) = (Vec::new(), Vec::new());
    let mut removable: HashMap<Vec<u8>, bool> = HashMap::new();
    let mut is_removable = |dir: &Vec<u8>| {
        !used.contains(dir)
            && !missed(trace, Kind::Linker, std::slice::from_ref(dir)).is_empty()
            && !contains_library(dir, directories)
    };
    for object in all.into_iter().take(MOST) {
        let Ok(file) = Reader::open(object) else {
            continue;
        };
        let found = search_path(|from, most| {
            let mut bytes = vec![0; most];
            let n = file.read_at(from, &mut bytes).ok()?;
            bytes.truncate(n);
            Some(bytes)
        });
        let Some(found) = found else { continue };
        let list = shorten(
            found.value.split(|&b| b == b':').map(<[u8]>::to_vec),
            |element| {
                let dir = expand_origin(element, split(object).0)?;
                let known = removable.get(&dir).copied();
                let is_removed = known.unwrap_or_else(|| is_removable(&dir));
                removable.insert(dir.clone(), is_removed);
                is_removed.then_some(dir)
            },
        );
        if !list.dirs.is_empty() && check_permission(object, Permission::Write).is_ok() {
            dirs.extend(list.dirs);
            objects.push(RunpathChange {
                object: object.to_vec(),
                is_runpath: found.is_runpath,
                value: list.value,
            });
        }
    }
    let change = Change::ShortenRunpaths {
        objects,
        has_patchelf: is_installed("patchelf"),
    };
    (!dirs.is_empty()).then(|| AvoidedNames {
        change,
        missed: missed(trace, Kind::Linker, &dirs),
        unused: caused(trace, Kind::Linker, &dirs),
    })
}

/// The directory of a RUNPATH element; `None` if it depends on the process or the processor.
fn expand_origin(element: &[u8], origin: &[u8]) -> Option<Vec<u8>> {
    let rest = element.strip_prefix(b"$ORIGIN");
    let dir = match rest.or_else(|| element.strip_prefix(b"${ORIGIN}")) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => [origin, rest].concat(),
        _ => element.to_vec(),
    };
    (dir.starts_with(b"/") && !dir.contains(&b'$')).then(|| normalize(&dir))
}

/// Whether a directory contains a library, as far as it can be listed.
fn contains_library(dir: &[u8], directories: &mut dyn ProgramDirectories) -> bool {
    match directories.directory(dir) {
        Ok(None) => false,
        _ => directories.names(dir).map_or(true, |names| {
            let mut names = names.iter();
            names.any(|name| name == b"glibc-hwcaps" || name.windows(3).any(|part| part == b".so"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_the_working_directory() {
        let without = |list: &str| {
            let elements = list.split(':').map(|element| element.as_bytes().to_vec());
            let list = shorten(elements, |element| {
                element.starts_with(b"/no").then(|| element.to_vec())
            });
            list.value.map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(without("/no/a:/b:/no").as_deref(), Some("/b"));
        assert_eq!(without("/no:").as_deref(), Some("."));
        assert_eq!(without("/no::/b").as_deref(), Some(":/b"));
        assert_eq!(without("/no"), None);
    }

    #[test]
    fn the_origin_of_an_object_is_its_directory() {
        let expanded = |element: &str| expand_origin(element.as_bytes(), b"/opt/bin");
        assert_eq!(expanded("$ORIGIN/../lib/").unwrap(), b"/opt/bin/../lib");
        assert_eq!(expanded("${ORIGIN}").unwrap(), b"/opt/bin");
        assert_eq!(expanded("/a//b").unwrap(), b"/a/b");
        for none in [
            "",
            "lib",
            "$ORIGINAL",
            "$LIB/x",
            "/usr/$LIB",
            "$ORIGIN/$PLATFORM",
        ] {
            assert_eq!(expanded(none), None, "{none}");
        }
    }
}
