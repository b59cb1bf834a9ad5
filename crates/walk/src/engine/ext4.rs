//! `ext4`: inode tables and directory blocks, read from the device, through the page cache that the
//! kernel itself uses.
//!
//! After syncfs(2) the device shows what the file API shows, and costs a copy instead of a call for
//! each entry. What may have changed since, or is not what it should be, is settled with the
//! kernel: a row by statx(2), a directory by getdents64(2). So the tables are only ever a hint, and
//! the answer is a plain walk's.
//!
//! ```text
//!   note the time, syncfs
//!   tree:   from the top down, level by level: inodes of directories ─► their blocks, sorted by place ─► names
//!   syncfs, and unless the journal says that nothing was committed since:
//!           the inodes of the directories once more ─► those that changed meanwhile are listed live
//!   rows:   the names, sorted by the place of their inodes ─► runs of the inode tables ─► entries
//! ```
//!
//! What is not below the top is never read, so that a small part of a large file system costs
//! little. Of the rows nothing is kept; a name costs 20 bytes beside itself.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gate::fs::{EXT4_SUPER_MAGIC, syncfs};
use gate::machine::processors;
use gate::process::raise_open_files;

use super::{Engine, MountContext};
use crate::error::{EngineAction, EngineRefusal};
use crate::job::Job;
use crate::kind::EngineKind;
use crate::moment::Moment;
use device::Device;

mod device;
mod live;
mod rows;
mod tree;

pub use device::journal_transactions;

/// The file system's own tables.
#[derive(Clone, Copy, Debug)]
pub struct Ext4;

const KIND: EngineKind = EngineKind::Ext4;

impl Engine for Ext4 {
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        if context.statfs.magic != EXT4_SUPER_MAGIC {
            return Err(EngineRefusal::WrongFileSystem(KIND));
        }
        let Some(mount) = context.mount else {
            return Err(EngineRefusal::UnknownMount(KIND));
        };
        if context.is_idmapped() {
            return Err(EngineRefusal::Idmapped(KIND));
        }
        if !context.is_root {
            return Err(EngineRefusal::NotRoot(KIND));
        }
        device::sees_ids_as_stored()?;
        Device::open(context.top.meta.dev, mount).map(drop)
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        let mount = job.mount.ok_or(EngineRefusal::UnknownMount(KIND))?;
        let mut device = Device::open(job.top.meta.dev, mount)?;
        let sync = || syncfs(&job.top.fd).map_err(|e| EngineAction::Sync.failed(e));
        // Before the sync, which may take long: what is written during it need not be all on the
        // device after it.
        let begun = Moment::now();
        sync()?;
        let transactions = journal_transactions(job.top.meta.dev);
        device
            .read_groups()
            .map_err(|e| EngineAction::GroupDescriptors.failed(e))?;

        // Each thread may have a directory open, to ask the kernel about what is in it.
        let threads = job
            .threads
            .unwrap_or_else(processors)
            .min(raise_open_files() / 2)
            .max(1);
        let crew = Crew {
            job,
            device: &device,
            threads,
        };
        let mut tree = tree::descend(&crew);
        // What was going on in a directory while it was read has been written into its inode after
        // this.
        sync()?;
        let quiet =
            transactions.is_some() && transactions == journal_transactions(job.top.meta.dev);
        let since = begun.changed_since();
        live::settle(&crew, &mut tree, since, quiet);
        rows::give(&crew, &tree, since);
        Ok(())
    }
}

/// What the stages of a walk share.
struct Crew<'a> {
    job: &'a Job<'a>,
    device: &'a Device,
    threads: usize,
}

impl Crew<'_> {
    /// Shares items out among threads, `most` at a time. Each thread has a state of its own; few
    /// items are not worth one.
    fn share<S: Send>(
        &self,
        items: usize,
        most: usize,
        states: &mut [S],
        work: impl Fn(&mut S, Claims<'_>) + Sync,
    ) {
        let claims = Claims {
            next: &AtomicUsize::new(0),
            items,
            most,
            job: self.job,
        };
        let threads = items.div_ceil(most).min(states.len());
        let Some((own, others)) = states[..threads].split_first_mut() else {
            return;
        };
        std::thread::scope(|scope| {
            for state in others {
                let work = &work;
                // Where no thread can be had, fewer do the work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                    work(state, claims);
                    gate::meter::flush();
                });
            }
            work(own, claims);
        });
    }
}

/// What is left to be done of some items, for whoever has the time.
#[derive(Clone, Copy)]
struct Claims<'a> {
    next: &'a AtomicUsize,
    items: usize,
    most: usize,
    job: &'a Job<'a>,
}

impl Iterator for Claims<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let from = self.next.fetch_add(self.most, Relaxed);
        (from < self.items && !self.job.is_over()).then(|| from..self.items.min(from + self.most))
    }
}
