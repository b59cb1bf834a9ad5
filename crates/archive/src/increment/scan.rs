//! Collects the tree as it is now for an increment. Where the file system tells what was written
//! since the base (btrfs, XFS), only that is read, and all else is taken from the catalog.

use crate::attribution::{self, Function};
use crate::error::Error;
use ondisk::Dev;
use walk::{Diagnostics, EngineKind, Entry, Meta, MountContext, Sink};

use super::Base;
use crate::catalog::Reader;
use crate::catalog::columns::{DIR, NAME};
use crate::gather::{
    CollectOptions, CollectReport, Gather, Gathered, collect, directory_collector,
};
use crate::rows::Collector;
use crate::since::index::each_group;
use crate::since::{Differing, Scan, Step, Written, give};

/// Collects the tree for an increment.
pub(super) struct DumpScan<'a> {
    pub(super) base: &'a Base,
    pub(super) request: &'a CollectOptions,
    /// The base is complete, and of the same options: what it has is all that would be dumped.
    pub(super) is_same_choice: bool,
    pub(super) desk: &'a Diagnostics,
}

impl DumpScan<'_> {
    /// The one mount, if it was not walked.
    pub(super) fn part(&self, engine: EngineKind, why: String) -> Gathered {
        Gathered {
            path: self.request.sources.first().cloned().unwrap_or_default(),
            fstype: None,
            gather: Gather::from_engine(engine),
            engine,
            why,
        }
    }
}

impl<'a> Scan for DumpScan<'a> {
    type Started = Collector<'a>;
    type Scanned = (Collector<'a>, CollectReport);
    type Error = Error;

    fn accepts(&self, step: Step, by: EngineKind) -> bool {
        match (self.request.gather, step) {
            (None, _) => true,
            (Some(only), Step::Token) => only == Gather::from_engine(by),
            (Some(_), Step::Written) => false,
        }
    }

    fn start(&self, ground: &MountContext<'_>, by: EngineKind) -> Option<Collector<'a>> {
        attribution::set_phase(Function::Information);
        let gathering = directory_collector(self.request, self.desk)?;
        // This takes the token for the new catalog, so it must precede every look at the tree.
        gathering.begin(ground, by);
        Some(gathering)
    }

    fn scan_written(
        &self,
        gathering: Collector<'a>,
        written: Written<'_>,
    ) -> Result<(Collector<'a>, CollectReport), Error> {
        let Written {
            by,
            evidence,
            ground,
            differing,
        } = written;
        let source = &self.request.sources[0];
        let meta = ground.top.meta;
        let place = (meta.dev, meta.mount);
        emit_rows(&self.base.reader, &differing, source, place, &gathering)?;
        differing.emit(source, &gathering);
        let why = format!("{evidence}, and the rest is as the catalog says");
        let parts = vec![self.part(by, why)];
        Ok((gathering, CollectReport { parts }))
    }

    fn scan_all(&self) -> Result<(Collector<'a>, CollectReport), Error> {
        Ok(collect(self.request, true, self.desk)?)
    }

    fn digest(&self, (gathering, gathered): &(Collector<'a>, CollectReport)) -> Option<String> {
        // What was skipped is missing from both digests.
        if !self.is_same_choice || self.desk.has_warnings() {
            return None;
        }
        let seen = gathering.seen(gathered.engines())?;
        self.base.is_of(&seen.sources, &seen.parts).ok()?;
        Some(seen.totals.digest.to_string())
    }
}

/// Sends the rows of a catalog that still hold to a sink. A catalog has neither the mount nor the
/// number that the device has today, so these are given.
fn emit_rows(
    reader: &Reader,
    differing: &Differing,
    root: &[u8],
    (dev, mount): (Dev, u64),
    to: &Collector<'_>,
) -> Result<(), Error> {
    let read = |group: usize| {
        let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
        let meta = reader.metas(group)?;
        let first = reader.first(group);
        let Differing { places, atimes, .. } = differing;
        let mut stale = places[places.partition_point(|&place| place < first)..]
            .iter()
            .peekable();
        let mut worker = to.worker();
        let (mut at, mut entries) = (0, Vec::new());
        while at < names.len() {
            let dir = &dirs[at];
            entries.clear();
            while at < names.len() && &dirs[at] == dir {
                if stale.next_if_eq(&&(first + at as u32)).is_none() {
                    let meta = meta(at);
                    let atime = atimes.get(&meta.ino).copied().unwrap_or(meta.atime);
                    entries.push(Entry {
                        name: &names[at],
                        meta: Meta {
                            dev,
                            mount,
                            atime,
                            ..meta
                        },
                    });
                }
                at += 1;
            }
            give(&mut *worker, root, dir, &entries);
        }
        Ok(())
    };
    each_group(reader, read, |_, ()| {})
}
