//! Runs an engine without a mounted file system of its type: on an image of ext4, or with [crafted
//! results](gate::crafted) of the ioctls of XFS and btrfs. Only in builds with debug assertions.

use gate::Fd;
use gate::sync::Mutex;

use crate::engine::{engine, ext4};
use crate::error::EngineRefusal;
use crate::filter::Filter;
use crate::job::{Diagnostics, Job, MountHints};
use crate::kind::EngineKind;
use crate::sink::Sink;
use crate::top::Top;

/// Emits the entries that an engine finds below a top whose inode number is that of a directory in
/// the image.
///
/// # Errors
/// The errors of [`Engine::walk`](crate::Engine::walk).
pub fn walk(
    kind: EngineKind,
    image: Option<Fd>,
    top: &Top,
    sink: &dyn Sink,
    diagnostics: &Diagnostics,
) -> Result<(), EngineRefusal> {
    let (filter, below, crossings) = (Filter::default(), MountHints::default(), Mutex::default());
    let job = Job {
        top,
        mount: None,
        below: &below,
        sink,
        filter: &filter,
        threads: Some(2),
        one_device: None,
        noatime: false,
        names_suffice: false,
        diagnostics,
        crossings: &crossings,
        missing: Mutex::default(),
    };
    match image {
        Some(image) => ext4::walk_image(&job, image)?,
        None => engine(kind).walk(&job)?,
    }
    job.look_again();
    Ok(())
}
