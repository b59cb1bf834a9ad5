//! `ext4`: inode tables and directory blocks, read from the device through the page cache that the
//! kernel itself uses.
//!
//! After syncfs(2) the device has what the file API shows, and reading it costs a copy from the
//! page cache instead of a system call per entry. An inode or directory that may have changed
//! since, or is inconsistent, is read again through the kernel: an inode by statx(2), a directory
//! by getdents64(2). So the tables are only a hint, and the result equals that of a plain walk.
//!
//! ```text
//!   read the clock, syncfs
//!   tree:   from the top down, level by level: inodes of directories ─► their blocks, by place ─► names
//!   syncfs, and unless the journal has committed nothing since:
//!           the inodes of the directories once more ─► those that changed meanwhile: getdents64(2)
//!   rows:   the names, sorted by the place of their inodes ─► runs of the inode tables ─► entries
//! ```
//!
//! Only directories below the top are read, so a small part of a large file system costs little. A
//! name takes 20 bytes in addition to its length; inodes are not kept.

#[cfg(debug_assertions)]
use gate::Fd;
use gate::fs::{EXT4_SUPER_MAGIC, syncfs};
use gate::machine::processors;

use self::crew::Crew;
use self::device::Device;
use super::crew::most_threads;
use crate::error::{EngineAction, EngineRefusal};
use crate::job::{Engine, Job};
use crate::kind::EngineKind;
use crate::moment::Moment;
use crate::top::MountContext;

mod crew;
mod device;
mod live;
mod near;
mod rows;
pub(super) mod since;
mod tree;
mod unnamed;

pub use device::{journal_transactions, read_superblock};
pub use unnamed::{UnnamedInode, repeated_xattr_blocks, unnamed_inodes};

pub(super) struct Ext4;

const KIND: EngineKind = EngineKind::Ext4;

impl Engine for Ext4 {
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        let mount = context.check(KIND, EXT4_SUPER_MAGIC)?;
        if !context.is_root {
            return Err(EngineRefusal::NotRoot(KIND));
        }
        device::sees_ids_as_stored()?;
        Device::open(context.top.meta.dev, mount).map(drop)
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        let mount = job.mount.ok_or(EngineRefusal::UnknownMount(KIND))?;
        walk_device(job, Device::open(job.top.meta.dev, mount)?)
    }
}

/// Walks an image of ext4, which does not change meanwhile.
#[cfg(debug_assertions)]
pub(crate) fn walk_image(job: &Job<'_>, image: Fd) -> Result<(), EngineRefusal> {
    walk_device(job, Device::on(image, "an image".to_owned())?)
}

fn walk_device(job: &Job<'_>, mut device: Device) -> Result<(), EngineRefusal> {
    let sync = || syncfs(&job.top.fd).map_err(|e| EngineAction::Sync.failed(e));
    // Read the clock before syncfs, which may take long: changes during it may not be on the
    // device.
    let begun = Moment::now();
    sync()?;
    let transactions = journal_transactions(job.top.meta.dev);
    device
        .read_groups()
        .map_err(|e| EngineAction::GroupDescriptors.failed(e))?;

    let threads = job.threads.unwrap_or_else(processors);
    let threads = threads.clamp(1, most_threads());
    let crew = Crew {
        job,
        device: &device,
        threads,
    };
    let mut tree = tree::descend(&crew);
    // After this syncfs, a directory that changed while it was read has a later change time on the
    // device.
    sync()?;
    let is_quiet = transactions.is_some() && transactions == journal_transactions(job.top.meta.dev);
    let since = begun.changed_since();
    live::reread_changed(&crew, &mut tree, since, is_quiet);
    rows::emit(&crew, &tree, since);
    Ok(())
}
