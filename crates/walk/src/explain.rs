//! The engine that a walk would use, and why, without walking.

use crate::error::{EngineRefusal, Error};
use crate::kind::EngineKind;
use crate::plan::{Plan, PlanReason, plan};
use crate::sink::Fields;
use crate::top::{MountContext, mounts_around, open_tops};
use crate::traversal::Part;

/// The plan for the mount of a directory.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The directory, as it was given.
    pub path: Vec<u8>,
    /// Type of the file system, where the mount table says.
    pub fstype: Option<Vec<u8>>,
    /// The engine, and whether the others can work there.
    pub plan: Plan,
}

impl Explained {
    /// The part of a walk that would follow this plan.
    pub fn part(&self) -> Part {
        Part {
            path: self.path.clone(),
            fstype: self.fstype.clone(),
            engine: self.plan.engine,
            reason: self.plan.reason.clone(),
        }
    }

    /// The engines, and whether each can work there.
    pub fn choices(&self) -> impl Iterator<Item = EngineChoice<'_>> {
        let Explained { path, plan, .. } = self;
        plan.engines
            .iter()
            .map(move |(engine, possible)| EngineChoice {
                path,
                engine: *engine,
                refusal: possible.as_ref().err(),
                reason: (*engine == plan.engine).then_some(&plan.reason),
            })
    }

    /// The engines that cannot work there because they need root.
    pub fn needing_root(&self) -> impl Iterator<Item = EngineKind> {
        let needs_root = |engine: &EngineKind| {
            matches!(self.plan.refusal(*engine), Some(EngineRefusal::NotRoot(_)))
        };
        EngineKind::SELECTABLE.into_iter().filter(needs_root)
    }
}

/// An engine, and whether it can work in a directory.
#[derive(Clone, Copy, Debug)]
pub struct EngineChoice<'a> {
    /// The directory.
    pub path: &'a [u8],
    /// The engine.
    pub engine: EngineKind,
    /// Why it cannot.
    pub refusal: Option<&'a EngineRefusal>,
    /// Why it is the one that was chosen.
    pub reason: Option<&'a PlanReason>,
}

impl EngineChoice<'_> {
    /// Whether it can work there.
    pub fn is_possible(&self) -> bool {
        self.refusal.is_none()
    }
}

/// Makes the plan for the mount of each directory, for a walk with
/// [`WalkOptions::sink_syncs_first`](crate::WalkOptions::sink_syncs_first) or without, and for a sink
/// that needs these fields.
///
/// # Errors
/// A directory that cannot be walked.
pub fn explain(
    dirs: &[Vec<u8>],
    sink_syncs_first: bool,
    fields: Fields,
) -> Result<Vec<Explained>, Error> {
    let tops = open_tops(dirs)?;
    let mounts = mounts_around(tops.first());
    let explained = tops.into_iter().map(|top| {
        let mount = top.mount(&mounts);
        // Without a walk, directories that are read for an estimate keep their access times.
        let plan = plan(&MountContext {
            noatime: true,
            sink_syncs_first,
            names_suffice: fields.are_in_names(),
            ..MountContext::new(&top, mount)
        });
        Explained {
            path: top.path,
            fstype: mount.map(|row| row.content.fstype.clone()),
            plan,
        }
    });
    Ok(explained.collect())
}
