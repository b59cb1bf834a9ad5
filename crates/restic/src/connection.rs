//! A connection to an SFTP server, through the standard streams of ssh. Responses come in the order
//! of requests.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use bytes::{Buf, BufMut, Bytes};
use catalog::StoreError;
use catalog::remote::MOST_BYTES;
use gate::interrupt;
use gate::sync::Mutex;

// Packet types of SFTP.
const INIT: u8 = 1;
const VERSION: u8 = 2;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const FSTAT: u8 = 8;
const SETSTAT: u8 = 9;
const FSETSTAT: u8 = 10;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const STAT: u8 = 17;
const RENAME: u8 = 18;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const NAME: u8 = 104;
const ATTRS: u8 = 105;
const EXTENDED: u8 = 200;

// Status codes of SFTP.
const OK: u32 = 0;
const EOF: u32 = 1;
const NO_SUCH_FILE: u32 = 2;
const PERMISSION_DENIED: u32 = 3;

// Flags of OPEN, and of file attributes.
const FOR_READING: u32 = 1;
const NEW_FOR_WRITING: u32 = 2 | 8 | 0x20;
const HAS_SIZE: u32 = 1;
const HAS_OWNER: u32 = 2;
const HAS_MODE: u32 = 4;
const HAS_TIMES: u32 = 8;
const HAS_EXTENDED: u32 = 1 << 31;

/// An extension that replaces an existing file, unlike RENAME.
const POSIX_RENAME: &str = "posix-rename@openssh.com";
const FSYNC: &str = "fsync@openssh.com";

/// Maximum length of a READ or WRITE request that every server accepts, in bytes.
const PIECE: usize = 32 << 10;
/// Maximum number of requests in flight: few enough that requests and responses fit into the
/// buffers between client and server, which avoids deadlock.
const MOST_AT_ONCE: usize = 64;
/// Maximum length of a packet.
const LONGEST: usize = 1 << 20;

/// An SFTP connection.
pub(crate) struct Connection {
    child: Child,
    to: Option<BufWriter<ChildStdin>>,
    from: BufReader<ChildStdout>,
    /// The last line that ssh printed to stderr.
    said: Arc<Mutex<String>>,
    /// The number of the last request.
    nth: u32,
    extensions: Vec<String>,
    /// The time of the last packet in either direction.
    last_packet: Arc<Mutex<Instant>>,
}

/// An entry of a remote directory.
pub(crate) struct DirEntry {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) is_dir: bool,
}

impl Connection {
    /// Starts ssh with these arguments.
    pub(crate) fn start(
        words: &[String],
        last_packet: Arc<Mutex<Instant>>,
    ) -> Result<Connection, StoreError> {
        let mut ssh = Command::new("ssh");
        ssh.args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Let ssh ignore signals: a terminal sends them to ssh, too, but this connection must still
        // remove the lock after a signal.
        let child = interrupt::ignored_by_child(|| ssh.spawn());
        let mut child =
            child.map_err(|e| StoreError::NoConnection(format!("cannot run ssh: {e}")))?;
        let (Some(to), Some(from), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StoreError::NoConnection("ssh has no streams".to_owned()));
        };
        let said = Arc::new(Mutex::new(String::new()));
        let last = Arc::clone(&said);
        let listener = thread::spawn(move || {
            /// Maximum bytes of a line of ssh's stderr.
            const LINE: u64 = 4096;
            let (mut errors, mut line) = (BufReader::new(errors), Vec::new());
            while (&mut errors)
                .take(LINE)
                .read_until(b'\n', &mut line)
                .is_ok_and(|n| n > 0)
            {
                let said = String::from_utf8_lossy(&line);
                if !said.trim().is_empty() {
                    said.trim().clone_into(&mut last.lock());
                }
                line.clear();
            }
        });
        let mut connection = Connection {
            child,
            to: Some(BufWriter::new(to)),
            from: BufReader::new(from),
            said,
            nth: 0,
            extensions: Vec::new(),
            last_packet,
        };
        match connection.begin() {
            Ok(()) => Ok(connection),
            Err(error) => {
                // The last line of ssh's stderr tells why there is no connection.
                connection.end();
                let _ = listener.join();
                match std::mem::take(&mut *connection.said.lock()) {
                    said if said.is_empty() => Err(error),
                    said => Err(StoreError::NoConnection(said)),
                }
            }
        }
    }

    fn begin(&mut self) -> Result<(), StoreError> {
        const PROTOCOL: u32 = 3;
        self.send_packet(INIT, &PROTOCOL.to_be_bytes())?;
        let (kind, mut body) = self.receive_packet()?;
        if kind != VERSION || body.try_get_u32() != Ok(PROTOCOL) {
            return Err(malformed());
        }
        while !body.is_empty() {
            let (name, _) = (take_text(&mut body)?, take_bytes(&mut body)?);
            self.extensions.push(name);
        }
        Ok(())
    }

    fn end(&mut self) {
        // ssh ends when its standard input is closed.
        drop(self.to.take());
        let _ = self.child.wait();
    }

    fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|name| name == extension)
    }

    fn lost(&self) -> StoreError {
        match &*self.said.lock() {
            said if said.is_empty() => StoreError::NoConnection("ssh has ended".to_owned()),
            said => StoreError::NoConnection(said.clone()),
        }
    }

    fn send_packet(&mut self, kind: u8, body: &[u8]) -> Result<(), StoreError> {
        let len = (body.len() as u32 + 1).to_be_bytes();
        let sent = self.to.as_mut().is_some_and(|to| {
            let parts = [&len[..], &[kind], body];
            parts.iter().all(|part| to.write_all(part).is_ok())
        });
        *self.last_packet.lock() = Instant::now();
        sent.then_some(()).ok_or_else(|| self.lost())
    }

    fn receive_packet(&mut self) -> Result<(u8, Bytes), StoreError> {
        if let Some(to) = &mut self.to {
            let _ = to.flush();
        }
        let mut len = [0; 4];
        self.from.read_exact(&mut len).map_err(|_| self.lost())?;
        let len = u32::from_be_bytes(len) as usize;
        if !(1..=LONGEST).contains(&len) {
            return Err(malformed());
        }
        let mut body = vec![0; len];
        self.from.read_exact(&mut body).map_err(|_| self.lost())?;
        *self.last_packet.lock() = Instant::now();
        let mut body = Bytes::from(body);
        let kind = body.get_u8();
        Ok((kind, body))
    }

    /// Sends a request. Its response comes after those of all earlier requests.
    fn request(&mut self, kind: u8, body: &[u8]) -> Result<(), StoreError> {
        self.nth = self.nth.wrapping_add(1);
        let body = [&self.nth.to_be_bytes()[..], body].concat();
        self.send_packet(kind, &body)
    }

    /// Receives the next response: a packet of the expected type, or a status.
    fn answer(&mut self, expected: u8) -> Result<SftpReply, StoreError> {
        let (kind, mut body) = self.receive_packet()?;
        body.try_get_u32().map_err(|_| malformed())?;
        if kind == expected && kind != STATUS {
            return Ok(SftpReply::Body(body));
        }
        let code = body.try_get_u32().map_err(|_| malformed())?;
        match (kind, code) {
            (STATUS, OK) => Ok(SftpReply::Body(body)),
            (STATUS, EOF) => Ok(SftpReply::End),
            (STATUS, NO_SUCH_FILE) => Err(StoreError::NotFound),
            (STATUS, PERMISSION_DENIED) => Err(StoreError::Denied),
            (STATUS, _) => {
                let text = take_text(&mut body).unwrap_or_default();
                Err(StoreError::Other(text))
            }
            _ => Err(malformed()),
        }
    }

    /// Sends a request, and receives its response of the expected type.
    fn call(&mut self, kind: u8, body: &[u8], expected: u8) -> Result<Bytes, StoreError> {
        self.request(kind, body)?;
        match self.answer(expected)? {
            SftpReply::Body(body) => Ok(body),
            SftpReply::End => Err(malformed()),
        }
    }

    fn open(&mut self, path: &str, flags: u32) -> Result<Bytes, StoreError> {
        let mut body = text(path);
        body.put_u32(flags);
        body.put_u32(0); // no attributes
        let mut handle = self.call(OPEN, &body, HANDLE)?;
        take_bytes(&mut handle)
    }

    fn close(&mut self, handle: &[u8]) -> Result<(), StoreError> {
        self.call(CLOSE, &string(handle), STATUS).map(drop)
    }

    /// Reads a range of a file; the whole file without a range.
    pub(crate) fn read_file(
        &mut self,
        path: &str,
        range: Option<(u64, usize)>,
    ) -> Result<Vec<u8>, StoreError> {
        let handle = self.open(path, FOR_READING)?;
        let read = self.read_handle(&handle, range);
        let closed = self.close(&handle);
        let bytes = read?;
        closed.map(|()| bytes)
    }

    fn read_handle(
        &mut self,
        handle: &[u8],
        range: Option<(u64, usize)>,
    ) -> Result<Vec<u8>, StoreError> {
        let (offset, len) = match range {
            Some(range) => range,
            None => {
                let mut attributes = self.call(FSTAT, &string(handle), ATTRS)?;
                let size = Attributes::take(&mut attributes)?.size;
                let size = usize::try_from(size)
                    .ok()
                    .filter(|size| *size <= MOST_BYTES);
                (0, size.ok_or(StoreError::LongAnswer(MOST_BYTES))?)
            }
        };
        let (mut bytes, mut next) = (Vec::new(), 0);
        let mut on_their_way = VecDeque::new();
        let mut result = Ok(());
        while next < len && result.is_ok() || !on_their_way.is_empty() {
            if next < len && result.is_ok() && on_their_way.len() < MOST_AT_ONCE {
                let piece = PIECE.min(len - next);
                let mut body = string(handle);
                body.put_u64(offset + next as u64);
                body.put_u32(piece as u32);
                self.request(READ, &body)?;
                on_their_way.push_back(piece);
                next += piece;
                continue;
            }
            let Some(wanted) = on_their_way.pop_front() else {
                break;
            };
            // Receive all responses even after an error, so that the next request gets its own
            // response.
            match self.answer(DATA) {
                Ok(SftpReply::Body(mut data)) => match take_bytes(&mut data) {
                    Ok(data) if data.len() == wanted => bytes.extend_from_slice(&data),
                    Ok(_) => result = Err(StoreError::Other("a file is too short".to_owned())),
                    Err(error) => result = Err(error),
                },
                Ok(SftpReply::End) => {
                    result = Err(StoreError::Other("a file is too short".to_owned()));
                }
                Err(error) => result = Err(error),
            }
        }
        result.map(|()| bytes)
    }

    /// The mode of a file.
    pub(crate) fn mode(&mut self, path: &str) -> Result<u32, StoreError> {
        let mut attributes = self.call(STAT, &text(path), ATTRS)?;
        Ok(Attributes::take(&mut attributes)?.mode)
    }

    /// Creates a new file with a mode, whatever the server's umask, and syncs it to disk.
    pub(crate) fn write_file(
        &mut self,
        path: &str,
        content: &[Bytes],
        mode: u32,
    ) -> Result<(), StoreError> {
        let handle = self.open(path, NEW_FOR_WRITING)?;
        // Ignore errors: not every server supports modes.
        let _ = self.call(
            FSETSTAT,
            &[string(&handle), only_mode(mode)].concat(),
            STATUS,
        );
        let mut written = self.write_handle(&handle, content);
        if written.is_ok() && self.has(FSYNC) {
            let body = [text(FSYNC), string(&handle)].concat();
            written = self.call(EXTENDED, &body, STATUS).map(drop);
        }
        let closed = self.close(&handle);
        written.and(closed)
    }

    fn write_handle(&mut self, handle: &[u8], content: &[Bytes]) -> Result<(), StoreError> {
        let (mut offset, mut unanswered) = (0, 0);
        let mut result = Ok(());
        for piece in content.iter().flat_map(|part| part.chunks(PIECE)) {
            if unanswered == MOST_AT_ONCE {
                result = result.and(self.answer(STATUS).map(drop));
                unanswered -= 1;
            }
            if result.is_err() {
                break;
            }
            let mut body = string(handle);
            body.put_u64(offset);
            body.extend(string(piece));
            self.request(WRITE, &body)?;
            unanswered += 1;
            offset += piece.len() as u64;
        }
        for _ in 0..unanswered {
            result = result.and(self.answer(STATUS).map(drop));
        }
        result
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), StoreError> {
        let names = [text(from), text(to)].concat();
        match self.has(POSIX_RENAME) {
            true => self.call(EXTENDED, &[text(POSIX_RENAME), names].concat(), STATUS),
            false => self.call(RENAME, &names, STATUS),
        }
        .map(drop)
    }

    /// Creates a directory with a mode, whatever the server's umask.
    pub(crate) fn mkdir(&mut self, path: &str, mode: u32) -> Result<(), StoreError> {
        let body = [text(path), only_mode(mode)].concat();
        self.call(MKDIR, &body, STATUS)?;
        let _ = self.call(SETSTAT, &body, STATUS);
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &str) -> Result<(), StoreError> {
        self.call(REMOVE, &text(path), STATUS).map(drop)
    }

    /// The entries of a directory with UTF-8 names, except `.` and `..`. `room` is the number of
    /// bytes of memory that entries may still take; the size of the new entries is subtracted.
    pub(crate) fn read_dir(
        &mut self,
        path: &str,
        room: &mut usize,
    ) -> Result<Vec<DirEntry>, StoreError> {
        let mut handle = self.call(OPENDIR, &text(path), HANDLE)?;
        let handle = take_bytes(&mut handle)?;
        let mut found = Vec::new();
        let listed = loop {
            if let Err(error) = self.request(READDIR, &string(&handle)) {
                break Err(error);
            }
            match self.answer(NAME) {
                Ok(SftpReply::Body(mut names)) => {
                    // Measure the entries in memory, because a short entry takes more memory than
                    // its packet.
                    let known = found.len();
                    if let Err(error) = take_entries(&mut names, &mut found) {
                        break Err(error);
                    }
                    let entries = &found[known..];
                    let each = |it: &DirEntry| path.len() + it.name.len() + size_of::<DirEntry>();
                    let bytes = 1 + entries.iter().map(each).sum::<usize>();
                    match room.checked_sub(bytes) {
                        Some(left) => *room = left,
                        None => break Err(StoreError::LongAnswer(MOST_BYTES)),
                    }
                }
                Ok(SftpReply::End) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let closed = self.close(&handle);
        listed.and(closed).map(|()| found)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

enum SftpReply {
    /// The bytes after the request number in a packet of the expected type.
    Body(Bytes),
    /// The server's status EOF: the end of the file or directory.
    End,
}

struct Attributes {
    size: u64,
    mode: u32,
}

impl Attributes {
    fn take(from: &mut Bytes) -> Result<Attributes, StoreError> {
        Self::parse(from).ok_or_else(malformed)
    }

    fn parse(from: &mut Bytes) -> Option<Attributes> {
        let flags = from.try_get_u32().ok()?;
        let (mut size, mut mode) = (0, 0);
        if flags & HAS_SIZE != 0 {
            size = from.try_get_u64().ok()?;
        }
        if flags & HAS_OWNER != 0 {
            from.try_get_u64().ok()?;
        }
        if flags & HAS_MODE != 0 {
            mode = from.try_get_u32().ok()?;
        }
        if flags & HAS_TIMES != 0 {
            from.try_get_u64().ok()?;
        }
        if flags & HAS_EXTENDED != 0 {
            for _ in 0..from.try_get_u32().ok()? {
                take_bytes(from).ok()?;
                take_bytes(from).ok()?;
            }
        }
        Some(Attributes { size, mode })
    }
}

fn take_entries(from: &mut Bytes, found: &mut Vec<DirEntry>) -> Result<(), StoreError> {
    const TYPE: u32 = 0o170_000;
    const DIRECTORY: u32 = 0o040_000;
    for _ in 0..from.try_get_u32().map_err(|_| malformed())? {
        let (name, _) = (take_bytes(from)?, take_bytes(from)?);
        let attributes = Attributes::take(from)?;
        match std::str::from_utf8(&name) {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => found.push(DirEntry {
                name: name.to_owned(),
                size: attributes.size,
                is_dir: attributes.mode & TYPE == DIRECTORY,
            }),
        }
    }
    Ok(())
}

/// File attributes that only contain the mode.
fn only_mode(mode: u32) -> Vec<u8> {
    [HAS_MODE.to_be_bytes(), mode.to_be_bytes()].concat()
}

/// A string in SFTP's encoding: length, then bytes.
fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn text(text: &str) -> Vec<u8> {
    string(text.as_bytes())
}

fn take_bytes(from: &mut Bytes) -> Result<Bytes, StoreError> {
    let len = from.try_get_u32().map_err(|_| malformed())? as usize;
    match len <= from.len() {
        true => Ok(from.split_to(len)),
        false => Err(malformed()),
    }
}

fn take_text(from: &mut Bytes) -> Result<String, StoreError> {
    take_bytes(from).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn malformed() -> StoreError {
    StoreError::Other("an answer of the SFTP server is malformed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_parsed_from_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut found = Vec::new();
            let _ = take_entries(&mut Bytes::from(bytes), &mut found);
        }
    }
}
