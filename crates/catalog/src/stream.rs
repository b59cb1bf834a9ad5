//! Reads a file, device, FIFO, standard input or object sequentially.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use gate::fs::read;
use gate::{Errno, Fd, Gate};

use crate::error::ErrorKind;
use crate::remote::ObjectStream;

/// Number of bytes per read(2).
const CHUNK: usize = 64 << 10;

/// A source of sequential reads.
pub enum Stream {
    /// Standard input.
    Stdin,
    /// A file, device or pipe.
    File(Arc<Fd>),
    /// An object in a store.
    Object(Box<dyn ObjectStream>),
}

impl Stream {
    /// Reads the next bytes; 0 at the end.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ErrorKind> {
        loop {
            let read = match self {
                Stream::File(fd) => read(&**fd, buffer),
                Stream::Stdin => read(io::stdin(), buffer),
                Stream::Object(object) => return Ok(object.read(buffer)?),
            };
            if read != Err(Errno::EINTR) {
                return read.map_err(ErrorKind::call(Gate::Read));
            }
        }
    }
}

/// A stream with a read-ahead buffer.
pub struct Buffered {
    stream: Stream,
    /// Bytes read ahead; the bytes before `from` are consumed.
    buffer: Vec<u8>,
    from: usize,
    /// Whether a read was attempted after the end of the stream.
    is_exhausted: bool,
}

impl Buffered {
    /// A stream whose first bytes, `head`, were read already.
    pub fn new(stream: Stream, head: Vec<u8>) -> Buffered {
        Buffered {
            stream,
            buffer: head,
            from: 0,
            is_exhausted: false,
        }
    }

    /// Whether a read was attempted after the end of the stream.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// The next bytes, without consuming them: at least `n`, fewer only at the end.
    pub fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.from < n {
            self.buffer.drain(..std::mem::take(&mut self.from));
            let have = self.buffer.len();
            self.buffer.resize(have + CHUNK, 0);
            let read = self.stream.read(&mut self.buffer[have..]);
            self.buffer.truncate(have + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                break;
            }
        }
        Ok(&self.buffer[self.from..])
    }
}

impl Read for Buffered {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let have = self.peek(1)?;
        let n = have.len().min(to.len());
        to[..n].copy_from_slice(&have[..n]);
        self.is_exhausted |= have.is_empty() && !to.is_empty();
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Buffered {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.peek(1)
    }

    fn consume(&mut self, n: usize) {
        self.from += n;
    }
}
