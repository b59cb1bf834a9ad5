//! The name that a search is for, without the suffixes that the searching program tries in turn.

use base::path::names;

use crate::kind::Kind;

/// The name that a search is for, without the suffixes that the searching program tries in turn.
pub(crate) fn search_name(kind: Kind, dir: &[u8], name: &[u8]) -> Vec<u8> {
    match kind {
        Kind::Python => python_module(dir, name).to_vec(),
        Kind::Perl => name
            .strip_suffix(b"c")
            .filter(|stem| stem.ends_with(b".pm"))
            .unwrap_or(name)
            .to_vec(),
        Kind::Ruby => stem(name, ".rb .so").to_vec(),
        Kind::Node => node_module(dir, name),
        Kind::Gcc => stem(name, ".so .a .gch").to_vec(),
        _ => name.to_vec(),
    }
}

/// A name without its suffix, which is the first in the list `ends` that the name has.
fn stem<'a>(name: &'a [u8], ends: &str) -> &'a [u8] {
    let mut ends = ends.split(' ');
    let stem = ends.find_map(|end| name.strip_suffix(end.as_bytes()));
    stem.filter(|stem| !stem.is_empty()).unwrap_or(name)
}

/// The module's name: `json` for `json`, `json.py`, `json/__init__.abi3.so` and
/// `json/__pycache__/__init__.cpython-311.pyc`.
fn python_module<'a>(dir: &'a [u8], name: &'a [u8]) -> &'a [u8] {
    let tags = [&b".cpython-"[..], b".abi3.so", b".pypy"];
    let tags = tags.iter().filter_map(|tag| {
        let mut windows = name.windows(tag.len());
        windows.position(|window| window == *tag)
    });
    let module = match tags.min() {
        Some(at) => &name[..at],
        None => stem(name, ".py .pyc .pyo .so .pyi"),
    };
    if module != b"__init__" {
        return module;
    }
    let mut above = dir.rsplit(|&b| b == b'/');
    above
        .find(|part| *part != b"__pycache__" && !part.is_empty())
        .unwrap_or(module)
}

/// The name of a Node module: the component after the last `node_modules`. Without `node_modules`,
/// the file name without its suffix.
fn node_module(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = names(dir).chain([name]).collect();
    let at = parts.iter().rposition(|part| *part == b"node_modules");
    match at.map(|at| &parts[at + 1..]) {
        Some(module @ [scope, _, ..]) if scope.starts_with(b"@") => module[..2].join(&b'/'),
        Some([module, ..]) => module.to_vec(),
        _ if matches!(name, b"package.json" | b"node_modules") => name.to_vec(),
        _ => stem(name, ".js .json .node .cjs .mjs").to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_name_has_no_suffix() {
        for (kind, path, expected) in [
            (
                Kind::Python,
                "/usr/lib/python3.11/json/__init__.cpython-311-x86_64-linux-gnu.so",
                "json",
            ),
            (
                Kind::Python,
                "/usr/lib/python3.11/json/__pycache__/__init__.cpython-311.pyc",
                "json",
            ),
            (Kind::Python, "/usr/lib/python3.11/json", "json"),
            (Kind::Python, "/usr/lib/python3.11/decimal.py", "decimal"),
            (
                Kind::Python,
                "/usr/lib/python3.11/lib-dynload/_json.abi3.so",
                "_json",
            ),
            (Kind::Perl, "/etc/perl/List/Util.pmc", "Util.pm"),
            (Kind::Node, "/srv/node_modules/@a/b/package.json", "@a/b"),
            (Kind::Node, "/srv/node_modules/lodash/index.js", "lodash"),
            (Kind::Node, "/srv/node_modules", "node_modules"),
            (Kind::Node, "/srv/lib/x.js", "x"),
            (Kind::Gcc, "/usr/lib/libm.a", "libm"),
            (Kind::Path, "/usr/bin/a.py", "a.py"),
        ] {
            let (dir, name) = crate::lookup::split(path.as_bytes());
            assert_eq!(search_name(kind, dir, name), expected.as_bytes(), "{path}");
        }
    }
}
