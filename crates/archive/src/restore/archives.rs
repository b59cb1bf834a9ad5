//! The archives that are restored, in their order.

use catalog::remote::is_remote;
use gate::fs::{At, FileType, Want};
use gate::long::statx_long;

use super::name::Chosen;
use super::report::Note;
use super::sequence::Sequence;
use crate::error::{Action, Error};
use crate::increment::record::DumpRecord;
use crate::input::{Input, is_regular};

pub(super) struct Archives {
    sequence: Sequence,
    /// Standard input, of which the first headers were read.
    stdin: Option<Input>,
    /// They are a full dump and its increments, or might be.
    pub(super) are_chain: bool,
    /// The data of members is read, and checked.
    with_data: bool,
    /// The records of the archives, if they are from a state directory.
    recorded: Vec<DumpRecord>,
}

impl Archives {
    /// Opens all archives that can be read twice, and puts a chain in order. `may_continue` says that what the first one
    /// is based on may have been restored before.
    ///
    /// # Errors
    /// One of them cannot be read, or they have no order.
    pub(super) fn open(
        (archives, recorded): (&[Vec<u8>], &[DumpRecord]),
        (are_chain, may_continue, with_data): (bool, bool, bool),
        chosen: &Chosen,
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
            let seen = statx_long(path, At::empty(), Want::TYPE)
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
    /// It cannot be read, or is a stream with another archive than the next one of the chain.
    pub(super) fn input(&mut self, nth: usize, chosen: &Chosen) -> Result<Input, Error> {
        let path = &self.sequence.archives[nth];
        if let Some(input) = self.stdin.take_if(|_| path == b"-") {
            return Ok(input);
        }
        if self.are_chain && !is_regular(path) {
            return self.open_stream(nth, chosen);
        }
        // The file that is read is the one that is checked.
        let mut recorded = self.recorded.iter();
        let recorded = recorded.find(|dump| dump.archive.as_ref() == Some(path));
        let open = recorded.map(|dump| dump.open(path)).transpose()?.flatten();
        let mut input = Input::from_file(path, open)?;
        match chosen.regions().filter(|_| self.with_data) {
            Some(regions) => {
                input.check_used();
                input.narrow(regions);
            }
            // All of it is read anyway.
            None if self.with_data => input.check(),
            None => {}
        }
        Ok(input)
    }

    /// Opens a stream, and checks that it is the next archive.
    fn open_stream(&mut self, nth: usize, chosen: &Chosen) -> Result<Input, Error> {
        let mut input = Input::open(&self.sequence.archives[nth])?;
        match chosen.is_all() {
            _ if !self.with_data => {}
            true => input.check(),
            false => input.check_used(),
        }
        // What is wrong with it is reported when its members are read.
        let origin = input.origin().unwrap_or_default();
        self.sequence.learn(nth, origin)?;
        Ok(input)
    }
}
