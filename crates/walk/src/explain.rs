//! Explains, without walking, the engine that a walk would choose.

use crate::error::{EngineRefusal, Error};
use crate::kind::EngineKind;
use crate::plan::{Plan, PlanReason, plan};
use crate::sink::Fields;
use crate::top::{MountContext, mounts_around, open_tops};
use crate::traversal::WalkedMount;

/// The engine chosen for the mount of a directory, and why.
#[derive(Clone, Debug)]
pub struct ExplainedPlan {
    /// The directory, as given.
    pub path: Vec<u8>,
    /// Type of the file system, if the mount table has it.
    pub fstype: Option<Vec<u8>>,
    /// The chosen engine, and whether the others can work on this mount.
    pub plan: Plan,
}

impl ExplainedPlan {
    /// The [`WalkedMount`] of a walk report that this plan leads to.
    pub fn part(&self) -> WalkedMount {
        WalkedMount {
            path: self.path.clone(),
            fstype: self.fstype.clone(),
            engine: self.plan.engine,
            reason: self.plan.reason.clone(),
        }
    }

    /// All engines, and whether each can work on this mount.
    pub fn choices(&self) -> impl Iterator<Item = EngineChoice<'_>> {
        let ExplainedPlan { path, plan, .. } = self;
        plan.engines
            .iter()
            .map(move |(engine, possible)| EngineChoice {
                path,
                engine: *engine,
                refusal: possible.as_ref().err(),
                reason: (*engine == plan.engine).then_some(&plan.reason),
            })
    }

    /// The engines that cannot work on this mount because they need root.
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
    /// The directory, as given.
    pub path: &'a [u8],
    /// The engine that can or cannot work in the directory.
    pub engine: EngineKind,
    /// Why the engine cannot work in the directory; `None` if it can.
    pub refusal: Option<&'a EngineRefusal>,
    /// Why the engine was chosen; `None` if it was not.
    pub reason: Option<&'a PlanReason>,
}

impl EngineChoice<'_> {
    /// Whether the engine can work in the directory.
    pub fn is_possible(&self) -> bool {
        self.refusal.is_none()
    }
}

/// Chooses an engine for the mount of each directory, for a walk whose sink needs these fields,
/// with [`WalkOptions::sink_syncs_first`](crate::WalkOptions::sink_syncs_first) or without.
///
/// # Errors
/// A directory that cannot be walked.
pub fn explain(
    dirs: &[Vec<u8>],
    sink_syncs_first: bool,
    fields: Fields,
) -> Result<Vec<ExplainedPlan>, Error> {
    let tops = open_tops(dirs)?;
    let mounts = mounts_around(tops.first());
    let explained = tops.into_iter().map(|top| {
        let mount = top.mount(&mounts);
        // `noatime`: reading directories for an estimate must not change their access times.
        let plan = plan(&MountContext {
            noatime: true,
            sink_syncs_first,
            names_suffice: fields.are_in_names(),
            ..MountContext::new(&top, mount)
        });
        ExplainedPlan {
            path: top.path,
            fstype: mount.map(|row| row.content.fstype.clone()),
            plan,
        }
    });
    Ok(explained.collect())
}
