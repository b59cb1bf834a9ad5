//! Lists the directories that changed during the walk, or that cannot be read from the device, with
//! getdents64(2).

use std::collections::HashMap;

use base::Warning;
use gate::fs::Time;

use super::crew::Crew;
use super::rows::may_have_changed;
use super::tree::{DirectoryState, DirectoryTree, each_inode};
use crate::engine::stat::{DirectoryLister, look_once, walk_below};
use crate::entry::joined;
use crate::error::WarningKind;

/// Lists the directories that have changed since a time, and all others that cannot be read from
/// the device. If `is_quiet`, nothing has changed in the file system.
pub(super) fn reread_changed(
    crew: &Crew<'_>,
    tree: &mut DirectoryTree,
    since: Time,
    is_quiet: bool,
) {
    let job = crew.job;
    let mut doubtful: Vec<u32> = if is_quiet {
        tree.faults.keys().copied().collect()
    } else {
        let exists = |&index: &u32| tree.nodes[index as usize].state != DirectoryState::Gone;
        (0..tree.nodes.len() as u32).filter(exists).collect()
    };
    doubtful.sort_unstable_by_key(|&index| tree.nodes[index as usize].inode);
    let mut changed: Vec<Vec<u32>> = vec![Vec::new(); crew.threads];
    crew.share(doubtful.len(), 256, &mut changed, |changed, claims| {
        let mut buffer = Vec::new();
        for range in claims {
            let nodes = &doubtful[range];
            each_inode(crew.device, tree, nodes, &mut buffer, |index, inode| {
                if inode
                    .is_none_or(|inode| !inode.is_directory() || may_have_changed(&inode, since))
                {
                    changed.push(index);
                }
            });
        }
    });
    for index in changed.concat() {
        tree.nodes[index as usize].state = DirectoryState::Live;
        tree.faults.remove(&index);
    }
    for (&index, &fault) in &tree.faults {
        let kind = WarningKind::Damaged(fault);
        job.warn(Warning::about(&job.path(&tree.place(index)), kind));
    }
    // Moving a directory changes the times of both parents. If neither changed, two names mean
    // damage.
    for (dir, name) in &tree.twice {
        if tree.nodes[*dir as usize].state == DirectoryState::Raw {
            let path = joined(&job.path(&tree.place(*dir)), name);
            job.warn(Warning::about(&path, WarningKind::SecondName));
        }
    }

    let mut live: Vec<u32> = (0..tree.nodes.len() as u32).collect();
    live.retain(|&index| tree.nodes[index as usize].state == DirectoryState::Live);
    if !live.is_empty() {
        list_all(crew, tree, &live);
    }
}

/// Lists directories, parents first. A directory below a listed one counts only if its parent's
/// listing still has it.
fn list_all(crew: &Crew<'_>, tree: &mut DirectoryTree, live: &[u32]) {
    let job = crew.job;
    let is_live =
        |tree: &DirectoryTree, index: u32| tree.nodes[index as usize].state == DirectoryState::Live;
    let known: HashMap<u64, u32> = (1..tree.nodes.len() as u32)
        .filter(|&index| is_live(tree, tree.nodes[index as usize].parent))
        .map(|index| (u64::from(tree.nodes[index as usize].inode), index))
        .collect();
    let mut found_again = vec![false; tree.nodes.len()];
    let depth = |index: u32| tree.nodes[index as usize].key.depth;
    for level in live.chunk_by(|&a, &b| depth(a) == depth(b)) {
        let is_found = |&index: &u32| {
            let mut at = index;
            while at != 0
                && (!is_live(tree, tree.nodes[at as usize].parent) || found_again[at as usize])
            {
                at = tree.nodes[at as usize].parent;
            }
            at == 0
        };
        let level: Vec<u32> = level.iter().copied().filter(is_found).collect();
        let mut again: Vec<Vec<u32>> = vec![Vec::new(); crew.threads];
        crew.share(level.len(), 4, &mut again, |again, claims| {
            let mut worker = job.sink.worker();
            let mut lister = DirectoryLister::new(job, look_once);
            for index in claims.flat_map(|range| &level[range]) {
                let place = tree.place(*index);
                let path = job.dir_path(|| &place);
                let dir = place.key.dir(&path);
                let mut new = Vec::new();
                lister.list(&place, &dir, |entries| {
                    for entry in entries.iter().filter(|entry| entry.meta.is_dir()) {
                        let is_same = |&&child: &&u32| {
                            let node = &tree.nodes[child as usize];
                            node.parent == *index && tree.name(node) == entry.name
                        };
                        match known.get(&entry.meta.ino).filter(is_same) {
                            Some(&child) => again.push(child),
                            None if job.filter.enters(dir.key.depth + 1) => {
                                new.push(place.below(entry.name))
                            }
                            None => {}
                        }
                    }
                    job.emit(&mut *worker, &dir, entries);
                });
                for place in new {
                    walk_below(job, &mut *worker, place);
                }
            }
        });
        for index in again.concat() {
            found_again[index as usize] = true;
        }
    }
    for (index, is_found_again) in found_again.into_iter().enumerate().skip(1) {
        let parent = tree.nodes[index].parent;
        let is_lost = is_live(tree, parent) && !is_found_again;
        if is_lost || tree.nodes[parent as usize].state == DirectoryState::Gone {
            tree.nodes[index].state = DirectoryState::Gone;
        }
    }
}
