//! Assigns the lookups of a process to its searches.

use std::rc::Rc;

use gate::file::Reader;
use meter::call::Call;
use ondisk::elf::architecture;

use super::{MOST_EXECUTIONS, MOST_OPEN, Process, Recorder, ShimStart};
use crate::classify::Lookup;
use crate::family::Family;
use crate::group::{Process as SearchProcess, Search, assign};
use crate::kind::Kind;
use crate::lookup::{LookupPurpose, Outcome, split};
use crate::path::is_executable;
use crate::search_name::search_name;
use crate::trace::Shim;

impl Recorder {
    /// Adds a lookup to its search, and returns its kind.
    pub(super) fn record_search(
        &mut self,
        call: &Call<'_>,
        process: &mut Process,
        path: &[u8],
        op: LookupPurpose,
        outcome: Outcome,
    ) -> Kind {
        let (dir, name) = split(path);
        let is_replaced = op == LookupPurpose::Exec && call.errno().is_none();
        // fathom itself, not the new program, made the first execve(2) of the command: attribute it
        // to the command.
        let begun = Rc::clone(&process.image.program);
        let image = match &mut process.before {
            Some(before) if is_replaced => before,
            _ => &mut process.image,
        };
        let lookup = Lookup {
            op,
            dir,
            name,
            is_hit: outcome != Outcome::Missed,
            times: self.paths.times(dir),
        };
        let kind = self.paths.classify(&mut image.searcher, &lookup);
        if op == LookupPurpose::Exec
            && self.continue_by_exec(process.parent, &mut image.open, path, outcome, call.nanos)
        {
            return Kind::Path;
        }
        let program = match image.program.is_empty() {
            true => &begun,
            false => &image.program,
        };
        let searcher = SearchProcess {
            pid: call.pid,
            program,
            is_shell: image.searcher.family == Family::Shell,
            has_given_path: image.environment.path.is_none()
                || image.environment.path == self.environment.path,
        };
        let name = search_name(kind, dir, name);
        // The same name is looked up in a different directory, so the file found before was
        // unusable.
        let is_superseded = |search: &&mut Search| {
            let found = search.found.as_deref().filter(|found| *found != path);
            search.name == name
                && found.is_some_and(|found| match search.kind {
                    Kind::Path => !is_executable(found),
                    Kind::Other => searcher.is_shell && !is_executable(found),
                    Kind::Linker => !have_one_architecture(found, program),
                    _ => false,
                })
        };
        let superseded = image.open.iter_mut().rev().find(is_superseded);
        superseded.into_iter().for_each(Search::retract);
        let assigned = assign(&mut image.open, &lookup, path, kind, name, &searcher);
        if let Some(promoted) = assigned.promoted {
            self.count_as_path(&promoted);
        }
        if let Some(search) = image.open.get_mut(assigned.at) {
            if search.tried.is_empty() {
                search.number = self.begun;
                self.begun += 1;
            }
            search.add(path, outcome, call.nanos);
        }
        let ended = image.open.len().saturating_sub(MOST_OPEN);
        let ended: Vec<Search> = image.open.drain(..ended).collect();
        self.close(ended);
        assigned.kind
    }

    /// Records that a process executes a file. Version managers have a directory `shims` of
    /// scripts, which find and execute the program of the selected version.
    pub(super) fn record_shim(&mut self, begun: &mut Option<ShimStart>, path: &[u8], start: u64) {
        let (dir, name) = split(path);
        let is_shim = split(dir).1 == b"shims";
        let Some(first) = begun else {
            *begun = (is_shim && self.paths.in_path(dir)).then(|| ShimStart {
                path: path.to_vec(),
                forks: self.forks,
                misses: self.totals.misses,
                start,
            });
            return;
        };
        if is_shim || split(&first.path).1 != name {
            return;
        }
        let found = Shim {
            path: std::mem::take(&mut first.path),
            program: path.to_vec(),
            processes: self.forks - first.forks,
            nanos: start.saturating_sub(first.start),
            misses: self.totals.misses - first.misses,
            times: 1,
        };
        *begun = None;
        let is_same = |shim: &&mut Shim| shim.path == found.path && shim.program == found.program;
        let has_room = self.shims.len() < MOST_EXECUTIONS;
        match self.shims.iter_mut().find(is_same) {
            Some(shim) => {
                shim.processes += found.processes;
                shim.nanos += found.nanos;
                shim.misses += found.misses;
                shim.times += 1;
            }
            None if has_room => self.shims.push(found),
            None => {}
        }
    }

    /// Whether an execve(2) runs, or fails to run, the result of a search along PATH, or is the
    /// next try after such a failure. A shell searches, and its child runs the result, so the
    /// parent's searches are considered as well.
    fn continue_by_exec(
        &mut self,
        parent: Option<u32>,
        open: &mut [Search],
        path: &[u8],
        outcome: Outcome,
        nanos: u64,
    ) -> bool {
        let (dir, name) = split(path);
        let is_next = self.paths.in_path(dir);
        let parent = parent.and_then(|parent| self.processes.get_mut(&parent));
        let of_parent = parent
            .into_iter()
            .flat_map(|parent| parent.image.open.iter_mut());
        let Some(search) = open
            .iter_mut()
            .chain(of_parent)
            .rev()
            .filter(|search| matches!(search.kind, Kind::Path | Kind::Other))
            .find(|search| match search.found.as_deref() {
                Some(found) => found == path,
                None => is_next && search.refused() > 0 && search.name == name,
            })
        else {
            return false;
        };
        match outcome {
            _ if search.found.is_none() => search.add(path, outcome, nanos),
            Outcome::Found => {}
            Outcome::Refused | Outcome::Missed => search.retract(),
        }
        if std::mem::replace(&mut search.kind, Kind::Path) == Kind::Other {
            let search = search.clone();
            self.count_as_path(&search);
        }
        true
    }
}

/// Whether two ELF files are for the same architecture; true if neither can be read.
fn have_one_architecture(one: &[u8], other: &[u8]) -> bool {
    let architecture = |path| {
        let mut head = [0; 20];
        let n = Reader::open(path).and_then(|file| file.read_at(0, &mut head));
        n.ok().and_then(|n| architecture(head.get(..n)?))
    };
    architecture(one) == architecture(other)
}
