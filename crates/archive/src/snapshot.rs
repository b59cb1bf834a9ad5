//! The catalog of a tree whose snapshots are in a repository. Without changes since the catalog was
//! written, the next snapshot reuses the last one's tree: no entry is read, and no directory is
//! encoded. Otherwise the catalog tells which directories have changed.

use std::sync::Arc;

use catalog::part::Part;
use catalog::remote;
use catalog::rows::Rows;
use catalog::since::{GoneMount, MountPoints};
use catalog::{About, CatalogDraft, RowInclusion, RowUpdates, SnapshotRecord, trusted};
use walk::entry::joined;
use walk::{Diagnostics, Moment};

use crate::dump::DumpOptions;
use crate::error::{Action, Error, ErrorKind};
use crate::gather::{Gathered, engines, gather};
use crate::increment::{Base, Scanned, Unchanged, changed_rows, scan};

/// The catalog of the last snapshot, to be replaced by that of the next.
pub struct SnapshotCatalog<'a> {
    path: Vec<u8>,
    options: &'a DumpOptions,
    /// Whether snapshots record the device number of each entry.
    has_devices: bool,
    begun: Moment,
    base: Option<Base>,
}

/// The current tree, compared with the catalog.
#[derive(Debug)]
pub enum TreeState<K> {
    /// Nothing has changed since the catalog was written.
    Unchanged {
        /// The caller's data of the last snapshot, as passed to [`SnapshotCatalog::collect`].
        kept: K,
        /// The mounts, with the evidence that they are unchanged.
        parts: Vec<Gathered>,
        /// The file systems with their current tokens; empty if the catalog's tokens are still
        /// current.
        renewed: Vec<Part>,
    },
    /// Something may have changed.
    Collected {
        /// The entries of the tree.
        rows: Arc<Rows>,
        /// The mounts gathered.
        parts: Vec<Gathered>,
        /// The caller's data of the last snapshot; and for each row, whether the entry or anything
        /// below it has changed since that snapshot.
        last: Option<(K, Vec<bool>)>,
        /// Mounts that have disappeared since the last snapshot.
        gone: Vec<GoneMount>,
    },
}

impl<'a> SnapshotCatalog<'a> {
    /// Opens a catalog in a state directory. If it is missing, damaged, or of different sources, it
    /// will be replaced. `has_devices`: snapshots record the device number of each entry.
    ///
    /// # Errors
    /// The catalog cannot be read, or other users may have written it or can write to the
    /// directory.
    pub fn open(
        state: &[u8],
        name: &[u8],
        options: &'a DumpOptions,
        has_devices: bool,
    ) -> Result<SnapshotCatalog<'a>, Error> {
        if !remote::is_remote(state) {
            let opened = trusted::open_directory(state);
            opened.map_err(|kind| Error::new(Action::OpenState, state, kind))?;
        }
        let path = joined(state, name);
        let base = match Base::open(&path, &options.sources) {
            Ok(base) => Some(base),
            Err(e) if is_of_others(&e.kind) => return Err(e),
            Err(e) if e.action == Action::UseBase || can_be_replaced(&e.kind) => None,
            Err(e) => return Err(e),
        };
        Ok(SnapshotCatalog {
            path,
            options,
            has_devices,
            begun: Moment::now(),
            base,
        })
    }

    /// The snapshot that the catalog describes.
    pub fn snapshot(&self) -> Option<&SnapshotRecord> {
        self.base.as_ref()?.about().snapshot.as_ref()
    }

    /// Collects the tree, or finds that nothing has changed. `kept` is the caller's data of the
    /// last snapshot; without it, the tree is always collected.
    ///
    /// # Errors
    /// The tree cannot be walked, or the catalog cannot be read.
    pub fn collect<K>(
        &self,
        kept: Option<K>,
        diagnostics: &Diagnostics,
    ) -> Result<TreeState<K>, Error> {
        let mut request = self.options.collect_options(Some(self.begun));
        let base = self.base.as_ref();
        let base = base.filter(|base| !self.has_devices || has_same_devices(base.about()));
        let Some((base, kept)) = base.zip(kept) else {
            let (rows, parts) = gather(&request, diagnostics)?;
            return self.collected(rows, parts, None);
        };
        request.expected = Some(base.entries());
        let scanned = scan(base, &request, &self.options.selection, diagnostics)?;
        Ok(match scanned {
            Scanned::Unchanged(Unchanged { parts, renewed, .. }) => TreeState::Unchanged {
                kept,
                parts,
                renewed,
            },
            Scanned::Differing(collector, parts) => {
                let rows = collector.finish(engines(&parts));
                let changed = changed_rows(base, &rows, &self.options.selection)?;
                self.collected(rows, parts, changed.map(|changed| (kept, changed)))?
            }
        })
    }

    fn collected<K>(
        &self,
        rows: Rows,
        parts: Vec<Gathered>,
        last: Option<(K, Vec<bool>)>,
    ) -> Result<TreeState<K>, Error> {
        let gone = self
            .base
            .as_ref()
            .map(|base| base.missed_mounts(Some(&rows)));
        Ok(TreeState::Collected {
            rows: Arc::new(rows),
            parts,
            last,
            gone: gone.transpose()?.unwrap_or_default(),
        })
    }

    /// The mounts that were missing in the last snapshot.
    pub fn gone_mounts(&self) -> &[GoneMount] {
        let about = self.base.as_ref().map(Base::about);
        about.map_or(&[], |about| &about.gone_mounts)
    }

    /// Creates the file of the next catalog, not yet renamed into place.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn draft(&self) -> Result<CatalogDraft, Error> {
        Ok(CatalogDraft::create(&self.path)?)
    }

    /// Replaces the catalog by that of a new snapshot. `gone` are mounts that have disappeared;
    /// `is_complete`: nothing was skipped.
    ///
    /// # Errors
    /// The new catalog cannot be written.
    pub fn replace(
        &self,
        draft: CatalogDraft,
        (rows, gone): (&Rows, Vec<GoneMount>),
        snapshot: SnapshotRecord,
        is_complete: bool,
    ) -> Result<(), Error> {
        let draft = draft.with_gone_mounts(gone);
        let sealed = draft.with_snapshot(Some(snapshot)).write(
            rows,
            self.options.selection.clone(),
            |_| RowInclusion::Row,
            || Ok(()),
            |_, ()| Ok(RowUpdates::default()),
            || is_complete,
        )?;
        sealed.publish()?;
        Ok(())
    }

    /// Updates the tokens and the snapshot of the catalog, so that the next run need not check
    /// again the files that were only read since the catalog was written.
    ///
    /// # Errors
    /// The catalog cannot be written.
    pub fn renew(&self, renewed: &[Part], snapshot: &SnapshotRecord) -> Result<(), Error> {
        match &self.base {
            Some(base) => {
                let describe = |about: &mut About| about.snapshot = Some(snapshot.clone());
                base.copy_to(&self.path, renewed, describe)
            }
            None => Ok(()),
        }
    }
}

fn is_of_others(kind: &ErrorKind) -> bool {
    use catalog::ErrorKind::{OtherOwner, OthersMayWrite};
    matches!(
        kind,
        ErrorKind::Catalog(OtherOwner { .. } | OthersMayWrite { .. })
    )
}

/// Whether an unusable catalog may be replaced: it is missing or damaged.
fn can_be_replaced(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Catalog(kind) if kind.is_missing() || kind.is_unusable_catalog())
}

/// Whether all file systems still have the recorded device numbers.
fn has_same_devices(about: &About) -> bool {
    let points = MountPoints::default();
    about.parts.iter().all(|part| {
        let root = about.roots.get(part.top as usize);
        let now = root.and_then(|root| {
            // The mount table has no symlinks in its paths.
            let top = mounts::root::absolute(&root.path).unwrap_or_else(|| root.path.clone());
            points.device(&joined(&top, &part.path))
        });
        now == Some(part.dev)
    })
}
