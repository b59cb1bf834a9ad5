//! The archives of a restore, in order.

use catalog::remote::is_remote;
use gate::fs::{FileType, StatxMask};
use gate::long::stat_long;

use super::report::Note;
use super::selected::SelectedPaths;
use super::sequence::Sequence;
use crate::error::{Action, Error};
use crate::increment::record::DumpRecord;
use crate::input::{Input, is_regular};

pub(super) struct Archives {
    sequence: Sequence,
    /// Standard input, if its first headers were read already.
    stdin: Option<Input>,
    /// Whether the archives are, or might be, a full dump and its increments.
    pub(super) are_chain: bool,
    /// Whether the data of members is read and checked, unlike in a dry run.
    with_data: bool,
    /// Records of the archives, if restored from a state directory.
    recorded: Vec<DumpRecord>,
}

impl Archives {
    /// Opens all archives that can be read twice, and sorts those of a chain. `may_continue`: an
    /// earlier run may have restored the base of the first archive.
    ///
    /// # Errors
    /// An archive cannot be read, or the archives cannot be ordered.
    pub(super) fn open(
        (archives, recorded): (&[Vec<u8>], &[DumpRecord]),
        (are_chain, may_continue, with_data): (bool, bool, bool),
        chosen: &SelectedPaths,
    ) -> Result<Archives, Error> {
        for dump in recorded {
            if let Some(path) = &dump.archive {
                dump.open(path)?;
            }
        }
        for path in archives.iter().filter(|path| *path != b"-") {
            if is_remote(path) {
                Input::open(path)?;
                continue;
            }
            let seen = stat_long(path, StatxMask::TYPE)
                .map_err(|errno| Error::new(Action::OpenArchive, path, errno))?;
            if seen.file_type == FileType::Regular {
                Input::open(path)?;
            }
        }
        let mut archives = Archives {
            sequence: Sequence::new(archives, may_continue),
            stdin: None,
            are_chain,
            with_data,
            recorded: recorded.to_vec(),
        };
        if are_chain {
            archives.sequence.arrange()?;
            if let Some(nth) = archives.names().iter().position(|path| path == b"-") {
                archives.stdin = Some(archives.open_stream(nth, chosen)?);
            }
        }
        Ok(archives)
    }

    pub(super) fn names(&self) -> &[Vec<u8>] {
        &self.sequence.archives
    }

    pub(super) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.sequence.notes)
    }

    /// Opens an archive to read its members.
    ///
    /// # Errors
    /// The archive cannot be read, or is a stream that is not the next archive of the chain.
    pub(super) fn input(&mut self, nth: usize, chosen: &SelectedPaths) -> Result<Input, Error> {
        let path = &self.sequence.archives[nth];
        if let Some(input) = self.stdin.take_if(|_| path == b"-") {
            return Ok(input);
        }
        if self.are_chain && !is_regular(path) {
            return self.open_stream(nth, chosen);
        }
        // Open the file only once, so that the checked file is the one that is read.
        let mut recorded = self.recorded.iter();
        let recorded = recorded.find(|dump| dump.archive.as_ref() == Some(path));
        let open = recorded.map(|dump| dump.open(path)).transpose()?.flatten();
        let mut input = Input::from_file(path, open)?;
        let regions = chosen.regions();
        match &regions {
            _ if !self.with_data => {}
            Some(_) => input.check_used(),
            // All data is read in any case, so check all of it.
            None => input.check(),
        }
        if let Some(regions) = regions {
            input.narrow(regions);
        }
        Ok(input)
    }

    /// Opens a stream, and checks that it is the next archive of the chain.
    fn open_stream(&mut self, nth: usize, chosen: &SelectedPaths) -> Result<Input, Error> {
        let mut input = Input::open(&self.sequence.archives[nth])?;
        match chosen.is_all() {
            _ if !self.with_data => {}
            true => input.check(),
            false => input.check_used(),
        }
        // Errors are reported later, when the members are read.
        let origin = input.origin().unwrap_or_default();
        self.sequence.add_origin(nth, origin)?;
        Ok(input)
    }
}
