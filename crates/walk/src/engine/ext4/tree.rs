//! The names: from the top down, level by level, the inodes of directories, and then their blocks.
//!
//! A level is read in the order in which it lies on the device, neighbours at once. Whatever is odd
//! about a directory (it is encrypted, it is damaged, it was being written) makes it one that is
//! listed live.

use std::collections::HashMap;
use std::ops::Range;

use gate::sync::Mutex;
use ondisk::dirent::EntryType;
use ondisk::ext4::directory::{Name, checksum_holds};
use ondisk::ext4::{Branch, Error, Found, Inode, Map, Names as OnDisk};

use super::device::Device;
use super::{Claims, Crew};
use crate::digest::below;
use crate::entry::append;
use crate::job::{Below, Crossing, Job, Place};

/// Bytes that are read at a time, at most, unless a single block has more.
pub(super) const WINDOW: u64 = 256 << 10;

/// The directories that were found, and the names in them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The directories. The first is the top; each comes after the one that it is in.
    pub(super) nodes: Vec<Node>,
    /// Their names.
    text: Vec<u8>,
    /// All names, in the portions of the threads that found them.
    pub(super) names: Vec<Names>,
    /// What is wrong with directories on the device.
    pub(super) faults: HashMap<u32, Error>,
    /// Names, and the directories that they are in, that led to a directory which had been found
    /// before.
    pub(super) twice: Vec<(u32, Vec<u8>)>,
    /// The inodes of `nodes`.
    entered: Marks,
}

/// How what is in a directory is learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// From the device.
    Raw,
    /// By listing it.
    Live,
    /// Not at all: it is no directory, or is no longer there.
    Gone,
}

/// A directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) inode: u32,
    /// What stands for its name in digests.
    pub(super) hash: u64,
    pub(super) depth: u32,
    /// What the checksums of its blocks begin with.
    seed: u32,
    text: usize,
    length: u8,
    pub(super) state: State,
}

/// Names that a thread has found.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) list: Vec<Item>,
    text: Vec<u8>,
}

/// A name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// The directory that it is in.
    pub(super) dir: u32,
    pub(super) inode: u32,
    /// Where it begins in the text, times 256, and its length.
    text: u64,
}

impl Names {
    fn push(&mut self, dir: u32, name: &Name<'_>) {
        self.list.push(Item {
            dir,
            inode: name.inode,
            text: (self.text.len() as u64) << 8 | name.name.len() as u64,
        });
        self.text.extend_from_slice(name.name);
    }

    pub(super) fn name(&self, item: &Item) -> &[u8] {
        let from = (item.text >> 8) as usize;
        self.text
            .get(from..from + (item.text & 0xff) as usize)
            .unwrap_or_default()
    }
}

impl Tree {
    /// Adds a directory that was found under a name. `None` if it was found before, which can only
    /// be damage.
    fn add(&mut self, parent: u32, inode: u32, name: &[u8]) -> Option<u32> {
        let above = self.nodes.get(parent as usize)?;
        if !self.entered.mark(u64::from(inode), 1) {
            return None;
        }
        let (hash, depth) = (below(above.hash, name), above.depth + 1);
        let text = self.text.len();
        self.text.extend_from_slice(name);
        let length = name.len() as u8; // as it is on the device
        self.nodes.push(Node {
            parent,
            inode,
            hash,
            depth,
            seed: 0,
            text,
            length,
            state: State::Raw,
        });
        Some(self.nodes.len() as u32 - 1)
    }

    /// The name of a directory in the one that it is in.
    pub(super) fn name(&self, node: &Node) -> &[u8] {
        self.text
            .get(node.text..node.text + usize::from(node.length))
            .unwrap_or_default()
    }

    /// Puts the name of a directory, below the top, into `rel`, in the place of what is there.
    pub(super) fn rel(&self, mut index: u32, rel: &mut Vec<u8>) {
        let mut way = Vec::new();
        while index != 0 {
            let node = &self.nodes[index as usize];
            way.push(self.name(node));
            index = node.parent;
        }
        rel.clear();
        way.iter().rev().for_each(|name| append(rel, name));
    }

    /// A directory, as the rest of the walk has it.
    pub(super) fn place(&self, index: u32) -> Place {
        let node = &self.nodes[index as usize];
        let mut rel = Vec::new();
        self.rel(index, &mut rel);
        Place {
            rel,
            hash: node.hash,
            depth: node.depth,
        }
    }

    /// Whether a directory with this inode was found on the device.
    pub(super) fn has(&self, inode: u64) -> bool {
        self.entered.has(inode)
    }

    fn note(&mut self, finding: Finding) {
        let node = &mut self.nodes[finding.node as usize];
        match finding.what {
            Ok((state, seed)) => (node.state, node.seed) = (state, seed),
            Err(fault) => {
                node.state = State::Live;
                self.faults.insert(finding.node, fault);
            }
        }
    }
}

/// A set of numbers that lie close together.
#[derive(Debug, Default)]
pub(super) struct Marks(HashMap<u64, Box<[u64; 64]>>);

impl Marks {
    /// Adds some. False if any of them was there.
    fn mark(&mut self, from: u64, count: u64) -> bool {
        let mut is_new = true;
        let mut at = from;
        while at < from + count {
            let part = self.0.entry(at >> 12).or_insert_with(|| Box::new([0; 64]));
            let end = (((at >> 12) + 1) << 12).min(from + count);
            for number in at..end {
                let (word, bit) = (&mut part[(number >> 6 & 63) as usize], 1 << (number & 63));
                is_new &= *word & bit == 0;
                *word |= bit;
            }
            at = end;
        }
        is_new
    }

    fn has(&self, number: u64) -> bool {
        self.0
            .get(&(number >> 12))
            .is_some_and(|part| part[(number >> 6 & 63) as usize] >> (number & 63) & 1 == 1)
    }
}

/// Finds everything below the top.
pub(super) fn descend(crew: &Crew<'_>) -> Tree {
    let job = crew.job;
    let top = job.top;
    let mut tree = Tree::default();
    let inode = u32::try_from(top.meta.ino).unwrap_or(0);
    tree.entered.mark(top.meta.ino, 1);
    let (hash, depth) = (top.hash, top.depth);
    tree.nodes.push(Node {
        parent: 0,
        inode,
        hash,
        depth,
        seed: 0,
        text: 0,
        length: 0,
        state: State::Raw,
    });

    let claimed = Mutex::new(Marks::default());
    let mut hints = HashMap::from([(0, job.below)]);
    let mut scouts: Vec<_> = (0..crew.threads)
        .map(|_| Scout::new(crew, &claimed))
        .collect();
    let mut fresh = vec![0];
    while !fresh.is_empty() && !job.is_over() {
        fresh.sort_unstable_by_key(|&index: &u32| tree.nodes[index as usize].inode);
        crew.share(fresh.len(), 256, &mut scouts, |scout, claims| {
            scout.inodes(claims, &fresh, &tree, &hints)
        });
        let mut spans = Vec::new();
        for scout in &mut scouts {
            spans.append(&mut scout.spans);
            scout
                .findings
                .drain(..)
                .for_each(|finding| tree.note(finding));
        }
        let spans = sort_out(
            spans,
            &mut tree,
            &claimed,
            crew.device.superblock.block_size,
        );
        crew.share(spans.len(), 128, &mut scouts, |scout, claims| {
            scout.blocks(claims, &spans, &tree, &hints)
        });

        fresh.clear();
        for scout in &mut scouts {
            scout
                .findings
                .drain(..)
                .for_each(|finding| tree.note(finding));
            for child in scout.children.drain(..) {
                let name = scout.names.name(&scout.names.list[child.item as usize]);
                if let Some(index) = tree.add(child.dir, child.inode, name) {
                    fresh.push(index);
                    hints.extend(
                        hints
                            .get(&child.dir)
                            .and_then(|hint| hint.step(name))
                            .map(|hint| (index, hint)),
                    );
                } else if child.is_sure {
                    tree.twice.push((child.dir, name.to_vec()));
                }
            }
        }
    }
    tree.names = scouts
        .into_iter()
        .map(|scout| scout.names)
        .filter(|names| !names.list.is_empty())
        .collect();
    tree
}

/// Sorts what is to be read by place, in pieces for several threads. Blocks belong to one directory
/// each; who claims the blocks of another is damaged, and is not to make us read the same bytes for
/// ever.
fn sort_out(
    mut spans: Vec<Span>,
    tree: &mut Tree,
    claimed: &Mutex<Marks>,
    block_size: u32,
) -> Vec<Span> {
    let mut claimed = claimed.lock();
    spans.sort_unstable_by_key(|span| span.place);
    let most = (WINDOW as u32 / block_size).max(1);
    let mut pieces = Vec::with_capacity(spans.len());
    for mut span in spans {
        if !claimed.mark(span.place, u64::from(span.blocks)) {
            tree.note(Finding {
                node: span.node,
                what: Err(Error::BlocksShared),
            });
            continue;
        }
        while span.blocks > most {
            pieces.push(Span {
                blocks: most,
                ..span
            });
            span = Span {
                place: span.place + u64::from(most),
                blocks: span.blocks - most,
                is_root: false,
                ..span
            };
        }
        pieces.push(span);
    }
    pieces
}

/// Blocks of a directory that lie one after the other.
#[derive(Clone, Copy)]
struct Span {
    place: u64,
    blocks: u32,
    node: u32,
    /// Whether the first one is the root of an index.
    is_root: bool,
}

/// What was learnt of a directory: how it is read and what its checksums begin with, or what is
/// wrong with it.
struct Finding {
    node: u32,
    what: Result<(State, u32), Error>,
}

/// A name that is a directory's, or may be.
struct Child {
    dir: u32,
    inode: u32,
    item: u32,
    is_sure: bool,
}

/// A directory whose names are being read.
struct Here<'a> {
    node: u32,
    path: Vec<u8>,
    hint: Option<&'a Below>,
    /// Whether directories in it are entered.
    enters: bool,
}

/// What one thread finds.
struct Scout<'a> {
    job: &'a Job<'a>,
    device: &'a Device,
    claimed: &'a Mutex<Marks>,
    buffer: Vec<u8>,
    names: Names,
    findings: Vec<Finding>,
    spans: Vec<Span>,
    children: Vec<Child>,
}

type Hints<'a> = HashMap<u32, &'a Below>;

impl<'a> Scout<'a> {
    fn new(crew: &'a Crew<'_>, claimed: &'a Mutex<Marks>) -> Scout<'a> {
        Scout {
            job: crew.job,
            device: crew.device,
            claimed,
            buffer: Vec::new(),
            names: Names::default(),
            findings: Vec::new(),
            spans: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Reads the inodes of some directories, and learns where their blocks lie.
    fn inodes(&mut self, claims: Claims<'_>, fresh: &[u32], tree: &Tree, hints: &Hints<'_>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for range in claims {
            each_inode(
                self.device,
                tree,
                &fresh[range],
                &mut buffer,
                |node, inode| {
                    let spans = self.spans.len();
                    let what = match inode {
                        None => Ok((State::Live, 0)),
                        Some(inode) if !inode.is_directory() => Ok((State::Gone, 0)),
                        Some(inode) if inode.is_encrypted() => Ok((State::Live, 0)),
                        Some(inode) if inode.is_inline() => self.inline(node, &inode, tree, hints),
                        Some(inode) => self.map(node, &inode),
                    };
                    if what.is_err() {
                        self.spans.truncate(spans);
                    }
                    self.findings.push(Finding { node, what });
                },
            );
        }
        self.buffer = buffer;
    }

    /// Where the blocks of a directory lie.
    fn map(&mut self, node: u32, inode: &Inode<'_>) -> Result<(State, u32), Error> {
        let superblock = &self.device.superblock;
        let map = Map::new(inode, superblock);
        let mut branches: Vec<Branch> = Vec::new();
        let is_indexed = inode.is_indexed();
        let mut sort = |found: Found, branches: &mut Vec<Branch>| match found {
            Found::Branch(branch) => branches.push(branch),
            Found::Run(run) => {
                let is_root = is_indexed && run.logical == 0;
                self.spans.push(Span {
                    place: run.place,
                    blocks: run.blocks,
                    node,
                    is_root,
                });
            }
        };
        map.root(inode.body(), &mut |found| sort(found, &mut branches))?;
        let mut block = Vec::new();
        while let Some(branch) = branches.pop() {
            if !self.claimed.lock().mark(branch.place, 1) {
                return Err(Error::BlocksShared);
            }
            block.resize(superblock.block_size as usize, 0);
            let read = self
                .device
                .read(branch.place * u64::from(superblock.block_size), &mut block);
            read.map_err(|_| Error::BlocksUnreadable)?;
            map.branch(branch, &block, &mut |found| sort(found, &mut branches))?;
        }
        Ok((State::Raw, inode.seed()))
    }

    /// The names of a directory that lies in its inode.
    fn inline(
        &mut self,
        node: u32,
        inode: &Inode<'_>,
        tree: &Tree,
        hints: &Hints<'_>,
    ) -> Result<(State, u32), Error> {
        let rest = inode.inline_value().ok_or(Error::NoInlineData)?;
        let content = [&inode.body()[..], rest].concat();
        let here = self.here(node, tree, hints);
        let mut names = OnDisk::inline(&content, &self.device.superblock);
        names
            .by_ref()
            .for_each(|name| self.name(&here, &name, tree));
        names.end().map(|()| (State::Raw, inode.seed()))
    }

    /// Reads the names in some blocks.
    fn blocks(&mut self, claims: Claims<'_>, spans: &[Span], tree: &Tree, hints: &Hints<'_>) {
        /// Blocks that are not asked for, and are read because that costs less than another call.
        const GAP: u64 = 1;
        let superblock = &self.device.superblock;
        let block_size = superblock.block_size as usize;
        let lies = |span: &Span| span.place..span.place + u64::from(span.blocks);
        let mut buffer = std::mem::take(&mut self.buffer);
        for range in claims {
            let mut rest = &spans[range];
            prepare(self.device, rest, lies, block_size as u64);
            while !rest.is_empty() {
                let (count, window) = stretch(rest, lies, GAP, WINDOW / block_size as u64);
                let (some, others) = rest.split_at(count);
                rest = others;
                buffer.resize((window.end - window.start) as usize * block_size, 0);
                if self
                    .device
                    .read(window.start * block_size as u64, &mut buffer)
                    .is_err()
                {
                    let unread = |span: &Span| Finding {
                        node: span.node,
                        what: Err(Error::BlocksUnreadable),
                    };
                    self.findings.extend(some.iter().map(unread));
                    continue;
                }
                let mut here = self.here(some[0].node, tree, hints);
                for span in some {
                    if here.node != span.node {
                        here = self.here(span.node, tree, hints);
                    }
                    let from = (span.place - window.start) as usize * block_size;
                    let blocks = &buffer[from..from + span.blocks as usize * block_size];
                    for (nth, block) in blocks.chunks_exact(block_size).enumerate() {
                        if let Err(fault) = self.block(&here, block, span.is_root && nth == 0, tree)
                        {
                            self.findings.push(Finding {
                                node: span.node,
                                what: Err(fault),
                            });
                        }
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    fn block(
        &mut self,
        here: &Here<'_>,
        block: &[u8],
        is_root: bool,
        tree: &Tree,
    ) -> Result<(), Error> {
        let superblock = &self.device.superblock;
        if superblock.has_checksums()
            && !checksum_holds(block, tree.nodes[here.node as usize].seed, is_root)
        {
            return Err(Error::DirectoryChecksum);
        }
        let mut names = OnDisk::in_block(block, superblock);
        for name in names.by_ref() {
            self.name(here, &name, tree);
        }
        names.end()
    }

    fn here<'h>(&self, node: u32, tree: &Tree, hints: &Hints<'h>) -> Here<'h> {
        let wants_path = self.job.filter.wants_paths();
        let path = if wants_path {
            self.job.path(&tree.place(node))
        } else {
            Vec::new()
        };
        let enters = self.job.filter.enters(tree.nodes[node as usize].depth + 1);
        Here {
            node,
            path,
            hint: hints.get(&node).copied(),
            enters,
        }
    }

    #[inline]
    fn name(&mut self, here: &Here<'_>, name: &Name<'_>, tree: &Tree) {
        if !self.job.filter.keeps(&here.path, name.name)
            || here.hint.is_some() && self.is_crossing(here, name, tree)
        {
            return;
        }
        if here.enters && name.entry_type != EntryType::Other {
            let is_sure = name.entry_type == EntryType::Directory;
            self.children.push(Child {
                dir: here.node,
                inode: name.inode,
                item: self.names.list.len() as u32,
                is_sure,
            });
        }
        self.names.push(here.node, name);
    }

    /// Whether another mount lies at a name, which is then passed on. The mount table gives the
    /// hint, and statx the word.
    #[cold]
    fn is_crossing(&self, here: &Here<'_>, name: &Name<'_>, tree: &Tree) -> bool {
        if !here
            .hint
            .and_then(|hint| hint.step(name.name))
            .is_some_and(Below::is_mount)
        {
            return false;
        }
        let dir = tree.place(here.node);
        let is_crossing = self
            .job
            .look(&dir, name.name)
            .is_ok_and(|seen| self.job.is_crossing(&seen));
        if is_crossing {
            self.job.cross(Crossing {
                dir,
                name: name.name.to_vec(),
            });
        }
        is_crossing
    }
}

/// Looks at the inodes of some directories: `None` where the kernel has to be asked.
pub(super) fn each_inode(
    device: &Device,
    tree: &Tree,
    nodes: &[u32],
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(u32, Option<Inode<'_>>),
) {
    /// Bytes that are not asked for, and are read because that costs less than another call.
    const GAP: u64 = 1024;
    let size = u64::from(device.superblock.inode_size);
    let mut places = Vec::with_capacity(nodes.len());
    for &node in nodes {
        match device.place_of(tree.nodes[node as usize].inode) {
            Some(place) => places.push((place, node)),
            None => each(node, None),
        }
    }
    let lies = |&(place, _): &(u64, u32)| place..place + size;
    prepare(device, &places, lies, 1);
    let mut rest = &places[..];
    while !rest.is_empty() {
        let (count, window) = stretch(rest, lies, GAP, WINDOW);
        let (some, others) = rest.split_at(count);
        rest = others;
        buffer.resize((window.end - window.start) as usize, 0);
        let is_read = device.read(window.start, buffer).is_ok();
        for &(place, node) in some {
            let raw = &buffer[(place - window.start) as usize..];
            let inode = if is_read {
                Inode::parse(&device.superblock, tree.nodes[node as usize].inode, raw)
            } else {
                None
            };
            each(node, inode);
        }
    }
}

/// How many items from the first on lie so close together that they are read at once, and where
/// they lie.
fn stretch<T>(
    items: &[T],
    lies: impl Fn(&T) -> Range<u64>,
    gap: u64,
    most: u64,
) -> (usize, Range<u64>) {
    let mut window = lies(&items[0]);
    let mut count = 1;
    for item in &items[1..] {
        let next = lies(item);
        if next.start < window.end
            || next.start - window.end > gap
            || next.end - window.start > most
        {
            break;
        }
        window.end = next.end;
        count += 1;
    }
    (count, window)
}

/// Has the kernel begin to read items, if they are not in memory, and what lies between them with
/// them.
fn prepare<T>(device: &Device, items: &[T], lies: impl Fn(&T) -> Range<u64> + Copy, unit: u64) {
    const GAP: u64 = 64 << 10;
    const MOST: u64 = 4 << 20;
    let mut rest = items;
    while device.is_cold() && !rest.is_empty() {
        let (count, window) = stretch(rest, lies, GAP / unit, MOST / unit);
        device.will_need(window.start * unit, (window.end - window.start) * unit);
        rest = &rest[count..];
    }
}
