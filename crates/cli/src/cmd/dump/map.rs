//! The map of `--map`: a readable list of all dumped members, in a file or on standard error.

use std::io::Write;

use archive::dump::{Line, Map};
use archive::{Action, Error};
use gate::file::{Permissions, Writer};

use super::show;

pub(super) struct MapFile {
    path: Vec<u8>,
    /// The file of the map; `None` for standard error.
    file: Option<Writer>,
    lines: String,
}

impl MapFile {
    pub(super) fn create(path: &[u8]) -> Result<MapFile, Error> {
        let file = match path {
            b"-" => None,
            path => {
                let file = Writer::create(path, Permissions::Private);
                Some(file.map_err(|e| Error::new(Action::WriteMap, path, e))?)
            }
        };
        Ok(MapFile {
            path: path.to_vec(),
            file,
            lines: String::new(),
        })
    }
}

impl Map for MapFile {
    fn add(&mut self, line: &Line<'_>) -> Result<(), Error> {
        const PIECE: usize = 256 << 10;
        show::map_line(line, &mut self.lines);
        if self.lines.len() < PIECE {
            Ok(())
        } else {
            self.end()
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        let lines = std::mem::take(&mut self.lines);
        let written = match &mut self.file {
            Some(file) => file.write_all(lines.as_bytes()),
            None => std::io::stderr().write_all(lines.as_bytes()),
        };
        written.map_err(|e| Error::new(Action::WriteMap, &self.path, e))
    }

    fn publish(&mut self) -> Result<(), Error> {
        self.file.take().map_or(Ok(()), |file| {
            file.publish()
                .map_err(|e| Error::new(Action::WriteMap, &self.path, e))
        })
    }
}
