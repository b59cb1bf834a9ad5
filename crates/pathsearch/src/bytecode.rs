//! Python modules that are compiled at each start, because the bytecode is not cached.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::path::{ancestors, join, parent};
use gate::lookup::{Permission, check_permission};

use crate::change::Change;
use crate::family::Family;
use crate::kind::Kind;
use crate::lookup::split;
use crate::trace::{NameUse, Trace};
use crate::tree::{FileTree, Node};

/// The first minor version of Python 3 with PYTHONPYCACHEPREFIX.
const HAS_PREFIX: u32 = 8;

/// A Python module that was compiled during the start.
struct Module<'a> {
    /// The bytecode file (`.pyc`), which does not exist.
    compiled: &'a NameUse,
    /// The directory of the source file.
    dir: &'a [u8],
}

/// Changes that would cache bytecode, and the names of the `.pyc` files that each would provide.
pub(crate) fn keep_bytecode<'a>(
    trace: &'a Trace,
    tree: &mut dyn FileTree,
) -> Vec<(Change, Vec<&'a NameUse>)> {
    let mut groups: BTreeMap<(&[u8], bool, &'static str), Vec<Module<'_>>> = BTreeMap::new();
    let mut writable = HashMap::new();
    let pythons = searchers(trace);
    for module in compiled_modules(trace, tree) {
        let Some(python) = pythons.get(&module.compiled.path[..]) else {
            continue;
        };
        let mut may_write = || {
            let cache = join(module.dir, b"__pycache__");
            let dir = match tree.node(&cache) {
                Node::Missing => module.dir,
                _ => &cache,
            };
            check_permission(dir, Permission::Write).is_ok()
        };
        let is_writable = *writable.entry(module.dir).or_insert_with(&mut may_write);
        let name = split(&module.compiled.path).1;
        let option = match name.windows(6).find(|part| part.starts_with(b".opt-")) {
            Some(b".opt-1") => "-O",
            Some(_) => "-OO",
            None => "",
        };
        let group = groups.entry((python, is_writable, option)).or_default();
        group.push(module);
    }
    let mut changes = Vec::new();
    for ((python, is_writable, option), modules) in groups {
        let names: Vec<&NameUse> = modules.iter().map(|module| module.compiled).collect();
        let count = modules.len() as u64;
        if is_writable {
            let dirs: BTreeSet<&[u8]> = modules.iter().map(|module| module.dir).collect();
            let change = Change::CompileModules {
                python: python.to_vec(),
                option,
                modules: count,
                dirs: dirs.into_iter().map(<[u8]>::to_vec).collect(),
            };
            changes.push((change, names));
        } else if has_prefix(split(&names[0].path).1) {
            let change = set_directory(trace, python, count, tree);
            changes.extend(change.map(|change| (change, names)));
        }
    }
    changes
}

/// The modules whose source was read because the `.pyc` file did not exist, and which still have no
/// `.pyc` file.
fn compiled_modules<'a>(trace: &'a Trace, tree: &mut dyn FileTree) -> Vec<Module<'a>> {
    let all = trace.names.iter();
    let opened = all.filter(|used| used.kind == Kind::Python && used.opens > 0);
    let opened: BTreeSet<&[u8]> = opened.map(|used| &used.path[..]).collect();
    let missed = trace.names.iter().filter(|used| {
        used.kind == Kind::Python && used.count.misses > 0 && used.path.ends_with(b".pyc")
    });
    let module = |compiled: &'a NameUse| {
        let (cache, name) = split(&compiled.path);
        let dir = Some(parent(cache)).filter(|_| split(cache).1 == b"__pycache__")?;
        let end = name
            .windows(4)
            .position(|part| part == b".cpy" || part == b".pyp")?;
        let source = join(dir, &[&name[..end], b".py"].concat());
        let is_compiled =
            opened.contains(&source[..]) && tree.node(&compiled.path) == Node::Missing;
        is_compiled.then_some(Module { compiled, dir })
    };
    missed.filter_map(module).collect()
}

/// The program that searched for each path of a Python module.
fn searchers(trace: &Trace) -> HashMap<&[u8], &[u8]> {
    let searches = trace.searches.iter();
    let searches = searches.filter(|search| search.kind == Kind::Python);
    let names = searches.flat_map(|search| {
        let tried = search.tried.iter();
        tried.map(|tried| (&tried.path[..], &search.program[..]))
    });
    names.collect()
}

/// Whether the Python version in a `.pyc` file's tag, as in `json.cpython-311.pyc`, supports
/// PYTHONPYCACHEPREFIX.
fn has_prefix(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    let mut parts = name.split('.').filter_map(|part| {
        let tag = part
            .strip_prefix("cpython-")
            .or(part.strip_prefix("pypy"))?;
        tag.strip_prefix('3')?.parse::<u32>().ok()
    });
    parts.next().is_some_and(|minor| minor >= HAS_PREFIX)
}

/// Proposes a bytecode directory in which this user may write.
fn set_directory(
    trace: &Trace,
    python: &[u8],
    modules: u64,
    tree: &mut dyn FileTree,
) -> Option<Change> {
    let executions = trace.executions.iter();
    let environments = executions
        .filter(|execution| Family::from_program(&execution.program) == Family::Python)
        .filter(|execution| *execution.program == *python)
        .filter_map(|execution| execution.environment.as_ref());
    let environments: Vec<_> = environments.collect();
    let cache = environments.first()?.cache.clone()?;
    let exists = ancestors(&cache).find(|dir| tree.node(dir) != Node::Missing);
    let is_possible = cache.starts_with(b"/")
        && check_permission(exists.unwrap_or(b"/"), Permission::Write).is_ok()
        && environments
            .iter()
            .all(|environment| !environment.is_python_isolated);
    is_possible.then(|| Change::SetBytecodeDirectory {
        modules,
        dir: join(&cache, b"python"),
        is_read_only: environments
            .iter()
            .any(|environment| environment.is_python_read_only),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_for_compiled_modules_needs_python_3_8() {
        for (name, expected) in [
            ("json.cpython-38.pyc", true),
            ("json.cpython-311.opt-1.pyc", true),
            ("a.b.pypy39.pyc", true),
            ("json.cpython-37.pyc", false),
            ("json.cpython-27.pyc", false),
            ("json.pyc", false),
        ] {
            assert_eq!(has_prefix(name.as_bytes()), expected, "{name}");
        }
    }
}
