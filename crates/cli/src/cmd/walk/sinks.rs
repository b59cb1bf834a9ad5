//! Where the entries of a walk go: lines on stdout, the largest files, what each directory holds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gate::fs::Attributes;
use gate::sync::Mutex;
use ondisk::Dev;
use report::du::{Directory, Du, Key, Sums};
use report::entries::{ATTRIBUTES, Form, Lines, Row};
use report::walk::Large;
use walk::{Dir, EngineKind, Entry, Meta, MountContext, Sink, Type, Worker, digest};

use crate::error::Error;
use crate::out::Out;

/// A sink whose walk is watched: whoever shows how far it is wants to know where it is.
pub(super) struct Watched<'a>(pub(super) &'a dyn Sink);

impl Sink for Watched<'_> {
    fn begin(&self, ground: &MountContext<'_>, by: EngineKind) {
        self.0.begin(ground, by);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        self.0.worker()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// Entries as lines on stdout. Each thread fills a buffer of its own, so that they wait for each
/// other only to write.
pub(super) struct Output<'a> {
    form: Form,
    out: &'a Out,
    /// A buffer is written out when it has so many bytes.
    enough: usize,
    state: Mutex<State>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Whole lines: first the head, later what threads that have ended left behind.
    kept: Vec<u8>,
    failed: Option<Error>,
}

impl<'a> Output<'a> {
    /// Bytes that are written at a time.
    const PIECE: usize = 128 << 10;

    pub(super) fn new(form: Form, out: &'a Out) -> Output<'a> {
        // Who looks on wants to see them as they come.
        let enough = if out.on_terminal() { 1 } else { Output::PIECE };
        let state = Mutex::new(State {
            kept: form.head().to_vec(),
            failed: None,
        });
        Output {
            form,
            out,
            enough,
            state,
            is_closed: AtomicBool::new(false),
        }
    }

    fn write(&self, state: &mut State, lines: &mut Vec<u8>) {
        if state.failed.is_none()
            && let Err(failed) = self.out.data(lines)
        {
            state.failed = Some(failed);
            self.is_closed.store(true, Ordering::Relaxed);
        }
        lines.clear();
    }

    fn put(&self, lines: &mut Vec<u8>) {
        let mut state = self.state.lock();
        let mut kept = std::mem::take(&mut state.kept);
        if !kept.is_empty() {
            self.write(&mut state, &mut kept);
        }
        self.write(&mut state, lines);
    }

    fn keep(&self, lines: &[u8]) {
        let mut state = self.state.lock();
        state.kept.extend_from_slice(lines);
        if state.kept.len() >= self.enough {
            let mut kept = std::mem::take(&mut state.kept);
            self.write(&mut state, &mut kept);
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Also when something before could not be written.
    pub(super) fn end(self) -> Result<(), Error> {
        let State { kept, failed } = self.state.into_inner();
        match failed {
            Some(failed) => Err(failed),
            None => self.out.data(&kept),
        }
    }
}

impl Sink for Output<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Writer {
            lines: Lines::new(self.form),
            to: self,
        })
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

struct Writer<'a> {
    lines: Lines,
    to: &'a Output<'a>,
}

impl Worker for Writer<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let mut is_entered = false;
        for entry in entries {
            let row = || row(&entry.meta);
            if entry.name.is_empty() {
                self.lines.top(dir.path, row);
                continue;
            }
            if !is_entered {
                self.lines.enter(dir.path);
                is_entered = true;
            }
            self.lines.entry(entry.name, row);
            if self.lines.buffer.len() >= Output::PIECE {
                self.to.put(&mut self.lines.buffer);
            }
        }
        if self.lines.buffer.len() >= self.to.enough {
            self.to.put(&mut self.lines.buffer);
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.to.keep(&self.lines.buffer);
    }
}

/// Names of [`Meta::ATTRIBUTES`].
const NAMES: [(Attributes, &str); ATTRIBUTES] = [
    (Attributes::COMPRESSED, "compressed"),
    (Attributes::IMMUTABLE, "immutable"),
    (Attributes::APPEND, "append"),
    (Attributes::NODUMP, "nodump"),
    (Attributes::ENCRYPTED, "encrypted"),
    (Attributes::VERITY, "verity"),
];

/// What is said of an entry.
fn row(meta: &Meta) -> Row {
    let mut attributes = [""; NAMES.len()];
    if meta.attributes != 0 {
        let set = NAMES
            .iter()
            .filter(|(attribute, _)| meta.attributes & attribute.bits() != 0);
        attributes
            .iter_mut()
            .zip(set)
            .for_each(|(to, (_, name))| *to = name);
    }
    let kind = meta.kind();
    let time = |time: walk::entry::Time| (time.sec, time.nsec);
    Row {
        kind: kind.name(),
        ino: meta.ino,
        mode: meta.mode & 0o7777,
        nlink: meta.nlink,
        uid: meta.uid,
        gid: meta.gid,
        size: meta.size,
        blocks: meta.blocks,
        rdev: matches!(kind, Type::Block | Type::Char).then_some(meta.rdev),
        dev: meta.dev,
        mount: (meta.mount != 0).then_some(meta.mount),
        atime: time(meta.atime),
        mtime: time(meta.mtime),
        ctime: time(meta.ctime),
        btime: meta.btime.map(time),
        attributes,
        generation: meta.generation,
        xattrs: meta.xattrs,
    }
}

/// What files are ordered by: blocks, size; and what tells one from another.
type Rank = (u64, u64, Dev, u64);

/// The largest plain files, each once, whatever names it has.
pub(super) struct Largest {
    most: usize,
    files: Mutex<BTreeMap<Rank, Vec<u8>>>,
}

impl Largest {
    pub(super) fn new(most: usize) -> Largest {
        Largest {
            most,
            files: Mutex::default(),
        }
    }

    /// The largest first.
    pub(super) fn files(self) -> Vec<Large> {
        let files = self.files.into_inner();
        let large = |((blocks, bytes, _, _), path)| Large {
            path,
            bytes,
            blocks,
            kind: Type::File.name(),
        };
        files.into_iter().rev().map(large).collect()
    }

    /// Puts in a file, and takes out the smallest if there are too many. Of several names, the
    /// first by its bytes stays.
    fn put(&self, files: &mut BTreeMap<Rank, Vec<u8>>, rank: Rank, path: Vec<u8>) {
        let name = files.entry(rank).or_insert_with(|| path.clone());
        if path < *name {
            *name = path;
        }
        if files.len() > self.most {
            files.pop_first();
        }
    }
}

impl Sink for Largest {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Picker {
            files: BTreeMap::new(),
            to: self,
        })
    }
}

struct Picker<'a> {
    files: BTreeMap<Rank, Vec<u8>>,
    to: &'a Largest,
}

impl Worker for Picker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        for entry in entries
            .iter()
            .filter(|entry| entry.meta.kind() == Type::File)
        {
            let meta = &entry.meta;
            let rank = (meta.blocks, meta.size, meta.dev, meta.ino);
            let is_full = self.files.len() >= self.to.most;
            if is_full
                && self
                    .files
                    .first_key_value()
                    .is_some_and(|(least, _)| rank < *least)
            {
                continue;
            }
            let mut path = Vec::new();
            entry.path(dir, &mut path);
            self.to.put(&mut self.files, rank, path);
        }
    }
}

impl Drop for Picker<'_> {
    fn drop(&mut self) {
        let mut all = self.to.files.lock();
        for (rank, path) in std::mem::take(&mut self.files) {
            self.to.put(&mut all, rank, path);
        }
    }
}

/// What each directory holds.
pub(super) struct Usage<'a> {
    dirs: &'a [Vec<u8>],
    /// The DIR that is being walked.
    nth: AtomicU64,
    du: Mutex<Du>,
}

impl<'a> Usage<'a> {
    pub(super) fn new(dirs: &'a [Vec<u8>]) -> Usage<'a> {
        Usage {
            dirs,
            nth: AtomicU64::new(0),
            du: Mutex::default(),
        }
    }

    pub(super) fn finish(self) -> report::du::Usage {
        self.du.into_inner().finish()
    }
}

impl Sink for Usage<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Adder {
            du: Du::default(),
            to: self,
        })
    }

    fn wants_paths(&self) -> bool {
        false
    }
}

struct Adder<'a> {
    du: Du,
    to: &'a Usage<'a>,
}

impl Worker for Adder<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let place = Key {
            depth: dir.depth,
            hash: dir.hash,
        };
        let mut here = Sums::default();
        for entry in entries {
            let meta = &entry.meta;
            let file = (meta.dev, meta.ino);
            let kind = meta.kind();
            let bytes = if matches!(kind, Type::File | Type::Symlink) {
                meta.size
            } else {
                0
            };
            let sums = Sums {
                blocks: meta.blocks,
                bytes,
            };
            if entry.name.is_empty() {
                // DIRs are walked one after the other, and each comes before what is in it.
                self.to.nth.store(dir.hash, Ordering::Relaxed);
                let name = self
                    .to
                    .dirs
                    .get(dir.hash as usize)
                    .map_or(&b""[..], |dir| dir);
                self.du.directory(
                    place,
                    &Directory {
                        above: None,
                        name,
                        file,
                        sums,
                    },
                );
            } else if kind == Type::Directory {
                let key = Key {
                    depth: dir.depth + 1,
                    hash: digest::below(dir.hash, entry.name),
                };
                self.du.directory(
                    key,
                    &Directory {
                        above: Some(place),
                        name: entry.name,
                        file,
                        sums,
                    },
                );
            } else if meta.nlink > 1 {
                self.du
                    .link(self.to.nth.load(Ordering::Relaxed), place, file, sums);
            } else {
                here.blocks = here.blocks.wrapping_add(sums.blocks);
                here.bytes = here.bytes.wrapping_add(sums.bytes);
            }
        }
        if here != Sums::default() {
            self.du.add(place, here);
        }
    }
}

impl Drop for Adder<'_> {
    fn drop(&mut self) {
        self.to.du.lock().merge(std::mem::take(&mut self.du));
    }
}
