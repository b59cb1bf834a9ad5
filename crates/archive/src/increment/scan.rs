//! Collects the current tree for an increment. Where the file system reports what was written since
//! the base (btrfs, XFS), only that is read, and the rest is taken from the base catalog.

use catalog::rows::Collector;
use catalog::since::{EngineStep, Written};
use gate::attribution::{self, Function};
use walk::{Diagnostics, EngineKind, MountContext, Sink};

use super::base::Base;
use crate::gather::{CollectOptions, Gather, GatherReason, Gathered, directory_collector, engines};

/// Collects the current tree for an increment.
pub(super) struct DumpScan<'a> {
    pub(super) base: &'a Base,
    pub(super) request: &'a CollectOptions,
    /// The base is complete and has the same options, so it contains every entry of the dump.
    pub(super) has_same_options: bool,
    pub(super) diagnostics: &'a Diagnostics,
}

impl<'a> DumpScan<'a> {
    /// The report's entry for a mount that was not walked.
    pub(super) fn part(&self, engine: EngineKind, why: GatherReason) -> Gathered {
        Gathered {
            path: self.request.sources.first().cloned().unwrap_or_default(),
            engine,
            why,
        }
    }

    pub(super) fn accepts(&self, step: EngineStep, by: EngineKind) -> bool {
        // Racy entries would not be read again here, but other gathering methods dump them again,
        // and the archive must not depend on the method.
        if self.base.about().racy > 0 {
            return false;
        }
        match (self.request.gather, step) {
            (None, _) => true,
            (Some(only), EngineStep::Token) => only == Gather::from_engine(by),
            (Some(_), EngineStep::Written) => false,
        }
    }

    pub(super) fn few(by: EngineKind, entries: usize) -> usize {
        // An increment reads and writes all rows of the catalog in any case, so reading only
        // written inodes saves little, and on ext4 nothing.
        match by {
            EngineKind::Ext4 => 0,
            _ => 20 + entries / 500,
        }
    }

    /// An empty collector, prepared before the file system is asked what was written.
    pub(super) fn start(&self, mount: &MountContext<'_>, by: EngineKind) -> Option<Collector<'a>> {
        attribution::set_phase(Function::Information);
        let collector = directory_collector(self.request, self.diagnostics)?;
        // `begin` reads the token for the new catalog, so it must precede every look at the tree.
        collector.begin(mount, by);
        Some(collector)
    }

    /// Reads the entries written since the base; the rest is taken from the base.
    pub(super) fn scan_written(
        &self,
        collector: &Collector<'a>,
        written: Written<'_>,
    ) -> Result<Gathered, catalog::Error> {
        let differing = written.differing;
        let source = &self.request.sources[0];
        let meta = written.context.top.meta;
        let place = (meta.dev, meta.mount);
        differing.emit_unchanged(&self.base.reader, source, place, collector)?;
        differing.emit(source, collector);
        Ok(self.part(written.by, GatherReason::Written(written.evidence)))
    }

    /// Whether the digest of a scan equals that of the base.
    pub(super) fn is_same(&self, collector: &Collector<'_>, parts: &[Gathered]) -> bool {
        let about = self.base.about();
        // Skipped entries are missing from both digests, which then prove nothing. The digest does
        // not reveal changes of racy entries.
        if !self.has_same_options || self.diagnostics.has_warnings() || about.racy > 0 {
            return false;
        }
        let (sources, parts) = (collector.sources(), collector.parts(engines(parts)));
        let totals = collector.totals();
        totals.is_some_and(|totals| totals.digest.to_string() == about.digest)
            && self.base.check_sources(sources, &parts).is_ok()
    }
}
