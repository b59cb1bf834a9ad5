//! The catalog of a walk; or its parts, if the ranks of an MPI job or the processes of `--shard`
//! write them.
//!
//! With `--resume`, the ranks walk one piece (shard) of the tree after the other, and each rank
//! writes a part for each piece. An entry can be found by a different rank in each walk, but always
//! belongs to the same piece. So a piece of which all parts exist is kept, and all ranks walk any
//! other piece again.

use std::os::unix::ffi::OsStrExt;

use catalog::remote::{as_prefix, is_remote};
use catalog::{Catalog, Options, ShardOfRun, Writer, catalogs_in, finished_part, remove_part};
use gate::Errno;
use team::Team;
use walk::entry::joined;

use super::request::Request;
use crate::error::Error;
use crate::hint::OLD_PARTS;
use crate::out::create_directories;
use crate::ranks::resume::{EarlierPart, EarlierParts, PIECES};
use crate::ranks::{
    WRITING_CATALOG, agree, check_outside, create_dir, create_on_all, create_output, has_old_part,
    names_file, of_first, part_of_run,
};

/// The catalog of a walk, or the directory with its parts.
pub(super) struct Parts {
    /// The directory of the parts; or the catalog file, if it is not divided.
    dir: Vec<u8>,
    /// The start directory of the walk.
    top: Vec<u8>,
    /// The exclusions, with this rank's part of the first piece.
    options: Options,
    ranks: u32,
    /// For each piece, whether an earlier attempt has finished it.
    pub(super) is_kept: Vec<bool>,
}

/// Whether the ranks of an MPI job write parts to a directory. The only rank of a job writes a
/// single catalog to a name such as `srv.parquet`.
fn writes_parts(request: &Request<'_>, catalog: &[u8], team: &dyn Team) -> bool {
    let args = request.args;
    let is_file = || !args.resume && args.run.is_none() && names_file(catalog);
    team.is_job() && !(team.is_alone() && is_file())
}

impl Parts {
    /// Creates the directory of the parts, and finds the parts that exist already. `None` without
    /// `--catalog`.
    pub(super) fn prepare(request: &Request<'_>, team: &dyn Team) -> Result<Option<Parts>, Error> {
        let Some(dir) = request.args.catalog.as_ref() else {
            return Ok(None);
        };
        let [top] = &request.options.dirs[..] else {
            return Err(Error::new("--catalog cannot be used with several DIRs")
                .with_hint("run fathom walk once per DIR"));
        };
        let mut parts = Parts {
            dir: dir.as_bytes().to_vec(),
            top: top.clone(),
            options: request.selection.clone(),
            ranks: 1,
            is_kept: vec![false],
        };
        match &request.selection.shard {
            _ if writes_parts(request, dir.as_bytes(), team) => {
                parts.prepare_ranks(request, team)?;
            }
            Some(shard) => parts.prepare_shard(shard, request)?,
            None => {}
        }
        Ok(Some(parts))
    }

    fn prepare_ranks(&mut self, request: &Request<'_>, team: &dyn Team) -> Result<(), Error> {
        let args = request.args;
        let mut part = part_of_run(args.run.clone(), team);
        self.dir = as_prefix(&self.dir);
        self.ranks = part.of;
        let dir = &self.dir;
        if args.resume {
            part.of *= PIECES;
            self.is_kept = vec![false; PIECES as usize];
            self.options.shard = Some(part.clone());
            let found = match team.rank() {
                0 => check_outside(dir, &request.options.dirs, WRITING_CATALOG)
                    .and_then(|()| create_dir(dir, WRITING_CATALOG))
                    .and_then(|()| self.find(args.run.as_ref())),
                _ => Ok((None, Vec::new())),
            };
            let found = agree(team, found)?;
            let (run, is_kept) = of_first(team, found);
            part.run = run.or(part.run);
            self.is_kept = is_kept;
        } else {
            create_output(dir, WRITING_CATALOG, team, |dir| Ok(catalogs_in(dir)?))?;
        }
        self.options.shard = Some(part);
        create_on_all(&self.dir, WRITING_CATALOG, team)
    }

    /// Creates the directory of the shards. With `--resume`, keeps this shard's part if an earlier
    /// attempt finished it without skipping anything.
    fn prepare_shard(&mut self, shard: &ShardOfRun, request: &Request<'_>) -> Result<(), Error> {
        if request.args.resume {
            let file = self.file(&self.options);
            let tops = &request.options.dirs;
            let finished = finished_part(&file, tops, &self.options, Writer::Walk)?;
            if finished.as_ref().is_some_and(|it| it.run != shard.run) {
                const WHY: &str = "it is of another run";
                return Err(Error::write("cannot write catalog", &file, WHY, OLD_PARTS));
            }
            if finished.is_some_and(|it| it.complete) {
                self.is_kept = vec![true];
                return Ok(());
            }
        }
        self.dir = as_prefix(&self.dir);
        if !is_remote(&self.dir) {
            create_directories(&self.dir).map_err(|errno| {
                let next = "give a directory that you can write to";
                Error::write(WRITING_CATALOG, &self.dir, errno, next)
            })?;
        }
        // The directory may contain other shards of this run, but none of a run with a different
        // number of shards.
        let suffix = format!("-of-{}.parquet", shard.of);
        let mut names = catalogs_in(&self.dir)?.unwrap_or_default().into_iter();
        match names.find(|name| !name.ends_with(suffix.as_bytes())) {
            Some(old) => Err(has_old_part(WRITING_CATALOG, &self.dir, &old)),
            None => Ok(()),
        }
    }

    /// Finds the pieces that earlier attempts finished, and the name of the run. Removes parts of
    /// unfinished pieces: an attempt that was killed between renames left parts of some ranks only,
    /// and the next attempt distributes the entries differently.
    fn find(&self, wanted: Option<&String>) -> Result<(Option<String>, Vec<bool>), Error> {
        let dirs = std::slice::from_ref(&self.top);
        let of_walk = (dirs, &self.options, Writer::Walk);
        let EarlierParts { run, parts } = EarlierParts::find(&self.dir, of_walk, wanted)?;
        let piece = |part: &EarlierPart| (part.number / self.ranks) as usize;
        let mut finished = vec![0; PIECES as usize];
        for part in &parts {
            finished[piece(part)] += u32::from(part.finished.complete);
        }
        let is_kept = |piece: usize| finished[piece] == self.ranks;
        for part in parts.iter().filter(|part| !is_kept(piece(part))) {
            remove_part(&part.file)?;
        }
        Ok((run, (0..finished.len()).map(is_kept).collect()))
    }

    /// The selection of entries for a piece: the exclusions, and the shard of this rank.
    pub(super) fn selection(&self, piece: u32) -> Options {
        let mut options = self.options.clone();
        if let Some(part) = &mut options.shard {
            part.number += piece * self.ranks;
        }
        options
    }

    /// The file of this process's part.
    pub(super) fn file(&self, selection: &Options) -> Vec<u8> {
        match &selection.shard {
            Some(part) => joined(&self.dir, part.file_name().as_bytes()),
            None => self.dir.clone(),
        }
    }

    pub(super) fn create(&self, selection: Options) -> Result<Catalog, Error> {
        let is_part = selection.shard.is_some();
        let file = self.file(&selection);
        let created = Catalog::create(&file, &self.top, selection);
        created.map_err(|error| match error.errno() {
            Some(Errno::EISDIR) if !is_part => Error::from(error)
                .with_hint("to write parts to a directory, use --shard I/N or mpirun"),
            _ => error.into(),
        })
    }

    /// Number of kept parts, and of all parts.
    pub(super) fn kept(&self) -> (usize, usize) {
        let ranks = self.ranks as usize;
        let kept = self.is_kept.iter().filter(|is_kept| **is_kept).count();
        (kept * ranks, self.is_kept.len() * ranks)
    }
}
