//! The proposed changes, and their savings.

use ::show::name::printable;
use ::show::shell::single_quoted;
use ::show::table::TableStyle;
use ::show::units::{duration, plural, sized};
use pathsearch::{Change, Fix, PathProposal, RunpathChange, Shim};

use crate::out::seconds;
pub(crate) fn fixes<'a>(fixes: impl IntoIterator<Item = &'a Fix>, style: TableStyle) -> String {
    let mut fixes = fixes.into_iter().peekable();
    let mut text = style.heading("Proposed changes");
    if fixes.peek().is_none() {
        text += &style.wrapped("None: no known change saves 10 ms and 5 % of the start.");
    }
    for fix in fixes {
        text += &style.item(&fix_sentence(fix));
    }
    text
}

/// A proposed change, and its savings.
pub(crate) fn fix_sentence(fix: &Fix) -> String {
    // Compiling a module takes longer than all lookups of the module.
    let compiling = match fix.change.saves_compiling() {
        true => ", plus the time of compiling at each start, which is not measured",
        false => "",
    };
    format!(
        "{}: {}{compiling}.",
        printable(change_text(&fix.change).as_bytes()),
        fix_savings(fix),
    )
}

pub(crate) fn fix_savings(fix: &Fix) -> String {
    let remote = format!(
        "{} on a network file system ({})",
        duration(fix.saves_seconds),
        plural(fix.saves_requests, "request", "requests")
    );
    let misses = plural(fix.saves_misses, "failed lookup", "failed lookups");
    let here = duration(fix.saves_seconds_here);
    match fix.saves_misses {
        0 => format!("saves {remote}"),
        _ if fix.saves_requests == 0 => format!("saves {misses}"),
        // On a network file system, one request shows that a directory is missing, and with it all
        // names in the directory, so a change can save less time there than here.
        _ if fix.saves_seconds < fix.saves_seconds_here => format!("saves {misses}, {here} here"),
        _ if fix.saves_seconds_here <= 0.0 => format!("saves {misses} and {remote}"),
        _ => format!("saves {misses}, {here} here and {remote}"),
    }
}

pub(crate) fn change_text(change: &Change) -> String {
    match change {
        Change::SetPath(path) => return set_path_text(path),
        Change::ShortenVariable {
            variable,
            programs,
            value,
            removed,
            ..
        } => {
            let (programs, removed) = (program_names(programs), joined(removed));
            return match value {
                None => format!("run {programs} without {variable}: nothing is found in {removed}"),
                Some(value) => format!(
                    "run {programs} with {variable}={}, without the directories in which nothing is \
                     found: {removed}",
                    shell_word(value)
                ),
            };
        }
        Change::ShortenRunpaths {
            objects,
            has_patchelf,
        } => {
            let each = objects.iter().map(|object| runpath_text(object, *has_patchelf));
            let each = each.collect::<Vec<_>>().join("; ");
            return format!("search no directories that contain no library: {each}");
        }
        Change::CompileModules {
            python,
            option,
            modules,
            dirs,
        } => {
            let dirs: Vec<String> = dirs.iter().map(|dir| shell_word(dir)).collect();
            let option = if option.is_empty() { "" } else { &format!(" {option}") };
            return format!(
                "compile {} once, which Python compiles at each start: {}{option} -m compileall -q -l {}",
                plural(*modules, "module", "modules"),
                shell_word(python),
                dirs.join(" ")
            );
        }
        Change::SetBytecodeDirectory {
            modules,
            dir,
            is_read_only,
        } => {
            let first = match is_read_only {
                true => "run Python without -B and PYTHONDONTWRITEBYTECODE, and set",
                false => "set",
            };
            let why = match modules {
                1 => "its directory is not writable",
                _ => "their directories are not writable",
            };
            return format!(
                "{first} PYTHONPYCACHEPREFIX={}: Python compiles {} at each start, because {why}",
                shell_word(dir),
                plural(*modules, "module", "modules")
            );
        }
        Change::AvoidShim { shim, manager } => return shim_text(shim, manager.as_deref()),
        Change::CacheRubyLibraries => {
            "cache the paths of libraries (bootsnap)"
        }
        Change::BundleNodeProgram => {
            "bundle the program and its modules into one file (esbuild, ncc)"
        }
        Change::CacheCompilations => "cache compilations (ccache)",
        Change::SetInstalledLocale => {
            "set LC_ALL=C, which programs use now because the locale is not installed"
        }
        Change::SetInstalledTerminal => {
            "set TERM to a terminal with an installed description, or TERMINFO to its directory"
        }
        Change::CopyToLocalDisk {
            files,
            links,
            bytes,
        } => {
            let (copied, names) = match (files, links) {
                (1, 0) => ("file".to_owned(), "its name"),
                (files, 0) => (plural(*files, "file", "files"), "their names"),
                (files, links) => {
                    let files = plural(*files, "file", "files");
                    let links = plural(*links, "symbolic link", "symbolic links");
                    (format!("{files} and {links}"), "their names")
                }
            };
            return format!(
                "copy the {copied} that it reads ({}; --files0 prints {names}) to a local disk, as a \
                 container image or an archive unpacked when the job starts",
                sized(*bytes)
            );
        }
    }
    .to_owned()
}

/// How to set a different RUNPATH or RPATH in an ELF file.
fn runpath_text(change: &RunpathChange, has_patchelf: bool) -> String {
    let object = shell_word(&change.object);
    let (kind, option) = match change.is_runpath {
        true => ("RUNPATH", ""),
        false => ("RPATH", "--force-rpath "),
    };
    match &change.value {
        None if has_patchelf => format!("patchelf --remove-rpath {object}"),
        None => format!("link {object} without {kind}"),
        Some(value) if has_patchelf => {
            format!(
                "patchelf {option}--set-rpath {} {object}",
                shell_word(value)
            )
        }
        Some(value) => format!("link {object} with the {kind} {}", shell_word(value)),
    }
}

fn shim_text(shim: &Shim, manager: Option<&[u8]>) -> String {
    let (path, program) = (lossy(&shim.path), shell_word(&shim.program));
    let name = path.rsplit('/').next().unwrap_or_default();
    let which = manager.map_or(String::new(), |manager| {
        format!(" ({} which {name} prints its path)", lossy(manager))
    });
    format!(
        "execute {program} directly{which}: the script {path} of a version manager runs {} before, in \
         {} under the meter",
        plural(shim.processes / shim.times.max(1), "process", "processes"),
        duration(seconds(shim.nanos / shim.times.max(1)))
    )
}

fn joined(names: &[Vec<u8>]) -> String {
    let names: Vec<_> = names.iter().map(|name| lossy(name)).collect();
    names.join(", ")
}

fn shell_word(name: &[u8]) -> String {
    lossy(&single_quoted(name))
}

fn set_path_text(path: &PathProposal) -> String {
    let mut text = format!("set PATH={}", shell_word(&path.path));
    if !path.removed.is_empty() {
        text += &format!(
            ", without the missing or duplicate {}",
            joined(&path.removed)
        );
    }
    if path.is_reordered {
        text += ", in an order in which every name still finds the same program";
    }
    text
}

fn program_names(programs: &[Vec<u8>]) -> String {
    const NAMED: usize = 3;
    let names = programs.iter().take(NAMED).map(|name| lossy(name));
    let names = names.collect::<Vec<_>>().join(", ");
    match programs.len() {
        0 => "the program".to_owned(),
        n if n > NAMED => format!("{names} and {} more", n - NAMED),
        _ => names,
    }
}

/// Decodes a name lossily; the caller escapes the whole text.
fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_three_programs_are_named() {
        let named = |n| {
            let names = [b"a", b"b", b"c", b"d", b"e"];
            program_names(
                &names[..n]
                    .iter()
                    .map(|name| name.to_vec())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            [named(0), named(3), named(5)],
            ["the program", "a, b, c", "a, b, c and 2 more"]
        );
    }
}
